//! The device chain and the key ring: compare-and-set, wraps in the same transaction, cuts.

use std::collections::BTreeSet;

use tidings_proof::entry::Cut;
use tidings_proof::{EntryBody, SignedEntry};
use tidings_wire::account::{AppendChainResponse, ChainResponse, KeyringResponse};
use tidings_wire::sync::Manifests;
use tidings_wire::{Code, Epoch, Hash, ManifestNumber};

use crate::fixture::device::{app, wrap};
use crate::fixture::session::{b64, try_sign_in, unb64};
use crate::fixture::{Device, Session, TestServer};

async fn entries(session: &Session, from: u64) -> ChainResponse {
    let path = format!("/api/chain?account_id={}&from={from}", session.account());
    session.client.get(&path).await.json()
}

#[tokio::test]
async fn the_chain_is_read_from_any_entry_without_a_token() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    a.link().await;
    a.link().await;
    let all = entries(&a, 0).await;
    assert_eq!(all.entries.len(), 3);
    assert_eq!(all.head, a.chain.head());
    let decoded: Vec<_> =
        all.entries.iter().map(|entry| SignedEntry::decode(&unb64(entry)).unwrap()).collect();
    assert_eq!(tidings_proof::Chain::fold(a.account(), &decoded).unwrap(), a.chain);
    assert_eq!(entries(&a, 2).await.entries, all.entries[2..]);
    assert!(entries(&a, 3).await.entries.is_empty());
    assert!(entries(&a, u64::MAX).await.entries.is_empty());
}

#[tokio::test]
async fn of_two_appends_one_is_told_that_the_chain_moved() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let (one, two) = (Device::new(), Device::new());
    let (first, second) = (a.device.adds(&a.chain, &one), a.device.adds(&a.chain, &two));
    let wrap_of = |device: &Device| [wrap(Epoch(0), device.id)];
    let done: AppendChainResponse = a.append(&first, &wrap_of(&one), None).await.json();
    assert_eq!(done.head.hash, first.entry.hash());
    let problem = a.append(&second, &wrap_of(&two), None).await.problem();
    assert_eq!(problem.code, Code::ChainMoved);
    assert_eq!(problem.details.unwrap()["head"]["hash"], first.entry.hash().to_string());
    // The first one's lost answer.
    let again: AppendChainResponse = a.append(&first, &wrap_of(&one), None).await.json();
    assert_eq!(again.head, done.head);
    a.chain.extend(&first).unwrap();
    assert_eq!(entries(&a, 0).await.entries.len(), 2);
}

#[tokio::test]
async fn at_the_same_moment_one_of_many_appends_wins() {
    let server = TestServer::start(&[]).await;
    let a = server.account().await;
    let appends = (0..8).map(|_| {
        let a = a.clone();
        async move {
            let device = Device::new();
            let entry = a.device.adds(&a.chain, &device);
            a.append(&entry, &[wrap(Epoch(0), device.id)], None).await.status
        }
    });
    let mut set = tokio::task::JoinSet::new();
    appends.for_each(|append| drop(set.spawn(append)));
    let statuses = set.join_all().await;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1);
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 7);
    assert_eq!(entries(&a, 0).await.entries.len(), 2);
}

#[tokio::test]
async fn an_entry_brings_exactly_its_wraps() {
    let server = TestServer::start(&[]).await;
    let a = server.account().await;
    let device = Device::new();
    let entry = a.device.adds(&a.chain, &device);
    let right = wrap(Epoch(0), device.id);
    let stray = wrap(Epoch(0), a.device.id);
    assert_eq!(a.append(&entry, &[], None).await.code(), Code::WrapsIncomplete);
    let both = [right.clone(), stray];
    assert_eq!(a.append(&entry, &both, None).await.code(), Code::WrapsIncomplete);
    let later = wrap(Epoch(1), device.id);
    assert_eq!(a.append(&entry, &[later], None).await.code(), Code::WrapsIncomplete);
    let (rotation, earlier) = a.device.rotates(&a.chain);
    let own = [wrap(Epoch(1), a.device.id)];
    assert_eq!(a.append(&rotation, &own, None).await.code(), Code::WrapsIncomplete);
    let (_, other) = a.device.rotates(&a.chain);
    assert_eq!(a.append(&rotation, &own, Some(&other)).await.code(), Code::WrapsIncomplete);
    let reply = a.append(&rotation, &[], Some(&earlier)).await;
    assert_eq!(reply.code(), Code::WrapsIncomplete);
    assert_eq!(entries(&a, 0).await.entries.len(), 1);
    assert_eq!(a.append(&rotation, &own, Some(&earlier)).await.status, 200);
}

