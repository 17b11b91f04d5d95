//! Signed headers of a lane, and manifests that are put back.

use minicbor::bytes::ByteVec;
use tidings_proof::{SignedHeader, SignedManifest};
use tidings_wire::Code;
use tidings_wire::sync::{HeadersResponse, Manifests, PushResponse};

use crate::fixture::{Session, TestServer, tag};

async fn headers(session: &Session, of: &Session, more: &str) -> HeadersResponse {
    let (device, incarnation) = (of.device.id, of.device.incarnation);
    let lane = format!("device_id={device}&incarnation={incarnation}&tag={}", tag(1));
    session.get(&format!("/api/sync/headers?app_id=notes&{lane}{more}")).await.cbor()
}

#[tokio::test]
async fn headers_prove_a_lane_without_its_bodies() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let b = Session { chain: a.chain.clone(), ..b };
    let (mut own, mut other) = (a.book("notes"), b.book("notes"));
    for _ in 0..3 {
        a.write(&mut own, 1, 2).await;
        b.write(&mut other, 1, 1).await;
        a.write(&mut own, 2, 1).await;
    }
    let page = headers(&b, &a, "").await;
    assert_eq!(page.headers.len(), 6);
    assert!(!page.has_more);
    let mut prev = tidings_wire::Hash::ZERO;
    for (at, bytes) in page.headers.iter().enumerate() {
        let header = SignedHeader::decode(bytes).unwrap().verify(&a.chain).unwrap();
        assert_eq!(header.header().seq.0, at as u64 + 1);
        assert_eq!(header.header().prev, prev);
        prev = header.hash();
    }
    let page = headers(&b, &a, "&from=3&limit=2").await;
    assert_eq!((page.headers.len(), page.has_more), (2, true));
    assert_eq!(SignedHeader::decode(&page.headers[0]).unwrap().header.seq.0, 3);
    assert!(headers(&b, &a, "&from=7").await.headers.is_empty());
}

#[tokio::test]
async fn manifests_are_put_back_by_anybody_when_they_are_newer() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = a.book("notes");
    a.write(&mut book, 1, 1).await;
    let old = book.sign_manifest(book.manifest_of(&a.chain));
    // As if the server had lost what came after.
    book.blob(&a.chain, tag(1), 50);
    book.n = 9;
    let newer = book.sign_manifest(book.manifest_of(&a.chain));
    let put = |manifests: Vec<Vec<u8>>| {
        let manifests = manifests.into_iter().map(ByteVec::from).collect();
        let body = minicbor::to_vec(Manifests { manifests }).unwrap();
        let b = b.clone();
        async move { b.post_cbor("/api/sync/manifests", body).await }
    };
    assert_eq!(put(vec![old.clone(), newer.clone()]).await.status, 200);
    assert_eq!(put(vec![old.clone()]).await.status, 200);
    let held: Manifests =
        b.get(&format!("/api/sync/manifests?device_id={}", a.device.id)).await.cbor();
    assert_eq!(held.manifests.len(), 1);
    assert_eq!(SignedManifest::decode(&held.manifests[0]).unwrap().manifest.n.0, 9);
    let mut forged = newer;
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(put(vec![forged]).await.code(), Code::BadBlob);
    let code = b.post_cbor("/api/sync/manifests", vec![0x80]).await.code();
    assert_eq!(code, Code::BadBody);
    // Its author goes on above it.
    let mut book = a.book("notes");
    book.n = 9;
    let bare = book.manifest(&a.chain);
    let kept: PushResponse = a.try_push("notes", &[], &bare).await.cbor();
    assert_eq!(kept.manifest.unwrap().n.0, 10);
}

#[tokio::test]
async fn runs_are_for_a_later_version() {
    let server = TestServer::start(&[]).await;
    let a = server.account().await;
    let path = format!("/api/sync/parts/{}", tidings_wire::Hash([1; 32]));
    let reply = a.send(http::Method::PUT, &path, &[], "x").await;
    assert_eq!(reply.code(), Code::NotYet);
    let reply = a.post_cbor("/api/sync/compact?app_id=notes", vec![0x80]).await;
    assert_eq!(reply.code(), Code::NotYet);
}
