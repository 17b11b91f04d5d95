//! O04: a client fails a live stream on a valid `retry:` line and ignores the delay that it asks
//! for; others choke on bad values.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use tidings_tests::{Act, DEADLINE, Device, Front, Server, eventually};
use tidings_wire::AppId;
use tokio::sync::mpsc;

const SUBSCRIBE: &str = "/api/sync/subscribe";

/// Streams that the front has opened and the test feeds.
type Streams = Arc<Mutex<Vec<mpsc::UnboundedSender<Bytes>>>>;

/// Says something on the newest stream, once there is one.
async fn say(streams: &Streams, text: &'static str) {
    eventually("a stream to say it on", DEADLINE, async || {
        let stream = streams.lock().unwrap().last().cloned().ok_or("none")?;
        stream.send(Bytes::from_static(text.as_bytes())).map_err(|_| "it ended")
    })
    .await;
}

/// Waits until the device has dialled so many times.
async fn dialled(front: &Front, times: usize) {
    let what = format!("{times} dials");
    eventually(&what, DEADLINE, async || {
        let seen = front.seen("GET /api/sync/subscribe").len();
        if seen >= times { Ok(()) } else { Err(seen) }
    })
    .await;
}

/// Ends the newest stream, waits for the next dial and gives the time between.
async fn redialled(front: &Front, streams: &Streams) -> Duration {
    let dials = front.seen("GET /api/sync/subscribe").len();
    let ended = Instant::now();
    streams.lock().unwrap().clear();
    dialled(front, dials + 1).await;
    front.seen("GET /api/sync/subscribe")[dials].at.saturating_duration_since(ended)
}

#[tokio::test(flavor = "multi_thread")]
async fn o04_a_stream_asks_for_a_wait_and_gets_it() {
    let app: AppId = "notes".parse().unwrap();
    let server = Server::start();
    let front = Front::start(server.address()).await;
    let streams = Streams::default();
    let (d, mut b) = (Device::new("d"), Device::new("b"));
    // The longest wait that a server may ask for; by itself the device would wait far less.
    let mut d = d.set("sync.retry_after_max=1s").set("sync.backoff_max=100ms");
    d.resume().await;
    b.resume().await;
    d.create_account(&front.url()).await;
    d.link(&b, &server.url()).await;
    front.script({
        let streams = Arc::clone(&streams);
        move |request| {
            if request.uri.path() != SUBSCRIBE {
                return Act::Pass;
            }
            let (sender, feed) = mpsc::unbounded_channel();
            sender.send(Bytes::from_static(b": hello\n\n")).unwrap();
            streams.lock().unwrap().push(sender);
            Act::Stream(feed)
        }
    });
    let dials = front.seen("GET /api/sync/subscribe").len();
    front.cut();
    dialled(&front, dials + 1).await;
    d.synced().await;

    // A wait that counts, four that are none, and a hint: it is heard as on any stream.
    let opened = front.seen("GET /api/sync/subscribe").len();
    for text in ["retry: 250\n\n", "retry: 1e3\n\n", "retry: -5\n\n", "retry:\n\n"] {
        say(&streams, text).await;
    }
    say(&streams, "retry: 70 \n\n").await;
    b.put(&app, "t", "r1", &json!({ "v": 1 })).await;
    b.synced().await;
    assert_eq!(d.row(&app, "t", "r1").await, None, "nothing told D yet");
    say(&streams, "event: changed\ndata: notes\n\n").await;
    d.row_becomes(&app, "t", "r1", &json!({ "id": "r1", "v": 1 })).await;
    let dials = front.seen("GET /api/sync/subscribe").len();
    assert_eq!(dials, opened, "the stream goes on");
    let waited = redialled(&front, &streams).await;
    assert!(waited >= Duration::from_millis(250), "it dialled after {waited:?}");
    // The malformed ones are no wait of none either, on the next stream.
    let waited = redialled(&front, &streams).await;
    assert!(waited >= Duration::from_millis(250), "it dialled after {waited:?}");

    // One that no number holds neither overflows nor stops it: it is as long as it may be.
    say(&streams, "retry: 99999999999999999999\n\n").await;
    say(&streams, "event: changed\ndata:\n\n").await;
    b.put(&app, "t", "r2", &json!({ "v": 2 })).await;
    b.synced().await;
    let waited = redialled(&front, &streams).await;
    assert!(waited >= Duration::from_secs(1), "it dialled after {waited:?}");
    d.row_becomes(&app, "t", "r2", &json!({ "id": "r2", "v": 2 })).await;
}
