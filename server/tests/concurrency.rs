//! Many at once: positions are never handed out before what they stand for can be read.

use std::collections::BTreeSet;

use tidings_wire::Position;
use tokio::task::JoinSet;

use crate::fixture::session::b64;
use crate::fixture::{Session, TestServer, within};

/// O10: eight pushers, and a reader that pulls seven at a time in a tight loop.
async fn eight_pushers(store: &str, each: usize) {
    let server = TestServer::start(&[("store", store)]).await;
    let mut first = server.account().await;
    let mut pushers = Vec::new();
    for _ in 0..8 {
        pushers.push(first.link().await);
    }
    let chain = first.chain.clone();
    let mut writing = JoinSet::new();
    for pusher in pushers {
        let pusher = Session { chain: chain.clone(), ..pusher };
        writing.spawn(async move {
            let mut book = pusher.book("notes");
            for _ in 0..each {
                pusher.write(&mut book, 1, 1).await;
            }
        });
    }
    let reader = first;
    let reading = async {
        let mut seen = BTreeSet::new();
        let mut last = Position(0);
        let mut cursor = String::new();
        while seen.len() < 8 * each {
            let page = reader.pull("notes", &format!("&limit=7{cursor}")).await;
            assert!(page.reset.is_none());
            for entry in &page.entries {
                assert!(entry.position > last, "{:?} after {last:?}", entry.position);
                assert!(entry.position <= page.position);
                assert!(seen.insert(entry.position), "twice: {:?}", entry.position);
            }
            assert!(page.position >= last);
            last = page.position;
            cursor = format!("&cursor={}", b64(&page.cursor[..]));
        }
        let page = reader.pull("notes", &cursor).await;
        assert!(page.entries.is_empty());
        seen.len()
    };
    let deadline = std::time::Duration::from_secs(120);
    let seen = tokio::time::timeout(deadline, reading).await.expect("the reader did not end");
    assert_eq!(seen, 8 * each);
    within(writing.join_all()).await;
    assert_eq!(reader.pull_all("notes", "").await.len(), 8 * each);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_read_once_in_memory() {
    eight_pushers("memory:", 500).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_read_once_on_sled() {
    let dir = tempfile::tempdir().unwrap();
    eight_pushers(&format!("sled:{}", dir.path().join("s").display()), 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_read_once_on_redb() {
    let dir = tempfile::tempdir().unwrap();
    eight_pushers(&format!("redb:{}", dir.path().join("s").display()), 50).await;
}
