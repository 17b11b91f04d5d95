//! O16: one blob that cannot be decrypted panics the client; the machine never syncs again.

use minicbor::bytes::ByteVec;
use serde_json::json;
use tidings_tests::{Act, Alter, Device, Front, Hand, House};
use tidings_wire::AppId;
use tidings_wire::sync::{Item, PullResponse};

/// Flips a byte of the 50th blob and leaves nothing of the 60th, however often they are asked for.
fn spoilt(mut page: PullResponse) -> PullResponse {
    for entry in &mut page.entries {
        let Item::Blob(bytes) = &entry.item else { continue };
        let mut bytes = bytes.to_vec();
        match entry.position.0 {
            50 => {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
            60 => bytes.clear(),
            _ => continue,
        }
        entry.item = Item::Blob(ByteVec::from(bytes));
    }
    page
}

#[tokio::test(flavor = "multi_thread")]
async fn o16_a_blob_that_does_not_open_is_counted_and_passed() {
    let app: AppId = "notes".parse().unwrap();
    let house = House::new(&["a"]).await;
    let a = house.device(0);
    // Each is a push, and so a blob, of its own.
    let mut hand = Hand::join(a, &house.server.url()).await;
    for number in 1..=100 {
        let row = json!({ "text": format!("plain-{number}") });
        hand.push(&app, "t", &[(&format!("r{number}"), row)]).await;
    }
    let front = Front::start(house.server.address()).await;
    front.script(|request| match request.uri.path() {
        "/api/sync/pull" => Alter::by(spoilt),
        _ => Act::Pass,
    });
    let mut b = Device::start("b").await;
    let pid = b.process().id();
    a.link(&b, &front.url()).await;

    let rows = b.rows_become(&app, "t", 98).await;
    assert!(rows.iter().all(|row| row["id"] != "r50" && row["id"] != "r60"));
    let counted = |status: &tidings_wire::local::StatusAnswer| {
        status.apps.iter().any(|found| found.id == app && found.quarantined == 2)
    };
    let status = b.status_until("two are counted", counted).await;
    assert_eq!(status.apps[0].quarantined_at, ["50", "60"], "{status:?}");
    assert!(status.alarms.iter().any(|alarm| alarm.code == "bad_blob"), "{status:?}");

    // It goes on, past both, in the same process.
    a.put(&app, "t", "r101", &json!({ "text": "plain-101" })).await;
    b.row_becomes(&app, "t", "r101", &json!({ "id": "r101", "text": "plain-101" })).await;
    assert_eq!(b.process().id(), pid);
    assert!(b.process().runs());
    assert!(!b.log().contains("panicked") && !b.log().contains("plain-"), "{}", b.log());
    // A restart counts them still, before it has heard of any server.
    b.stop();
    drop(front);
    b.resume().await;
    let status = b.status_until("two are counted", counted).await;
    assert_eq!(status.apps[0].quarantined_at, ["50", "60"]);
    assert_eq!(b.rows(&app, "t").await.len(), 99);
}
