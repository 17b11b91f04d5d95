//! Creating accounts, with and without invites, and deleting them.

use http::Method;
use tidings_proof::Chain;
use tidings_wire::account::DeleteAccountRequest;
use tidings_wire::auth::Action;
use tidings_wire::{Code, Epoch};

use crate::fixture::device::wrap;
use crate::fixture::session::{answer, b64, challenge, create, create_request, try_sign_in};
use crate::fixture::{Device, TestServer};

#[tokio::test]
async fn the_same_genesis_again_is_fine_until_the_account_is_used() {
    let server = TestServer::start(&[]).await;
    let device = Device::new();
    let genesis = device.genesis();
    let request = create_request(&genesis, &device, None);
    for _ in 0..2 {
        assert_eq!(server.client.post_json("/api/accounts", &request).await.status, 200);
    }
    let chain = Chain::begin(&genesis).unwrap();
    let mut a = crate::fixture::Session::sign_in(&server.client, device, chain).await;
    a.link().await;
    let reply = server.client.post_json("/api/accounts", &request).await;
    assert_eq!(reply.code(), Code::AccountExists);
}

#[tokio::test]
async fn what_does_not_verify_makes_no_account() {
    let server = TestServer::start(&[]).await;
    let device = Device::new();
    let genesis = device.genesis();
    let send = |request| {
        let client = server.client.clone();
        async move { client.post_json("/api/accounts", &request).await.code() }
    };
    let good = || create_request(&genesis, &device, None);
    let mut request = good();
    let mut bytes = genesis.encode();
    *bytes.last_mut().unwrap() ^= 1;
    request.genesis = b64(&bytes);
    assert_eq!(send(request).await, Code::ChainInvalid);
    let mut request = good();
    request.genesis = "%".to_owned();
    assert_eq!(send(request).await, Code::InvalidField);
    let mut request = good();
    request.genesis = b64(vec![0; (64 << 10) + 1]);
    assert_eq!(send(request).await, Code::InvalidField);
    let mut request = good();
    request.wraps.clear();
    assert_eq!(send(request).await, Code::WrapsIncomplete);
    let mut request = good();
    request.wraps.push(b64(wrap(Epoch(0), Device::new().id).encode()));
    assert_eq!(send(request).await, Code::WrapsIncomplete);
    let mut request = good();
    request.wraps = vec![b64(wrap(Epoch(1), device.id).encode())];
    assert_eq!(send(request).await, Code::WrapsIncomplete);
    let mut request = good();
    request.wraps = vec!["AAAA".to_owned()];
    assert_eq!(send(request).await, Code::InvalidField);
    let chain = Chain::begin(&genesis).unwrap();
    let code = try_sign_in(&server.client, &device, chain.account()).await.code();
    assert_eq!(code, Code::AccountNotFound);
}

#[tokio::test]
async fn an_invite_is_asked_for_and_used_up() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("admin.sock").display().to_string();
    let server = TestServer::start(&[("registration", "invite"), ("admin_socket", &socket)]).await;
    let operator = tidings_server::admin::Operator::Running(socket.into());
    let device = Device::new();
    let genesis = device.genesis();
    let send = |invite: Option<&str>| {
        let request = create_request(&genesis, &device, invite.map(str::to_owned));
        let client = server.client.clone();
        async move { client.post_json("/api/accounts", &request).await }
    };
    assert_eq!(send(None).await.code(), Code::InviteRequired);
    assert_eq!(send(Some("aaaaa-bbbbb-ccccc-ddddd")).await.code(), Code::InviteInvalid);
    let asked = tidings_server::admin::CreateInvite { life_s: 60, note: "x".to_owned() };
    let made = operator.create_invite(asked).await.unwrap();
    let url = format!("http://{}", server.address());
    assert_eq!(made.command, format!("tidings account create {url} --invite {}", made.code));
    assert_eq!(operator.invites().await.unwrap().len(), 1);
    assert_eq!(send(Some(&made.code.to_uppercase())).await.status, 200);
    assert!(operator.invites().await.unwrap().is_empty());
    // The lost answer of the one who used it; and nobody else.
    assert_eq!(send(Some(&made.code)).await.status, 200);
    let other = Device::new();
    let request = create_request(&other.genesis(), &other, Some(made.code));
    let reply = server.client.post_json("/api/accounts", &request).await;
    assert_eq!(reply.code(), Code::InviteInvalid);
}

#[tokio::test]
async fn guessing_invites_is_limited_by_address() {
    let server =
        TestServer::start(&[("registration", "invite"), ("rates.create_account", "1/h burst 5")])
            .await;
    let device = Device::new();
    let genesis = device.genesis();
    let mut codes = Vec::new();
    for guess in 0..6 {
        let request = create_request(&genesis, &device, Some(format!("guess{guess}")));
        codes.push(server.client.post_json("/api/accounts", &request).await.code());
    }
    assert_eq!(codes[..5], [Code::InviteInvalid; 5]);
    assert_eq!(codes[5], Code::RateLimited);
}

#[tokio::test]
async fn deleting_an_account_takes_a_signature_and_everything() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let stays = create(&server.client, None).await;
    let mut book = a.book("notes");
    a.write(&mut book, 1, 5).await;
    let mut kept = stays.book("notes");
    stays.write(&mut kept, 1, 2).await;

    let remove = |action| {
        let a = a.clone();
        async move {
            let c = challenge(&a.client, &a.device, a.account()).await;
            let signed = answer(&a.device, a.account(), &c, action);
            let (nonce, signature) = (signed.nonce, signed.signature);
            let body = serde_json::to_vec(&DeleteAccountRequest { nonce, signature }).unwrap();
            a.send(Method::DELETE, "/api/accounts/self", &[], body).await
        }
    };
    assert_eq!(remove(Action::SignIn).await.code(), Code::TokenInvalid);
    assert_eq!(b.pull("notes", "").await.entries.len(), 5);
    assert_eq!(remove(Action::DeleteAccount).await.status, 200);
    assert_eq!(b.try_pull("notes", "").await.code(), Code::AccountNotFound);
    let chain = format!("/api/chain?account_id={}", a.account());
    assert_eq!(server.client.get(&chain).await.code(), Code::AccountNotFound);
    let status: tidings_wire::sync::StatusResponse = stays.get("/api/sync/status").await.json();
    assert_eq!(status.blobs, 2);
}