#[tokio::test]
async fn entries_that_do_not_verify_are_refused() {
    let server = TestServer::start(&[]).await;
    let a = server.account().await;
    let stranger = Device::new();
    let device = Device::new();
    // Signed by nobody of the account.
    let entry = stranger.adds(&a.chain, &device);
    let reply = a.append(&entry, &[wrap(Epoch(0), device.id)], None).await;
    assert_eq!(reply.code(), Code::ChainInvalid);
    // Without the added device's own signature.
    let body = EntryBody::AddDevice {
        device: device.public.clone(),
        co_signature: stranger.sign(b"something"),
    };
    let entry = a.device.entry(&a.chain, body);
    let reply = a.append(&entry, &[wrap(Epoch(0), device.id)], None).await;
    assert_eq!(reply.code(), Code::ChainInvalid);
    // A second genesis.
    let reply = a.append(&stranger.genesis(), &[], None).await;
    assert_eq!(reply.code(), Code::ChainInvalid);
    let request = serde_json::json!({ "account_id": a.account(), "entry": b64([1, 2, 3]) });
    let reply = server.client.post_json("/api/chain", &request).await;
    assert_eq!(reply.code(), Code::ChainInvalid);
    assert_eq!(entries(&a, 0).await.entries.len(), 1);
}

#[tokio::test]
async fn the_key_ring_holds_every_epoch_and_the_callers_wraps() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let (rotation, earlier) = a.device.rotates(&a.chain);
    let wraps = [wrap(Epoch(1), a.device.id), wrap(Epoch(1), b.device.id)];
    assert_eq!(a.append(&rotation, &wraps, Some(&earlier)).await.status, 200);
    let ring: KeyringResponse = b.get("/api/keyring").await.json();
    assert_eq!(ring.epochs.len(), 2);
    assert_eq!(ring.epochs[1].wrap.as_deref(), Some(b64(wraps[1].encode()).as_str()));
    assert_eq!(ring.epochs[1].earlier.as_deref(), Some(b64(earlier.encode()).as_str()));
    assert!(ring.epochs[0].wrap.is_some() && ring.epochs[0].earlier.is_none());
    let code = server.client.get("/api/keyring").await.code();
    assert_eq!(code, Code::AuthRequired);
}

