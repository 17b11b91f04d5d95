//! Signing in: one use, one device, one server; and what a token is good for.

use http::Method;
use tidings_proof::signin::Challenge;
use tidings_proof::{DeviceKind, Signature};
use tidings_wire::account::KeyringResponse;
use tidings_wire::auth::{Action, TokenRequest};
use tidings_wire::{AccountId, Code, ServerId};

use crate::fixture::device::wrap;
use crate::fixture::session::{answer, b64, challenge, try_sign_in, unb64};
use crate::fixture::{Device, Session, TestServer};

#[tokio::test]
async fn a_challenge_is_signed_by_the_server_and_answered_once() {
    let server = TestServer::start(&[]).await;
    let a = server.account().await;
    let c = challenge(&server.client, &a.device, a.account()).await;
    let token_key: [u8; 32] = unb64(&c.token_key).try_into().unwrap();
    let nonce = unb64(&c.nonce).try_into().unwrap();
    let (account, device) = (a.account(), a.device.id);
    let signed = Challenge { server: c.server_id, account, device, nonce };
    let signature = Signature(unb64(&c.signature).try_into().unwrap());
    signed.verify(&token_key, &signature).unwrap();

    let request = answer(&a.device, account, &c, Action::SignIn);
    let first = server.client.post_json("/api/auth/token", &request).await;
    assert_eq!(first.status, 200);
    assert_eq!(first.headers["cache-control"], "no-store");
    let again = server.client.post_json("/api/auth/token", &request).await;
    assert_eq!(again.code(), Code::TokenInvalid);
    assert_eq!(again.headers["www-authenticate"], "Bearer");
}

#[tokio::test]
async fn answers_that_do_not_fit_are_refused() {
    let server = TestServer::start(&[]).await;
    let a = server.account().await;
    let other = server.account().await;
    let client = &server.client;
    let send = |request: TokenRequest| async move {
        client.post_json("/api/auth/token", &request).await.code()
    };
    // Signed for another action, by another device, for another server.
    let c = challenge(client, &a.device, a.account()).await;
    let request = answer(&a.device, a.account(), &c, Action::DeleteAccount);
    assert_eq!(send(request).await, Code::TokenInvalid);
    let c = challenge(client, &a.device, a.account()).await;
    let mut request = answer(&other.device, a.account(), &c, Action::SignIn);
    request.device_id = a.device.id;
    assert_eq!(send(request).await, Code::TokenInvalid);
    let mut c = challenge(client, &a.device, a.account()).await;
    c.server_id = ServerId([1; 32]);
    assert_eq!(send(answer(&a.device, a.account(), &c, Action::SignIn)).await, Code::TokenInvalid);
    // A challenge that nobody opened, or for somebody else.
    let mut c = challenge(client, &a.device, a.account()).await;
    c.nonce = b64([9; 32]);
    assert_eq!(send(answer(&a.device, a.account(), &c, Action::SignIn)).await, Code::TokenInvalid);
    let c = challenge(client, &other.device, other.account()).await;
    assert_eq!(send(answer(&a.device, a.account(), &c, Action::SignIn)).await, Code::TokenInvalid);
    // Who is not in the chain, or in no account.
    let code = try_sign_in(client, &Device::new(), a.account()).await.code();
    assert_eq!(code, Code::TokenInvalid);
    let code = try_sign_in(client, &a.device, AccountId([3; 16])).await.code();
    assert_eq!(code, Code::AccountNotFound);
}

#[tokio::test]
async fn a_paper_key_reads_the_key_ring_and_nothing_else() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let paper = Device::of_kind(DeviceKind::Paper);
    let entry = a.device.adds(&a.chain, &paper);
    let wrapped = wrap(a.chain.newest_epoch(), paper.id);
    let reply = a.append(&entry, std::slice::from_ref(&wrapped), None).await;
    assert_eq!(reply.status, 200);
    a.chain.extend(&entry).unwrap();
    let paper = Session::sign_in(&server.client, paper, a.chain.clone()).await;
    let ring: KeyringResponse = paper.get("/api/keyring").await.json();
    assert_eq!(ring.epochs[0].wrap.as_deref(), Some(b64(wrapped.encode()).as_str()));
    for path in ["/api/sync/apps", "/api/sync/status", "/api/sync/subscribe?app_id=*"] {
        assert_eq!(paper.get(path).await.code(), Code::TokenInvalid, "{path}");
    }
    assert_eq!(paper.try_pull("notes", "").await.code(), Code::TokenInvalid);
}

#[tokio::test]
async fn calls_need_a_token_that_counts_here_and_now() {
    let server = TestServer::start(&[("auth.token_life", "5s")]).await;
    let elsewhere = TestServer::start(&[]).await;
    let a = server.account().await;
    let foreign = elsewhere.account().await;
    let get = |value: String| {
        let client = server.client.clone();
        async move {
            let headers = [("authorization", value.as_str())];
            client.send(Method::GET, "/api/sync/apps", &headers, "").await
        }
    };
    assert_eq!(a.get("/api/sync/apps").await.status, 200);
    assert_eq!(get(format!("bearer {}", a.token.token)).await.status, 200);
    assert_eq!(server.client.get("/api/sync/apps").await.code(), Code::AuthRequired);
    assert_eq!(get("Basic eDp5".to_owned()).await.code(), Code::TokenInvalid);
    assert_eq!(get("Bearer".to_owned()).await.code(), Code::TokenInvalid);
    let foreign = format!("Bearer {}", foreign.token.token);
    assert_eq!(get(foreign).await.code(), Code::TokenInvalid);
    // Two credentials are none.
    let bearer = format!("Bearer {}", a.token.token);
    let twice = [("authorization", bearer.as_str()), ("authorization", bearer.as_str())];
    let reply = server.client.send(Method::GET, "/api/sync/apps", &twice, "").await;
    assert_eq!(reply.code(), Code::AuthRequired);
    // The end of the token, by its own word.
    let now = tidings_server::Millis::now().0;
    tokio::time::sleep(std::time::Duration::from_millis(
        a.token.expires_ms.saturating_sub(now) + 50,
    ))
    .await;
    assert_eq!(a.get("/api/sync/apps").await.code(), Code::TokenExpired);
}

#[tokio::test]
async fn challenges_are_limited_by_address() {
    let server = TestServer::start(&[("rates.sign_in", "1/h burst 3")]).await;
    let device = Device::new();
    for _ in 0..3 {
        challenge(&server.client, &device, AccountId([1; 16])).await;
    }
    let asked = tidings_wire::auth::ChallengeRequest {
        account_id: AccountId([1; 16]),
        device_id: device.id,
    };
    let reply = server.client.post_json("/api/auth/challenge", &asked).await;
    let problem = reply.problem();
    assert_eq!(problem.code, Code::RateLimited);
    assert_eq!(reply.headers["retry-after"], problem.retry_after.unwrap().to_string());
}
