//! Answers that come twice, out of order or too late.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tidings_tests::{Act, Alter, Device, Follower, Front, Server};
use tidings_wire::sync::PullResponse;

use super::{alarms, notes};

/// Two devices, the second one behind a front.
struct Pair {
    _server: Server,
    front: Front,
    a: Device,
    b: Device,
}

impl Pair {
    async fn start() -> Self {
        let server = Server::start();
        let front = Front::start(server.address()).await;
        let a = Device::start("a").await;
        a.create_account(&server.url()).await;
        let mut b = Device::new("b").set("sync.poll=500ms");
        b.resume().await;
        a.link(&b, &front.url()).await;
        Self { _server: server, front, a, b }
    }
}

fn is_pull(parts: &http::request::Parts) -> bool {
    parts.uri.path().ends_with("/pull")
}

/// The rows that an app is told of until a certain one, in that order.
async fn told(follower: &mut Follower, last: &str) -> Vec<String> {
    let mut rows = Vec::new();
    while rows.last().is_none_or(|row| row != last) {
        rows.push(follower.change().await.row_id);
    }
    rows
}

/// Every entry comes twice, in one page and in the next: an app is told of it once.
#[tokio::test(flavor = "multi_thread")]
async fn f14_deliveries_that_come_twice() {
    let app = notes();
    let pair = Pair::start().await;
    let earlier: Arc<Mutex<Vec<_>>> = Arc::default();
    pair.front.script(move |parts| {
        let earlier = Arc::clone(&earlier);
        match is_pull(parts) {
            true => Alter::by(move |mut page: PullResponse| {
                let mut earlier = earlier.lock().unwrap();
                let new = page.entries.clone();
                // What came before, and what is new, twice.
                page.entries.splice(0..0, earlier.iter().cloned());
                page.entries.extend(new.iter().cloned());
                earlier.extend(new);
                page
            }),
            false => Act::Pass,
        }
    });
    pair.a.put(&app, "t", "r0", &json!({})).await;
    pair.b.rows_become(&app, "t", 1).await;
    let mut follower = pair.b.follow(&app, "t").await;
    for n in 1..6 {
        pair.a.put(&app, "t", &format!("r{n}"), &json!({})).await;
        // Each is a page of its own.
        pair.b.rows_become(&app, "t", n + 1).await;
    }
    pair.front.script(|_| Act::Pass);
    pair.a.put(&app, "t", "last", &json!({})).await;
    assert_eq!(told(&mut follower, "last").await, ["r1", "r2", "r3", "r4", "r5", "last"]);
    assert_eq!(alarms(&pair.b.synced().await), [""; 0]);
}

/// The blobs of a page come in the wrong order, and an old page comes late instead of a new one:
/// rows end as they were written, and what was old is put right by the next poll.
#[tokio::test(flavor = "multi_thread")]
async fn f15_deliveries_out_of_order_and_late() {
    let app = notes();
    let pair = Pair::start().await;
    pair.a.put(&app, "t", "r", &json!({ "n": 0 })).await;
    pair.b.rows_become(&app, "t", 1).await;
    // While nothing comes through, several writes become one page.
    pair.front.script(|parts| if is_pull(parts) { Act::Cut } else { Act::Pass });
    for n in 1..6 {
        pair.a.put(&app, "t", "r", &json!({ "n": n })).await;
        pair.a.synced().await;
    }
    let kept: Arc<Mutex<Option<PullResponse>>> = Arc::default();
    let keep = Arc::clone(&kept);
    pair.front.script(move |parts| {
        let keep = Arc::clone(&keep);
        match is_pull(parts) {
            true => Alter::by(move |mut page: PullResponse| {
                if page.entries.len() >= 5 {
                    keep.lock().unwrap().get_or_insert_with(|| page.clone());
                }
                page.entries.reverse();
                page
            }),
            false => Act::Pass,
        }
    });
    pair.b.row_becomes(&app, "t", "r", &json!({ "id": "r", "n": 5 })).await;
    let old = kept.lock().unwrap().clone().expect("a page of all five");

    // Now the old page answers what is asked later, at first, and slowly.
    let mut follower = pair.b.follow(&app, "t").await;
    let late = Arc::new(Mutex::new(Some(old)));
    let once = Arc::clone(&late);
    pair.front.script(move |parts| match once.lock().unwrap().take_if(|_| is_pull(parts)) {
        Some(old) => Alter::slowly(3, Duration::from_millis(50), move |_| old),
        None => Act::Pass,
    });
    pair.a.put(&app, "t", "r", &json!({ "n": 6 })).await;
    pair.b.row_becomes(&app, "t", "r", &json!({ "id": "r", "n": 6 })).await;
    assert!(late.lock().unwrap().is_none(), "the old page was given");
    pair.a.put(&app, "t", "last", &json!({})).await;
    assert_eq!(told(&mut follower, "last").await, ["r", "last"]);
    pair.b.synced().await;
}
