//! O23: with the disk full the sync journal fails its check, is deleted as broken, and the
//! selective-sync choices go with it.

use http::Method;
use serde_json::json;
use tidings_client::local::LocalError;
use tidings_tests::apart::{inside, on_disk, remount};
use tidings_tests::{DEADLINE, Device, Hand, House, eventually};
use tidings_wire::AppId;
use tidings_wire::local::SyncState;

/// Room for the store's reserve and a few rows, not for all that is on the server.
const SMALL: &str = "size=24m";

/// Text that takes as much room as it is long.
fn noise(seed: u64, length: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(LETTERS[usize::try_from(state % 64).unwrap()])
    };
    (0..length).map(letter).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn o23_a_full_disk_pauses_the_pull_and_breaks_nothing() {
    let app: AppId = "notes".parse().unwrap();
    const ROWS: usize = 30;
    let house = House::new(&["a"]).await;
    let a = house.device(0);
    let mut hand = Hand::join(a, &house.server.url()).await;
    for number in 0..ROWS {
        let row = json!({ "text": noise(number as u64, 200 << 10) });
        hand.push(&app, "tasks", &[(&format!("r{number:03}"), row)]).await;
    }
    // Small pages: some find room, and some do not.
    let mut d = Device::new("d").set("sync.page_entries=1");
    let store = d.home().join("store");
    d.resume_with(|command| on_disk(command, &store, SMALL)).await;
    // A choice of this computer, and a row of its own.
    let private = json!({ "read": "private" }).to_string();
    d.send_raw(Method::PUT, "/v1/apps/notes/tables/drafts", private).await.unwrap();
    d.put(&app, "drafts", "own", &json!({ "v": 1 })).await;
    a.link(&d, &house.url()).await;

    let full = d.status_until("out of space", |status| status.state == SyncState::Degraded).await;
    assert!(full.reason.as_ref().unwrap().contains(store.to_str().unwrap()), "{full:?}");
    let pid = d.process().id();
    // What is here is whole, and less than all of it.
    let rows = d.rows(&app, "tasks").await;
    assert!(rows.len() < ROWS, "{} rows", rows.len());
    for row in &rows {
        let number: u64 = row["id"].as_str().unwrap()[1..].parse().unwrap();
        assert_eq!(row["text"], noise(number, 200 << 10));
    }
    // Not even a small write has room, once somebody else has taken the rest of it: it is refused,
    // and was not stored.
    let filler = vec![1; 8 << 20];
    let _ = std::fs::write(inside(pid, &store).join("filler"), filler);
    let row = json!({ "text": "here" });
    match d.client().put(&app, "tasks", "local", &row, None).await {
        Err(LocalError::Problem { status: 507, problem, .. }) => {
            assert_eq!(problem.code.as_str(), "storage.full");
        }
        other => panic!("no refusal: {other:?}"),
    }
    assert_eq!(d.row(&app, "tasks", "local").await, None);
    assert_eq!(
        d.row(&app, "drafts", "own").await,
        json!({ "id": "own", "v": 1 }).as_object().cloned()
    );

    // Room again: it goes on by itself, from where it was, without being linked anew.
    remount(pid, &store, "remount,size=256m");
    d.rows_become(&app, "tasks", ROWS).await;
    d.synced().await;
    assert_eq!(d.process().id(), pid);
    assert_eq!(d.devices().await.devices.len(), 3);
    let own = d.row(&app, "drafts", "own").await;
    assert_eq!(own, json!({ "id": "own", "v": 1 }).as_object().cloned());
    let reply = d.send_raw(Method::GET, "/v1/apps/notes/tables", "").await.unwrap();
    let tables: serde_json::Value = reply.json().unwrap();
    assert!(tables.to_string().contains("private"), "the choice is kept: {tables}");
    eventually("a write is taken", DEADLINE, async || {
        d.client().put(&app, "tasks", "local", &row, None).await
    })
    .await;
    a.row_becomes(&app, "tasks", "local", &json!({ "id": "local", "text": "here" })).await;
    for number in [0, ROWS - 1] {
        let text = noise(number as u64, 200 << 10);
        let id = format!("r{number:03}");
        d.row_becomes(&app, "tasks", &id, &json!({ "id": id, "text": text })).await;
    }
}
