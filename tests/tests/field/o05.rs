//! O05: after a dropped stream the client reconnects but never asks for what happened meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::json;
use tidings_tests::{Act, DEADLINE, Device, Front, Server, eventually};
use tidings_wire::AppId;
use tokio::sync::mpsc;

const SUBSCRIBE: &str = "/api/sync/subscribe";

#[tokio::test(flavor = "multi_thread")]
async fn o05_each_connect_is_followed_by_a_pull() {
    let app: AppId = "notes".parse().unwrap();
    let server = Server::start();
    let front = Front::start(server.address()).await;
    let streams = Arc::new(Mutex::new(Vec::new()));
    let open = Arc::new(AtomicBool::new(true));
    front.script({
        let (streams, open) = (Arc::clone(&streams), Arc::clone(&open));
        move |request| {
            if request.uri.path() != SUBSCRIBE {
                return Act::Pass;
            }
            if !open.load(Ordering::SeqCst) {
                return Act::Answer(503, "text/plain", Bytes::new());
            }
            // A stream that says nothing but that it lives.
            let (sender, feed) = mpsc::unbounded_channel();
            sender.send(Bytes::from_static(b"retry: 100\n: keepalive\n\n")).unwrap();
            streams.lock().unwrap().push(sender);
            Act::Stream(feed)
        }
    });
    let (mut d, mut b) = (Device::new("d"), Device::new("b"));
    d.resume().await;
    b.resume().await;
    d.create_account(&front.url()).await;
    d.link(&b, &server.url()).await;
    d.put(&app, "t", "first", &json!({})).await;
    b.rows_become(&app, "t", 1).await;
    d.synced().await;

    // A clean end; B pushes before D can connect again.
    open.store(false, Ordering::SeqCst);
    let subscribed = front.seen("GET /api/sync/subscribe").len();
    streams.lock().unwrap().clear();
    for row in ["r1", "r2", "r3"] {
        b.put(&app, "t", row, &json!({})).await;
    }
    b.synced().await;
    eventually("D tries to connect again", DEADLINE, async || {
        let tries = front.seen("GET /api/sync/subscribe").len();
        if tries > subscribed { Ok(()) } else { Err(format!("{tries} tries")) }
    })
    .await;
    assert_eq!(d.rows(&app, "t").await.len(), 1, "nothing told D yet");
    open.store(true, Ordering::SeqCst);
    d.rows_become(&app, "t", 4).await;
    assert!(!streams.lock().unwrap().is_empty(), "D has connected again");
    // No `changed` was ever sent, and the poll comes only every 15 minutes.
    let last = front.seen("GET /api/sync/subscribe").last().unwrap().at;
    let pulled = front.seen("GET /api/sync/pull").iter().any(|pull| pull.at > last);
    assert!(pulled, "a pull follows the connect");
}
