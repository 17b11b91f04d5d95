//! The recovery kit: twelve words on paper that bring an account back.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use serde_json::json;
use tidings_tests::{Act, Device, Front, House, Server};
use tidings_wire::linking::{DeviceRole, RecoveryKit};

use super::{is_revoked, kit, notes, recover, row, said, told};

#[tokio::test(flavor = "multi_thread")]
async fn the_words_bring_everything_back_once() {
    let mut house = House::new(&["old", "lost"]).await;
    let old = house.device(0);
    assert!(said(old, &["status"]).contains("no recovery kit"));
    old.put(&notes(), "t", "1", &json!({ "n": 1 })).await;
    house.device(1).put(&notes(), "t", "2", &json!({ "n": 2 })).await;
    house.device(1).synced().await;
    let made = kit(old);
    assert_eq!(made.words.split(' ').count(), 12);
    old.status_until("it knows of the kit", |status| status.recovery_kit == Some(true)).await;
    assert!(!said(old, &["status"]).contains("no recovery kit"));
    old.synced().await;
    house.device_mut(0).stop();
    house.device_mut(1).stop();

    let new = Device::start("new").await;
    let account = made.account.to_string();
    // As somebody types it who reads from paper in a hurry.
    let typed = made.words.to_uppercase().replace(' ', ",\n \u{a0}");
    let entries = made.entries.to_string();
    let mut verb = recover(&made, &account, "new");
    verb.extend(["--entries", &entries, "--revoke", "lost"]);
    let (code, text) = told(&new, &verb, &typed);
    assert_eq!(code, Some(0), "{text}");
    for expected in ["Recovered.", "Tidings recovery kit", "Unlinked: lost"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("The server shows fewer"), "{text}");
    for (id, n) in [("1", 1), ("2", 2)] {
        new.row_becomes(&notes(), "t", id, &row(id, n)).await;
    }
    new.synced().await;
    assert!(new.status().await.alarms.is_empty(), "{:?}", new.status().await.alarms);
    let devices = new.devices().await.devices;
    let papers = devices.iter().filter(|device| device.kind == DeviceRole::Paper);
    assert_eq!(papers.map(|paper| paper.active).collect::<Vec<_>>(), [false, true]);

    // Those that were only switched off: one is still linked, the other learns that it is not.
    house.device_mut(0).resume().await;
    house.device_mut(1).resume().await;
    new.put(&notes(), "t", "3", &json!({ "n": 3 })).await;
    house.device(0).row_becomes(&notes(), "t", "3", &row("3", 3)).await;
    house.device(1).status_until("it was unlinked", is_revoked).await;

    // The words work once.
    let thief = Device::start("thief").await;
    let (code, text) = told(&thief, &recover(&made, &account, "thief"), &made.words);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("used or replaced"), "{text}");
    assert_eq!(thief.status().await.account, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_words_are_said_to_be_wrong_and_change_nothing() {
    let house = House::new(&["a"]).await;
    let made = kit(house.device(0));
    let other = House::new(&["b"]).await;
    let stranger = kit(other.device(0));
    let new = Device::start("new").await;
    let account = made.account.to_string();
    let verb = recover(&made, &account, "new");
    let first = made.words.split(' ').next().unwrap();
    let misspelt = made.words.replacen(first, "sausege", 1);
    let short = made.words.rsplit_once(' ').unwrap().0;
    for (words, expected) in [
        (misspelt.as_str(), "Word 1 (`sausege`)"),
        (short, "12 words, not 11"),
        (stranger.words.as_str(), "do not belong to this account"),
    ] {
        let (code, text) = told(&new, &verb, words);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(expected), "{expected}: {text}");
        assert!(!text.contains(&made.words), "{text}");
    }
    assert_eq!(new.status().await.account, None);
    let (code, text) = told(&new, &verb, &made.words);
    assert_eq!(code, Some(0), "{text}");
}

/// A server that refuses every entry after so many.
fn refuse_entries_after(front: &Front, taken: usize) {
    let seen = AtomicUsize::new(0);
    front.script(move |request| {
        let entry = request.method == Method::POST && request.uri.path() == "/api/chain";
        if !entry || seen.fetch_add(1, Ordering::SeqCst) < taken {
            return Act::Pass;
        }
        let body = br#"{"error":{"code":"server.unavailable","message":"a pause"}}"#;
        Act::Answer(503, "application/json", body[..].into())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_new_kit_the_computer_is_back_all_the_same() {
    let house = House::new(&["old"]).await;
    let old = house.device(0);
    old.put(&notes(), "t", "1", &json!({ "n": 1 })).await;
    let made = kit(old);
    old.synced().await;
    let front = Front::start(house.server.address()).await;
    let through = RecoveryKit { url: front.url(), ..made.clone() };
    let account = made.account.to_string();
    // It stands in the chain and has its name; the next entry would be the new kit.
    refuse_entries_after(&front, 2);
    let new = Device::start("new").await;
    let (code, text) = told(&new, &recover(&through, &account, "new"), &made.words);
    assert_eq!(code, Some(4), "{text}");
    for expected in ["Recovered.", "pause", "still work", "tidings recovery kit"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("Nothing was changed"), "{text}");
    assert_eq!(text.matches(made.words.as_str()).count(), 0);
    // Everything comes back without a start.
    new.row_becomes(&notes(), "t", "1", &row("1", 1)).await;
    // The words are good until there is a new kit, and then no more.
    front.script(|_| Act::Pass);
    let newer = kit(&new);
    let another = Device::start("another").await;
    let (code, text) = told(&another, &recover(&made, &account, "another"), &made.words);
    assert_eq!(code, Some(1), "{text}");
    let (code, text) = told(&another, &recover(&newer, &account, "another"), &newer.words);
    assert_eq!(code, Some(0), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_to_print_is_private_and_replaces_nothing_it_cannot_write() {
    use std::os::unix::fs::PermissionsExt as _;

    let house = House::new(&["a"]).await;
    let a = house.device(0);
    let page = a.home().join("kit.html");
    let shown = page.to_str().unwrap();
    said(a, &["recovery", "kit", "--html", shown]);
    assert_eq!(std::fs::metadata(&page).unwrap().permissions().mode() & 0o777, 0o600);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("<svg") && html.contains(&house.url()), "{html}");
    let count = a.devices().await.devices.len();
    let (status, text) = a.run(&["recovery", "kit", "--html", shown]);
    assert_eq!(status.code(), Some(1), "{text}");
    assert_eq!(a.devices().await.devices.len(), count, "no kit was made in vain");
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_55_recovery_rollback() {
    let server = Server::start();
    let old = Device::start("old").await;
    old.create_account(&server.url()).await;
    let made = kit(&old);
    // As if entries had been there when the kit was printed that the server hides now.
    let entries = (made.entries + 1).to_string();
    let new = Device::start("new").await;
    let account = made.account.to_string();
    let mut verb = recover(&made, &account, "new");
    verb.extend(["--entries", &entries]);
    let (code, text) = told(&new, &verb, &made.words);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("shows fewer entries than your kit names"), "{text}");
}
