//! O09: the checkpoint is saved before the rows it covers; an abort in between skips them for
//! ever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tidings_tests::hand::decode;
use tidings_tests::{Act, Alter, DEADLINE, Device, Front, Hand, Server, eventually};
use tidings_wire::AppId;
use tidings_wire::sync::Item;

const ROWS: usize = 300;
const ROUNDS: usize = 20;
/// Rounds at a time: they mostly wait.
const LANES: usize = 5;

/// What the server in between knows.
#[derive(Default)]
struct Known {
    /// Devices that get nothing now.
    barred: BTreeSet<String>,
    /// Devices that were killed already: theirs need not come slowly any more.
    killed: BTreeSet<String>,
    /// How many rows stand at or below what a cursor covers.
    covered: BTreeMap<Vec<u8>, usize>,
    /// Positions of the rows, in their order.
    positions: BTreeSet<u64>,
    /// The cursor that a device asked with last.
    asked: BTreeMap<String, Option<Vec<u8>>>,
}

fn parameter(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find_map(|(key, value)| (key == name).then(|| value.to_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn o09_a_kill_between_page_and_cursor_loses_no_row() {
    let app: AppId = "notes".parse().unwrap();
    let unlimited =
        ["open_mailbox", "pairing", "sign_in", "chain"].map(|rate| format!("rates.{rate}=off"));
    let server = Server::with(&unlimited.each_ref().map(String::as_str));
    let front = Front::start(server.address()).await;
    let known = Arc::new(Mutex::new(Known::default()));
    front.script({
        let known = Arc::clone(&known);
        move |request| {
            if request.uri.path() != "/api/sync/pull" {
                return Act::Pass;
            }
            let query = request.uri.query().unwrap_or_default();
            let device = parameter(query, "device_id").unwrap();
            let cursor = parameter(query, "cursor").map(|text| decode(&text));
            let mut locked = known.lock().unwrap();
            locked.asked.insert(device.clone(), cursor);
            if locked.barred.contains(&device) {
                return Act::Answer(503, "text/plain", Bytes::new());
            }
            // A page of a hundred rows, a row per 10 ms.
            let pieces = if locked.killed.contains(&device) { 1 } else { 100 };
            let known = Arc::clone(&known);
            Alter::slowly(pieces, Duration::from_millis(10), move |page| {
                let mut known = known.lock().unwrap();
                for entry in &page.entries {
                    assert!(matches!(entry.item, Item::Blob(_)));
                    known.positions.insert(entry.position.0);
                }
                let covered = known.positions.range(..=page.position.0).count();
                known.covered.insert(page.cursor.to_vec(), covered);
                page
            })
        }
    });

    let first = Device::start("first").await;
    first.create_account(&server.url()).await;
    let mut hand = Hand::join(&first, &server.url()).await;
    for number in 0..ROWS {
        hand.push(&app, "t", &[(&format!("r{number:03}"), json!({ "n": number }))]).await;
    }

    let linking = tokio::sync::Mutex::new(());
    let round = async |number: usize| {
        let mut device = Device::new(&format!("round {number}")).set("sync.page_entries=100");
        device.resume().await;
        let account = {
            let _one = linking.lock().await;
            first.link(&device, &front.url()).await
        };
        let id = account.device.to_string();
        // Random, but different in every round: the moments cover all three pages.
        let moment = 3_300 * (number as u64 * 7 % ROUNDS as u64) / ROUNDS as u64;
        tokio::time::sleep(Duration::from_millis(moment)).await;
        device.kill();

        known.lock().unwrap().barred.insert(id.clone());
        known.lock().unwrap().killed.insert(id.clone());
        known.lock().unwrap().asked.remove(&id);
        device.resume().await;
        let cursor = eventually("it asks for more", DEADLINE, async || {
            known.lock().unwrap().asked.get(&id).cloned().ok_or("it has not asked")
        })
        .await;
        let rows = device.rows(&app, "t").await.len();
        let covered = cursor.map_or(0, |cursor| known.lock().unwrap().covered[&cursor]);
        assert!(
            covered <= rows,
            "killed after {moment} ms: the cursor covers {covered} rows of which {rows} are here"
        );
        known.lock().unwrap().barred.remove(&id);
        device.rows_become(&app, "t", ROWS).await;
        (moment, rows)
    };
    let lane = async |lane: usize| {
        let mut seen = Vec::new();
        for number in (lane..ROUNDS).step_by(LANES) {
            seen.push(round(number).await);
        }
        seen
    };
    let seen = tokio::join!(lane(0), lane(1), lane(2), lane(3), lane(4));
    let seen: Vec<_> = [seen.0, seen.1, seen.2, seen.3, seen.4].concat();
    assert_eq!(seen.len(), ROUNDS);
    let middle = seen.iter().filter(|(_, rows)| (1..ROWS).contains(rows)).count();
    assert!(middle > 0, "no kill came between two pages: {seen:?}");
}
