//! Lanes stay whole: what follows is taken, what is there already is answered as before, and all
//! else is refused with its own code and changes nothing.

use tidings_proof::{BlobHeader, Lane, LaneHead};
use tidings_wire::sync::{Item, PushResponse};
use tidings_wire::{Code, Hash, ManifestNumber, Seq};

use crate::fixture::device::seal;
use crate::fixture::session::push_body;
use crate::fixture::{Session, TestServer, tag};

async fn nothing_changed(session: &Session, reader: &Session, before: u64) {
    let page = reader.pull("notes", "").await;
    assert_eq!(page.head.0, before);
    let status: tidings_wire::sync::StatusResponse = session.get("/api/sync/status").await.json();
    assert_eq!(status.blobs as usize, reader.pull_all("notes", "").await.len());
}

#[tokio::test]
async fn blobs_stand_in_the_order_of_their_pushes() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = a.book("notes");
    let first = a.write(&mut book, 1, 3).await;
    let second = a.write(&mut book, 2, 2).await;
    assert!(!first.already && first.position < second.position);
    assert_eq!(second.head, second.position.unwrap());
    assert_eq!(second.manifest.unwrap().n, ManifestNumber(2));
    let page = b.pull("notes", "").await;
    assert_eq!(page.entries.len(), 5);
    assert!(!page.has_more);
    assert!(page.entries.is_sorted_by_key(|entry| entry.position));
    assert_eq!((page.head, page.position), (second.head, second.head));
    assert_eq!(page.manifest_heads.len(), 1);
    assert_eq!(page.manifests.len(), 1);
    // Its own are left out, the manifests are not.
    let own = a.pull("notes", "").await;
    assert!(own.entries.is_empty());
    assert_eq!(own.manifest_heads, page.manifest_heads);
}

#[tokio::test]
async fn a_repeated_push_is_answered_as_the_first_time_and_adds_nothing() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = a.book("notes");
    a.write(&mut book, 1, 1).await;
    let blobs: Vec<_> = (0..5).map(|_| book.blob(&a.chain, tag(1), 50)).collect();
    let manifest = book.manifest(&a.chain);
    let first: PushResponse = a.try_push("notes", &blobs, &manifest).await.cbor();
    let again: PushResponse = a.try_push("notes", &blobs, &manifest).await.cbor();
    assert!(again.already);
    assert_eq!(again.position, first.position);
    assert_eq!(again.manifest, first.manifest);
    assert_eq!(b.pull_all("notes", "").await.len(), 6);

    // The same blobs with a manifest signed anew, as after `chain_moved`.
    let newer = book.manifest(&a.chain);
    let again: PushResponse = a.try_push("notes", &blobs, &newer).await.cbor();
    assert!(again.already);
    assert_eq!(again.manifest.unwrap().n, ManifestNumber(book.n));

    // Another push lies in between: it is there all the same.
    a.write(&mut book, 1, 2).await;
    let again: PushResponse = a.try_push("notes", &blobs, &manifest).await.cbor();
    assert!(again.already);
    assert_eq!(again.position, first.position);
    assert_eq!(b.pull_all("notes", "").await.len(), 8);
}

#[tokio::test]
async fn a_hole_is_a_gap() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = a.book("notes");
    let head = a.write(&mut book, 1, 2).await.head;
    let mut ahead = book.clone();
    ahead.blob(&a.chain, tag(1), 50);
    let blob = ahead.blob(&a.chain, tag(1), 50);
    let manifest = ahead.manifest(&a.chain);
    let problem = a.try_push("notes", &[blob], &manifest).await.problem();
    assert_eq!(problem.code, Code::LaneGap);
    assert_eq!(problem.details.unwrap(), serde_json::json!({ "have": 2, "sent": 4 }));
    nothing_changed(&a, &b, head.0).await;
    // Within one push, too, and then nothing of it is taken.
    let mut torn = book.clone();
    let first = torn.blob(&a.chain, tag(1), 50);
    torn.blob(&a.chain, tag(1), 50);
    let third = torn.blob(&a.chain, tag(1), 50);
    let manifest = torn.manifest(&a.chain);
    assert_eq!(a.try_push("notes", &[first, third], &manifest).await.code(), Code::LaneGap);
    nothing_changed(&a, &b, head.0).await;
}

