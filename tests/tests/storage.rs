//! Faults of a disk under the real programs, and what people and apps see of them. What the server
//! shows of a full and a broken disk is in its own tests; kills and power cuts are in `soak`.

use serde_json::json;
use tidings_client::ErrorKind;
use tidings_client::remote::PullFilter;
use tidings_disk::{Act, Disk};
use tidings_tests::hand::plain;
use tidings_tests::{DEADLINE, Device, Hand, Server};
use tidings_wire::sync::PushRequest;
use tidings_wire::{AppId, local::SyncState};

fn notes() -> AppId {
    "notes".parse().unwrap()
}

fn next(hand: &mut Hand, n: u64) -> PushRequest {
    // Longer than a page, so that half of it is torn anywhere.
    let row = json!({ "n": n, "fill": "x".repeat(10_000) });
    let body = plain(&hand.body("t", &[("r", row)]));
    hand.seal(&notes(), &[("t", body)])
}

async fn blobs(hand: &Hand) -> usize {
    let page = hand.pull(&notes(), None, &PullFilter::default()).await.unwrap();
    assert!(page.reset.is_none());
    page.entries.len()
}

/// Fault 3: half of a write reaches the disk, or all of them but no sync, and the server dies. What
/// was acknowledged before is there, the torn push is there whole or not at all, nobody is told of
/// an empty store, the log says once up to where it goes; the push is sent again and there is one
/// copy.
async fn a_torn_write(engine: &'static str) {
    let mut server = Server::over(engine, &[]);
    let mut hand = Hand::create(&server.url()).await;
    let reader = hand.twin();
    let disk = Disk::under_dir(&server.store_dir(), &[]);
    let (mut pushed, mut dropped) = (0, 0);
    // A push writes twice at least, and syncs.
    for step in 1..=3 {
        server.stop();
        server.resume_with(|command| disk.under(command));
        let first = next(&mut hand, step);
        hand.client().push(&notes(), &first).await.unwrap();
        pushed += 1;
        disk.at(step, Act::Torn);
        let torn = next(&mut hand, step);
        let error = hand.client().push(&notes(), &torn).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
        assert!(disk.came());
        server.kill();
        disk.spare();

        server.resume();
        let said = server.log();
        assert_eq!(said.matches("was not closed in order; it ends at").count(), 1, "{said}");
        let there = blobs(&reader).await;
        assert!((pushed..=pushed + 1).contains(&there), "step {step}: {there}");
        let answer = hand.client().push(&notes(), &torn).await.unwrap();
        assert_eq!(answer.already, there > pushed, "step {step}");
        dropped += usize::from(!answer.already);
        pushed += 1;
        assert_eq!(blobs(&reader).await, pushed);
    }
    assert!(dropped > 0, "nothing was torn");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_write_is_dropped_when_a_server_over_sled_starts_again() {
    a_torn_write("sled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_write_is_dropped_when_a_server_over_redb_starts_again() {
    a_torn_write("redb").await;
}

/// Fault 6 on a device: a sync fails. The app's write is refused as one that may or may not be
/// stored; the daemon ends, exit code 1, and says what happened; whoever asks finds no daemon; the
/// next one shows everything that was acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn a_sync_that_fails_ends_the_daemon() {
    let app = notes();
    let mut device = Device::start("a").await;
    device.stop();
    let disk = Disk::under_dir(&device.home(), &["store"]);
    device.resume_with(|command| disk.under(command)).await;
    device.put(&app, "t", "before", &json!({ "n": 1 })).await;
    disk.break_syncs(true);
    let error = device.client().put(&app, "t", "torn", &json!({ "n": 2 }), None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    // Mended at once: it must not be tried again all the same.
    disk.break_syncs(false);
    let status = device.process().ended(DEADLINE);
    let said = device.log();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("may or may not be stored"), "{said}");
    let (status, seen) = device.run(&["status"]);
    assert_eq!(status.code(), Some(3), "{seen}");
    device.kill();
    device.resume().await;
    assert_eq!(device.status().await.state, SyncState::Local);
    let rows = device.rows(&app, "t").await;
    assert_eq!(rows[0]["id"], "before");
    assert!(rows.len() == 1 || rows[1]["n"] == 2, "{rows:?}");
    device.put(&app, "t", "torn", &json!({ "n": 3 })).await;
    assert_eq!(device.rows(&app, "t").await.len(), 2);
}
