//! The whole story with the programs that people run: create, link two, lose one, lose all, and
//! come back from paper.

use serde_json::Value;
use tidings_tests::{Device, Server};
use tidings_wire::local::SyncState;

use super::{is_revoked, kit, notes, recover, row, said, told};

fn put(device: &Device, id: &str, n: u64) {
    let row = format!(r#"{{"n":{n}}}"#);
    said(device, &["--app", "notes", "put", "t", &row, "--id", id]);
}

fn ids(device: &Device) -> Vec<String> {
    let text = said(device, &["--app", "notes", "--json", "query", "t", "--sort", "id"]);
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter_map(|row| row["id"].as_str().map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_loses_a_laptop_and_then_everything_and_comes_back() {
    let server = Server::start();
    let url = server.url();
    let desk = Device::start("desk").await;
    said(&desk, &["account", "create", &url, "--name", "desk", "--keystore", "file"]);
    let laptop = Device::start("laptop").await;
    desk.link(&laptop, &url).await;
    let tablet = Device::start("tablet").await;
    desk.link(&tablet, &url).await;
    for (number, device) in [&desk, &laptop, &tablet].into_iter().enumerate() {
        put(device, device.name(), number as u64);
        device.synced().await;
    }
    desk.row_becomes(&notes(), "t", "laptop", &row("laptop", 1)).await;
    let kit = kit(&desk);

    // The laptop is stolen.
    said(&desk, &["devices", "revoke", "laptop"]);
    laptop.status_until("unlinked", is_revoked).await;
    put(&desk, "secret", 9);
    tablet.row_becomes(&notes(), "t", "secret", &row("secret", 9)).await;
    assert!(!ids(&laptop).contains(&"secret".to_owned()), "it reads on");
    let text = said(&desk, &["devices", "list"]);
    assert!(text.contains("laptop") && text.contains("unlinked"), "{text}");

    // The house burns down.
    desk.synced().await;
    tablet.synced().await;
    drop((desk, laptop, tablet));
    let new = Device::start("new").await;
    let account = kit.account.to_string();
    let mut verb = recover(&kit, &account, "new");
    verb.extend(["--revoke", "desk", "--revoke", "tablet"]);
    let (code, text) = told(&new, &verb, &kit.words);
    assert_eq!(code, Some(0), "{text}");
    new.row_becomes(&notes(), "t", "secret", &row("secret", 9)).await;
    let status = new.synced().await;
    assert_eq!(ids(&new), ["desk", "laptop", "secret", "tablet"]);
    assert_eq!((status.state, status.recovery_kit), (SyncState::Synced, Some(true)));
    assert!(status.alarms.is_empty(), "{:?}", status.alarms);
}