#[tokio::test]
async fn another_blob_at_a_place_is_a_fork() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = a.book("notes");
    a.write(&mut book, 1, 2).await;
    let mut copy = book.clone();
    let head = a.write(&mut book, 1, 2).await.head;
    // A clone that does not know of the last push: another blob at its first place.
    let blob = copy.blob(&a.chain, tag(1), 50);
    let manifest = copy.manifest(&a.chain);
    assert_eq!(a.try_push("notes", &[blob], &manifest).await.code(), Code::LaneFork);
    // At its last place.
    let blobs = [copy.blob(&a.chain, tag(1), 50)];
    copy.n = 50;
    let manifest = copy.manifest(&a.chain);
    assert_eq!(a.try_push("notes", &blobs, &manifest).await.code(), Code::LaneFork);
    // At the next place, but after another blob.
    let header = BlobHeader {
        account: a.account(),
        lane: Lane { app: book.app.clone(), replica: a.device.replica(), tag: tag(1) },
        seq: Seq(5),
        prev: Hash([7; 32]),
        epoch: a.chain.newest_epoch(),
    };
    let (blob, hash) = seal(&a.device, &header, 50);
    let mut forged = book.clone();
    forged.lanes.insert(tag(1), LaneHead { seq: Seq(5), hash });
    let manifest = forged.manifest(&a.chain);
    assert_eq!(a.try_push("notes", &[blob], &manifest).await.code(), Code::LaneFork);
    nothing_changed(&a, &b, head.0).await;
    // A new incarnation of the device goes on.
    let mut renewed = a.clone();
    renewed.device.incarnation = tidings_wire::Incarnation([9; 8]);
    let mut book = renewed.book("notes");
    renewed.write(&mut book, 1, 1).await;
    assert_eq!(b.pull_all("notes", "").await.len(), 5);
}

#[tokio::test]
async fn manifests_rise_and_name_the_lanes_as_they_are() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = a.book("notes");
    a.write(&mut book, 1, 1).await;
    a.write(&mut book, 2, 1).await;
    let head = b.pull("notes", "").await.head;

    let mut stale = book.clone();
    let blob = stale.blob(&a.chain, tag(1), 50);
    stale.n = 1;
    let manifest = stale.manifest(&a.chain);
    let problem = a.try_push("notes", &[blob], &manifest).await.problem();
    assert_eq!(problem.code, Code::ManifestBehind);

    // A manifest that forgets a lane, names one that is not there, or a head from before. Where it
    // names more than there is, this server lost what it had taken, and says so.
    for wrong in 0..3 {
        let mut book = book.clone();
        let before = book.lanes.clone();
        let blob = book.blob(&a.chain, tag(1), 50);
        match wrong {
            0 => drop(book.lanes.remove(&tag(2))),
            1 => drop(book.lanes.insert(tag(9), LaneHead { seq: Seq(1), hash: Hash([1; 32]) })),
            _ => book.lanes = before,
        }
        let manifest = book.manifest(&a.chain);
        let code = if wrong == 1 { Code::LaneGap } else { Code::BadBlob };
        assert_eq!(a.try_push("notes", &[blob], &manifest).await.code(), code);
    }
    nothing_changed(&a, &b, head.0).await;

    // Without blobs: it is kept, shown, and no position is used.
    let bare = book.manifest(&a.chain);
    let kept: PushResponse = a.try_push("notes", &[], &bare).await.cbor();
    assert_eq!((kept.position, kept.already), (None, false));
    let again: PushResponse = a.try_push("notes", &[], &bare).await.cbor();
    assert!(again.already);
    let page = b.pull("notes", "").await;
    assert_eq!(page.head, head);
    assert_eq!(page.manifest_heads[0].n, ManifestNumber(3));
    // Another one of the same number.
    let mut other = book.manifest_of(&a.chain);
    other.time_ms += 1;
    let other = book.sign_manifest(other);
    assert_eq!(a.try_push("notes", &[], &other).await.code(), Code::ManifestBehind);
}

