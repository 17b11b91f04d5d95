//! A server that lost data says so: its directory put back to an earlier state (O08).

use std::path::Path;

use tidings_wire::Position;

use crate::fixture::session::b64;
use crate::fixture::{Session, TestServer};

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

async fn again(session: &Session, server: &TestServer) -> Session {
    Session::sign_in(&server.client, session.device.clone(), session.chain.clone()).await
}

async fn a_store_that_was_put_back(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (data, backup) = (dir.path().join("data"), dir.path().join("backup"));
    let store = format!("{engine}:{}", data.display());
    let values = [("store", store.as_str())];

    let server = TestServer::start(&values).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = a.book("notes");
    for _ in 0..4 {
        a.write(&mut book, 1, 1).await;
    }
    let early = b.pull("notes", "").await;
    server.stop().await;
    copy(&data, &backup);

    // Life goes on; an honest restart changes nothing for a reader.
    let server = TestServer::start(&values).await;
    let (a2, b2) = (again(&a, &server).await, again(&b, &server).await);
    for _ in 0..6 {
        a2.write(&mut book, 1, 1).await;
    }
    let cursor = |cursor: &[u8]| format!("&cursor={}", b64(cursor));
    let late = b2.pull("notes", &cursor(&early.cursor)).await;
    assert!(late.reset.is_none());
    assert_eq!(late.entries.len(), 6);
    server.stop().await;

    std::fs::remove_dir_all(&data).unwrap();
    copy(&backup, &data);
    let server = TestServer::start(&values).await;
    let b3 = again(&b, &server).await;
    let page = b3.pull("notes", &cursor(&late.cursor)).await;
    assert_eq!(page.generation, late.generation, "a plain copy has the same generation");
    let reset = page.reset.expect("the loss was not noticed");
    assert_eq!(reset.common, early.head);
    assert!(page.entries.is_empty());
    // Who stood before the loss goes on without a word.
    let page = b3.pull("notes", &cursor(&early.cursor)).await;
    assert!(page.reset.is_none());

    // Another device's pushes come through to both, long before position 10 is reached again.
    let mut c = again(&a, &server).await;
    c.device.incarnation = tidings_wire::Incarnation([7; 8]);
    let mut new = c.book("notes");
    for _ in 0..5 {
        c.write(&mut new, 1, 1).await;
    }
    let reset = b3.pull("notes", &cursor(&late.cursor)).await;
    assert!(reset.reset.is_some() && reset.has_more);
    let page = b3.pull("notes", &cursor(&reset.cursor)).await;
    assert_eq!(page.entries.len(), 5);
    assert!(page.head < Position(20));
    server.stop().await;
}

#[tokio::test]
async fn sled_put_back_is_noticed() {
    a_store_that_was_put_back("sled").await;
}

#[tokio::test]
async fn redb_put_back_is_noticed() {
    a_store_that_was_put_back("redb").await;
}
