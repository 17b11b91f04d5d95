//! Rows between computers: both ways, offline and back, over kills, and apps that come later.

use serde_json::json;
use tidings_tests::{DEADLINE, Device, House, Server, eventually};
use tidings_wire::AppId;
use tidings_wire::local::{ChangeKind, SyncState};

fn notes() -> AppId {
    "notes".parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn inserts_updates_and_deletes_go_both_ways() {
    let app = notes();
    let house = House::new(&["a", "b"]).await;
    let (a, b) = (house.device(0), house.device(1));
    a.put(&app, "t", "1", &json!({ "from": "a" })).await;
    b.row_becomes(&app, "t", "1", &json!({ "id": "1", "from": "a" })).await;
    let mut stream = a.follow(&app, "t").await;
    b.put(&app, "t", "1", &json!({ "from": "b" })).await;
    b.put(&app, "t", "2", &json!({ "new": true })).await;
    a.row_becomes(&app, "t", "2", &json!({ "id": "2", "new": true })).await;
    a.row_becomes(&app, "t", "1", &json!({ "id": "1", "from": "b" })).await;
    b.client().delete(&app, "t", "1", None).await.unwrap();
    a.rows_become(&app, "t", 1).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let change = stream.change().await;
        assert_eq!(change.origin.client, "remote");
        seen.push((change.row_id, change.kind));
    }
    let change = |id: &str, kind| (id.to_owned(), kind);
    assert_eq!(
        seen,
        [
            change("1", ChangeKind::Update),
            change("2", ChangeKind::Insert),
            change("1", ChangeKind::Delete),
        ]
    );
    house.converge(&app, "t").await;
    for device in [a, b] {
        let status = device.synced().await;
        assert!(status.alarms.is_empty(), "{status:?}");
        assert!(status.proven_at.is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_comes_later_appears_without_a_restart() {
    let house = House::new(&["a", "b"]).await;
    let (a, b) = (house.device(0), house.device(1));
    a.synced().await;
    b.synced().await;
    for name in ["notes", "photos", "z"] {
        let app: AppId = name.parse().unwrap();
        a.put(&app, "t", "1", &json!({ "app": name })).await;
        b.row_becomes(&app, "t", "1", &json!({ "id": "1", "app": name })).await;
    }
    b.synced().await;
    assert_eq!(b.status().await.apps.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_before_there_was_an_account_is_synced_too() {
    let app = notes();
    let server = Server::start();
    let a = Device::start("a").await;
    a.put(&app, "t", "1", &json!({ "early": true })).await;
    assert_eq!(a.status().await.state, SyncState::Local);
    a.create_account(&server.url()).await;
    let b = Device::start("b").await;
    b.put(&app, "t", "2", &json!({ "early": "b" })).await;
    a.link(&b, &server.url()).await;
    b.row_becomes(&app, "t", "1", &json!({ "id": "1", "early": true })).await;
    a.row_becomes(&app, "t", "2", &json!({ "id": "2", "early": "b" })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_made_apart_come_together() {
    let app = notes();
    let house = House::with_proxy(&["a", "b"]).await;
    let (a, b) = (house.device(0), house.device(1));
    a.put(&app, "t", "shared", &json!({ "by": "nobody" })).await;
    b.rows_become(&app, "t", 1).await;
    let proxy = house.proxy.as_ref().unwrap();
    proxy.refuse();
    a.status_until("a is offline", |status| status.state == SyncState::Offline).await;
    b.status_until("b is offline", |status| status.state == SyncState::Offline).await;
    for number in 0..20 {
        a.put(&app, "t", &format!("a{number}"), &json!({ "n": number })).await;
        b.put(&app, "t", &format!("b{number}"), &json!({ "n": number })).await;
    }
    a.put(&app, "t", "shared", &json!({ "by": "a" })).await;
    b.put(&app, "t", "shared", &json!({ "by": "b" })).await;
    assert!(a.app_status(&app).await.pending > 0);
    proxy.pass();
    a.rows_become(&app, "t", 41).await;
    b.rows_become(&app, "t", 41).await;
    house.converge(&app, "t").await;
    // Both agree on one of the two, and it is the later one.
    a.row_becomes(&app, "t", "shared", &json!({ "id": "shared", "by": "b" })).await;
    a.synced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_computer_gets_everything() {
    let app = notes();
    let mut house = House::new(&["a", "b"]).await;
    for (device, name) in [(0, "a"), (1, "b")] {
        for number in 0..50 {
            let id = format!("{name}{number}");
            house.device(device).put(&app, "t", &id, &json!({ "n": number })).await;
        }
    }
    house.device(0).rows_become(&app, "t", 100).await;
    house.device(0).client().delete(&app, "t", "a7", None).await.unwrap();
    house.device(1).rows_become(&app, "t", 99).await;
    let third = house.link(Device::new("c")).await;
    third.rows_become(&app, "t", 99).await;
    house.converge(&app, "t").await;
    let status = house.device(2).synced().await;
    assert!(status.alarms.is_empty(), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_killed_while_it_pushes_loses_and_doubles_nothing() {
    const ROWS: usize = 120;
    let app = notes();
    let devices = ["a", "b"].map(|name| Device::new(name).set("sync.push_bytes=4KiB"));
    let mut house = House::of(Server::start(), None, devices).await;
    for round in 0..4 {
        let a = house.device(0);
        for number in 0..ROWS / 4 {
            let id = format!("r{:03}", round * ROWS / 4 + number);
            a.put(&app, "t", &id, &json!({ "text": "x".repeat(500), "round": round })).await;
        }
        house.device_mut(0).kill();
        house.device_mut(0).resume().await;
    }
    house.device(1).rows_become(&app, "t", ROWS).await;
    house.converge(&app, "t").await;
    let status = house.device(0).synced().await;
    assert!(status.alarms.is_empty(), "{status:?}");
    let status = house.device(1).synced().await;
    assert!(status.alarms.is_empty(), "{status:?}");
    assert!(status.apps.iter().all(|app| app.quarantined == 0), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_loses_nothing_that_was_pushed() {
    let app = notes();
    let mut house = House::new(&["a", "b"]).await;
    for round in 0..5 {
        for number in 0..10 {
            let id = format!("{round}-{number}");
            house.device(0).put(&app, "t", &id, &json!({ "round": round })).await;
        }
        house.server.kill();
        house.server.resume();
    }
    house.device(1).rows_become(&app, "t", 50).await;
    eventually("nothing is pending", DEADLINE, async || {
        let status = house.device(0).app_status(&app).await;
        if status.pending == 0 { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    let status = house.device(1).synced().await;
    assert!(status.alarms.is_empty(), "{status:?}");
}