#[tokio::test]
async fn a_push_after_the_chain_grew_is_told_and_goes_through_with_a_new_manifest() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let old = a.clone();
    let _b = a.link().await;
    let mut book = old.book("notes");
    let blobs = [book.blob(&old.chain, tag(1), 50)];
    let manifest = book.manifest(&old.chain);
    let problem = old.try_push("notes", &blobs, &manifest).await.problem();
    assert_eq!(problem.code, Code::ChainMoved);
    assert_eq!(problem.details.unwrap()["head"]["index"], 1);
    let manifest = book.manifest(&a.chain);
    let pushed: PushResponse = a.try_push("notes", &blobs, &manifest).await.cbor();
    assert!(!pushed.already);
    // A bare one is told too.
    let manifest = book.manifest(&old.chain);
    assert_eq!(a.try_push("notes", &[], &manifest).await.code(), Code::ChainMoved);
}

#[tokio::test]
async fn what_does_not_verify_is_refused() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let stranger = server.account().await;
    let mut book = a.book("notes");
    let blob = book.blob(&a.chain, tag(1), 50);
    let manifest = book.manifest(&a.chain);
    let bad = |blob: Vec<u8>, manifest: Vec<u8>| {
        let a = a.clone();
        async move { a.try_push("notes", &[blob], &manifest).await.code() }
    };
    for at in [0, 1, 20, 60, blob.len() / 2, blob.len() - 1] {
        let mut flipped = blob.clone();
        flipped[at] ^= 1;
        let code = bad(flipped, manifest.clone()).await;
        assert!(matches!(code, Code::BadBlob | Code::DeviceMismatch), "byte {at}: {code}");
    }
    let mut flipped = manifest.clone();
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    assert_eq!(bad(blob.clone(), flipped).await, Code::BadBlob);
    assert_eq!(bad(blob[..blob.len() - 1].to_vec(), manifest.clone()).await, Code::BadBlob);
    assert_eq!(bad(Vec::new(), manifest.clone()).await, Code::BadBlob);
    // Another device's blob, manifest, app or account.
    let code = b.try_push("notes", std::slice::from_ref(&blob), &manifest).await.code();
    assert_eq!(code, Code::DeviceMismatch);
    let code = a.try_push("todo", std::slice::from_ref(&blob), &manifest).await.code();
    assert_eq!(code, Code::BadBlob);
    let code = stranger.try_push("notes", std::slice::from_ref(&blob), &manifest).await.code();
    assert_eq!(code, Code::DeviceMismatch);
    // Not a push at all.
    for body in [&b""[..], b"\x80", b"\x82\x80", b"\x82\x80\x40\x00", b"{}", &[0x9b, 0xff][..]] {
        let reply = a.post_cbor("/api/sync/push?app_id=notes", body.to_vec()).await;
        assert!(matches!(reply.code(), Code::BadBody | Code::BadBlob), "{body:?}");
    }
    let mut trailing = push_body(std::slice::from_ref(&blob), &manifest);
    trailing.push(0);
    let reply = a.post_cbor("/api/sync/push?app_id=notes", trailing).await;
    assert_eq!(reply.code(), Code::BadBody);
    assert_eq!(b.pull("notes", "").await.head.0, 0);
    // The untouched one is taken.
    let pushed: PushResponse = a.try_push("notes", &[blob], &manifest).await.cbor();
    assert!(!pushed.already);
    assert!(matches!(b.pull("notes", "").await.entries[0].item, Item::Blob(_)));
}
