//! A computer that was unlinked and works with the server: it writes on, back-dates, and reads on.

use minicbor::bytes::ByteVec;
use serde_json::json;
use tidings_client::remote::PullFilter;
use tidings_tests::evil::{Evil, Script};
use tidings_tests::hand::{Hand, plain};
use tidings_tests::{DEADLINE, Device, Server, eventually};
use tidings_wire::Code;
use tidings_wire::local::StatusAnswer;
use tidings_wire::sync::{Entry, Item};

use super::{notes, row, said};

fn accused(status: &StatusAnswer) -> bool {
    status.alarms.iter().any(|alarm| alarm.code == "revoked_author")
}

/// An account with a computer and one that the enemy has, which wrote one row; then it is unlinked.
/// What the enemy can still sign: a later blob, and another one in place of the first.
async fn revoked(server: &Server) -> (Device, Hand, ByteVec, ByteVec) {
    let desk = Device::start("desk").await;
    desk.create_account(&server.url()).await;
    let mut enemy = Hand::join(&desk, &server.url()).await;
    enemy.refresh_chain().await;
    let mut forger = enemy.clone();
    enemy.push(&notes(), "t", &[("honest", json!({ "n": 1 }))]).await;
    desk.row_becomes(&notes(), "t", "honest", &row("honest", 1)).await;
    let id = enemy.replica(&notes()).device.to_string();
    said(&desk, &["devices", "revoke", &id]);
    let body = plain(&enemy.body("t", &[("later", json!({ "n": 2 }))]));
    let later = enemy.seal(&notes(), &[("t", body)]).blobs.remove(0);
    let body = plain(&forger.body("t", &[("forged", json!({ "n": 3 }))]));
    let forged = forger.seal(&notes(), &[("t", body)]).blobs.remove(0);
    (desk, enemy, later, forged)
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_10_revoked_device_writes_on() {
    let server = Server::start();
    let evil = Evil::start(server.address()).await;
    let (desk, _, later, _) = revoked(&server).await;
    let victim = Device::start("victim").await;
    desk.link(&victim, &evil.url()).await;
    victim.row_becomes(&notes(), "t", "honest", &row("honest", 1)).await;
    victim.synced().await;
    evil.play(Script::new().pages(move |_, page| {
        page.head.0 += 1;
        page.position = page.head;
        let item = Item::Blob(later.clone());
        page.entries.push(Entry { position: page.head, received_ms: page.now_ms, item });
    }));
    desk.put(&notes(), "t", "after", &json!({ "n": 4 })).await;
    victim.status_until("the person is told", accused).await;
    victim.row_becomes(&notes(), "t", "after", &row("after", 4)).await;
    assert_eq!(victim.row(&notes(), "t", "later").await, None);
    evil.turn_honest();
    victim.put(&notes(), "t", "own", &json!({ "n": 5 })).await;
    desk.row_becomes(&notes(), "t", "own", &row("own", 5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_10_revoked_device_back_dates() {
    let server = Server::start();
    let evil = Evil::start(server.address()).await;
    let (desk, _, _, forged) = revoked(&server).await;
    let honest = desk.row(&notes(), "t", "honest").await;
    assert!(honest.is_some());
    // Whoever is linked later is shown another blob in place of the one that counts.
    // What it is shown wrong it asks for again with the next poll at the latest.
    let mut victim = Device::new("victim").set("sync.poll=1s");
    victim.resume().await;
    evil.play(Script::new().pages(move |_, page| {
        for entry in &mut page.entries {
            if matches!(entry.item, Item::Blob(_)) {
                entry.item = Item::Blob(forged.clone());
            }
        }
    }));
    desk.link(&victim, &evil.url()).await;
    victim.status_until("the person is told", accused).await;
    assert_eq!(victim.row(&notes(), "t", "forged").await, None);
    evil.turn_honest();
    victim.row_becomes(&notes(), "t", "honest", &row("honest", 1)).await;
    assert_eq!(victim.row(&notes(), "t", "forged").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_10_revoked_device_had_shown_more_than_counts() {
    let server = Server::start();
    let evil = Evil::start(server.address()).await;
    let desk = Device::start("desk").await;
    desk.create_account(&server.url()).await;
    let victim = Device::start("victim").await;
    desk.link(&victim, &evil.url()).await;
    let mut enemy = Hand::join(&desk, &server.url()).await;
    enemy.refresh_chain().await;
    enemy.push(&notes(), "t", &[("honest", json!({ "n": 1 }))]).await;
    victim.row_becomes(&notes(), "t", "honest", &row("honest", 1)).await;
    victim.put(&notes(), "t", "own", &json!({ "n": 2 })).await;
    desk.row_becomes(&notes(), "t", "own", &row("own", 2)).await;
    // While it is still linked, the victim alone is shown one more row.
    let body = plain(&enemy.body("t", &[("more", json!({ "n": 3 }))]));
    let more = enemy.seal(&notes(), &[("t", body)]).blobs.remove(0);
    evil.play(Script::new().pages(move |_, page| {
        let item = Item::Blob(more.clone());
        page.entries.push(Entry { position: page.head, received_ms: page.now_ms, item });
    }));
    desk.put(&notes(), "t", "hint", &json!({ "n": 4 })).await;
    victim.row_becomes(&notes(), "t", "more", &row("more", 3)).await;
    evil.turn_honest();
    // Whoever unlinks it was not shown that row: it does not count, and goes where it was shown.
    let id = enemy.replica(&notes()).device.to_string();
    said(&desk, &["devices", "revoke", &id]);
    eventually("the row is gone", DEADLINE, async || {
        match victim.row(&notes(), "t", "more").await {
            None => Ok(()),
            Some(row) => Err(format!("{row:?}")),
        }
    })
    .await;
    for (id, n) in [("honest", 1), ("own", 2), ("hint", 4)] {
        victim.row_becomes(&notes(), "t", id, &row(id, n)).await;
    }
    victim.put(&notes(), "t", "after", &json!({ "n": 5 })).await;
    desk.row_becomes(&notes(), "t", "after", &row("after", 5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_11_revoked_device_reads_on() {
    let server = Server::start();
    let (desk, enemy, ..) = revoked(&server).await;
    // Its token is not over, but counts no longer.
    eventually("its token counts no more", DEADLINE, async || {
        let pulled = enemy.pull(&notes(), None, &PullFilter::default()).await;
        match pulled.map_err(|error| error.code()) {
            Err(Some(Code::DeviceRevoked)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // Even a server that goes on serving it serves what it cannot open: no wrap is made for it.
    desk.put(&notes(), "t", "secret", &json!({ "n": 9 })).await;
    desk.synced().await;
    let devices = desk.devices().await.devices;
    let id = enemy.replica(&notes()).device;
    assert!(devices.iter().any(|device| device.id == id && !device.active));
}