#[tokio::test]
async fn revoking_names_the_last_manifests_and_ends_the_device() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = b.book("notes");
    b.write(&mut book, 1, 1).await;
    let mut other = b.book("todo");
    b.write(&mut other, 1, 1).await;
    let manifests: Manifests =
        a.get(&format!("/api/sync/manifests?device_id={}", b.device.id)).await.cbor();
    let mut cuts: BTreeSet<Cut> = manifests
        .manifests
        .iter()
        .map(|bytes| tidings_proof::SignedManifest::decode(bytes).unwrap().manifest)
        .map(|manifest| Cut {
            app: manifest.app.clone(),
            replica: manifest.replica,
            n: manifest.n,
            hash: manifest.hash(),
        })
        .collect();
    assert_eq!(cuts.len(), 2);
    let wraps = [wrap(Epoch(1), a.device.id)];

    // It wrote on meanwhile.
    let (entry, earlier) = a.device.revokes(&a.chain, &[b.device.id], cuts.clone());
    b.write(&mut book, 1, 1).await;
    assert_eq!(a.append(&entry, &wraps, Some(&earlier)).await.code(), Code::CutMoved);
    // From here on it cannot put off its unlinking: nothing of it is taken for a while, nor what
    // others would put back for it. Everybody else goes on.
    let last = book.manifest_of(&b.chain);
    let mut later = book.clone();
    let blob = later.blob(&b.chain, crate::fixture::tag(1), 50);
    let manifest = later.manifest(&b.chain);
    let problem = b.try_push("notes", &[blob], &manifest).await.problem();
    assert_eq!(problem.code, Code::RateLimited);
    assert!((1..=31).contains(&problem.retry_after.unwrap()), "{problem:?}");
    let bare = b.try_push("notes", &[], &manifest).await.code();
    assert_eq!(bare, Code::RateLimited);
    for session in [&a, &b] {
        let body = Manifests { manifests: vec![manifest.clone().into()] };
        let body = minicbor::to_vec(&body).unwrap();
        let code = session.post_cbor("/api/sync/manifests", body).await.code();
        assert_eq!(code, Code::RateLimited);
    }
    let mut own = a.book("notes");
    a.write(&mut own, 1, 1).await;

    // Too few, or other ones.
    let fewer: BTreeSet<Cut> = cuts.iter().take(1).cloned().collect();
    let (entry, earlier) = a.device.revokes(&a.chain, &[b.device.id], fewer);
    assert_eq!(a.append(&entry, &wraps, Some(&earlier)).await.code(), Code::CutMoved);
    let wrong = Cut {
        app: app("notes"),
        replica: b.device.replica(),
        n: ManifestNumber(9),
        hash: Hash([1; 32]),
    };
    let (entry, earlier) = a.device.revokes(&a.chain, &[b.device.id], [wrong].into());
    assert_eq!(a.append(&entry, &wraps, Some(&earlier)).await.code(), Code::CutMoved);

    cuts.retain(|cut| cut.app == app("todo"));
    let (replica, n) = (last.replica, last.n);
    cuts.insert(Cut { app: app("notes"), replica, n, hash: last.hash() });
    let (entry, earlier) = a.device.revokes(&a.chain, &[b.device.id], cuts);
    assert_eq!(a.append(&entry, &wraps, Some(&earlier)).await.status, 200);

    let problem = b.try_pull("notes", "").await.problem();
    assert_eq!(problem.code, Code::DeviceRevoked);
    let details = problem.details.unwrap();
    assert_eq!(details["chain"][0], b64(entry.encode()));
    assert_eq!(details["index"], 2);
    let blob = book.blob(&b.chain, crate::fixture::tag(1), 50);
    let manifest = book.manifest(&b.chain);
    let code = b.try_push("notes", &[blob], &manifest).await.code();
    assert_eq!(code, Code::DeviceRevoked);
    let code = try_sign_in(&server.client, &b.device, a.account()).await.code();
    assert_eq!(code, Code::DeviceRevoked);
    // What it wrote before stays.
    assert_eq!(a.pull("notes", "").await.entries.len(), 2);
}

#[tokio::test]
async fn an_account_has_only_so_many_devices_and_entries() {
    let server =
        TestServer::start(&[("limits.devices", "2"), ("limits.chain_entries", "16")]).await;
    let mut a = server.account().await;
    let stolen = a.link().await;
    let device = Device::new();
    let entry = a.device.adds(&a.chain, &device);
    let reply = a.append(&entry, &[wrap(Epoch(0), device.id)], None).await;
    assert_eq!(reply.code(), Code::QuotaExceeded);
    loop {
        let body = EntryBody::Name { device: a.device.id, sealed: vec![1; 40] };
        let entry = a.device.entry(&a.chain, body);
        let reply = a.append(&entry, &[], None).await;
        if reply.status != 200 {
            assert_eq!(reply.code(), Code::QuotaExceeded);
            break;
        }
        a.chain.extend(&entry).unwrap();
    }
    assert_eq!(entries(&a, 0).await.entries.len(), 16);
    // Whoever filled it can be unlinked all the same.
    let (entry, earlier) = a.device.rotates(&a.chain);
    let own = [wrap(Epoch(1), a.device.id), wrap(Epoch(1), stolen.device.id)];
    let reply = a.append(&entry, &own, Some(&earlier)).await;
    assert_eq!(reply.code(), Code::QuotaExceeded);
    let (entry, earlier) = a.device.revokes(&a.chain, &[stolen.device.id], BTreeSet::new());
    let reply = a.append(&entry, &[wrap(Epoch(1), a.device.id)], Some(&earlier)).await;
    assert_eq!(reply.status, 200);
}
