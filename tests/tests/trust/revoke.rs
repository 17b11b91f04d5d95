//! Unlinking a computer: it reads nothing new, it knows why, and nothing of the others is lost.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::json;
use tidings_client::local::{LocalError, Request};
use tidings_tests::evil::{Answer, Evil, Script, Turn};
use tidings_tests::{Act, DEADLINE, Device, Front, House, Server, eventually};
use tidings_wire::Code;
use tidings_wire::account::ChainQuery;
use tidings_wire::linking::{DevicesAnswer, RevokeDevices};
use tidings_wire::local::SyncState;

use super::{has_keys, is_revoked, notes, row, said};

async fn revoke(device: &Device, names: &[&str]) -> Result<DevicesAnswer, LocalError> {
    let devices = names.iter().map(|name| (*name).to_owned()).collect();
    let request = Request::new(http::Method::POST, "/v1/devices/revoke");
    let request = request.json(&RevokeDevices { devices })?.within(Some(DEADLINE));
    device.client().request(request).await?.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unlinked_computer_reads_nothing_new_and_keeps_what_it_has() {
    let mut house = House::new(&["desk", "lost"]).await;
    let app = notes();
    house.device(1).put(&app, "t", "theirs", &json!({ "n": 1 })).await;
    house.device(1).synced().await;
    house.device(0).put(&app, "t", "before", &json!({ "n": 2 })).await;
    house.device(1).row_becomes(&app, "t", "before", &row("before", 2)).await;

    let renamed = said(house.device(0), &["devices", "rename", "lost", "old laptop"]);
    assert_eq!(renamed, "Renamed: old laptop");
    let text = said(house.device(0), &["devices", "revoke", "old laptop"]);
    assert!(text.starts_with("Unlinked: old laptop"), "{text}");
    assert!(said(house.device(0), &["devices", "list"]).contains("unlinked"));

    let lost = house.device(1);
    lost.status_until("it knows that it was unlinked", is_revoked).await;
    assert!(!has_keys(lost), "its keys are gone");
    lost.row_becomes(&app, "t", "before", &row("before", 2)).await;
    house.device(0).put(&app, "t", "after", &json!({ "n": 3 })).await;
    house.device(0).synced().await;
    assert_eq!(house.device(1).row(&app, "t", "after").await, None);

    // It stays so over a restart, and local reads and writes go on.
    house.device_mut(1).stop();
    house.device_mut(1).resume().await;
    let lost = house.device(1);
    lost.status_until("it still knows", is_revoked).await;
    lost.put(&app, "t", "unsent", &json!({ "n": 4 })).await;
    lost.row_becomes(&app, "t", "unsent", &row("unsent", 4)).await;
    let text = said(lost, &["status"]);
    assert!(text.starts_with("revoked"), "{text}");
    assert!(text.contains("1 changes were never sent"), "{text}");
    assert!(text.contains("tidings login URL"), "{text}");
    let unsent = said(lost, &["export", "--unsent"]);
    let unsent: serde_json::Value = serde_json::from_str(&unsent).unwrap();
    assert_eq!(
        (&unsent["app"], &unsent["table"], &unsent["id"]),
        (&json!("notes"), &json!("t"), &json!("unsent"))
    );
    assert_eq!(unsent["row"]["n"], 4);

    // Whoever is linked later sees what it wrote before, and everything since.
    house.link(Device::new("new")).await;
    let new = house.device(2);
    for (id, n) in [("theirs", 1), ("before", 2), ("after", 3)] {
        new.row_becomes(&app, "t", id, &row(id, n)).await;
    }
    new.synced().await;
    assert_eq!(new.row(&app, "t", "unsent").await, None);
    assert!(new.status().await.alarms.is_empty(), "{:?}", new.status().await.alarms);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unlinked_computer_can_be_linked_again_and_sends_what_it_had_left() {
    let house = House::new(&["desk", "laptop"]).await;
    let (desk, laptop) = (house.device(0), house.device(1));
    laptop.put(&notes(), "t", "before", &json!({ "n": 1 })).await;
    laptop.synced().await;
    revoke(desk, &["laptop"]).await.unwrap();
    laptop.status_until("it knows", is_revoked).await;
    laptop.put(&notes(), "t", "left", &json!({ "n": 2 })).await;
    desk.link(laptop, &house.url()).await;
    desk.row_becomes(&notes(), "t", "left", &row("left", 2)).await;
    desk.put(&notes(), "t", "new", &json!({ "n": 3 })).await;
    laptop.row_becomes(&notes(), "t", "new", &row("new", 3)).await;
    laptop.row_becomes(&notes(), "t", "before", &row("before", 1)).await;
    for device in [desk, laptop] {
        let status = device.synced().await;
        assert!(status.alarms.is_empty(), "{}: {:?}", device.name(), status.alarms);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_unlinked_is_said_in_words() {
    let house = House::new(&["a", "b", "b"]).await;
    let a = house.device(0);
    eventually("both names are known", DEADLINE, async || {
        let devices = a.devices().await.devices;
        let named = devices.iter().filter(|device| device.name.as_deref() == Some("b")).count();
        if named == 2 { Ok(()) } else { Err(format!("{devices:?}")) }
    })
    .await;
    for (name, words) in [("a", "itself"), ("nobody", "no linked computer"), ("b", "more than one")]
    {
        let refused = revoke(a, &[name]).await.unwrap_err();
        assert_eq!(refused.code(), Some(Code::InvalidField), "{refused}");
        assert!(refused.to_string().contains(words), "{name}: {refused}");
    }
    assert!(a.devices().await.devices.iter().all(|device| device.active));
    let id = house.device(1).status().await.device.unwrap().to_string();
    assert_eq!(revoke(a, &[&id]).await.unwrap().devices.len(), 1);
    house.device(1).status_until("unlinked by its id", is_revoked).await;
    // The name is one computer's alone now.
    revoke(a, &["b"]).await.unwrap();
    house.device(2).status_until("unlinked by its name", is_revoked).await;
}

/// What may have happened is not said to have not happened.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_leaves_it_open() {
    let server = Server::start();
    let front = Front::start(server.address()).await;
    let desk = Device::start("desk").await;
    desk.create_account(&front.url()).await;
    let lost = Device::start("lost").await;
    desk.link(&lost, &server.url()).await;
    eventually("the name is known", DEADLINE, async || {
        let known = desk.devices().await.devices;
        let named = known.iter().any(|device| device.name.as_deref() == Some("lost"));
        if named { Ok(()) } else { Err(format!("{known:?}")) }
    })
    .await;
    front.script(|request| {
        let entry = request.method == Method::POST && request.uri.path() == "/api/chain";
        if entry { Act::Short(0, Arc::default()) } else { Act::Pass }
    });
    let (status, text) = desk.run(&["devices", "revoke", "lost"]);
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("may have done it"), "{text}");
    assert!(!text.contains("Nothing was changed"), "{text}");
    // Here it was done.
    lost.status_until("it was unlinked", is_revoked).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_word_alone_unlinks_nobody() {
    let server = Server::start();
    let evil = Evil::start(server.address()).await;
    let device = Device::start("a").await;
    device.create_account(&evil.url()).await;
    device.synced().await;
    evil.play(Script::new().before(|asked| match asked.is("/api/chain") {
        true => Turn::Pass,
        false => Answer::problem(Code::DeviceRevoked).into(),
    }));
    device
        .status_until("it waits and says why", |status| {
            let says = |reason: &String| reason.contains("the server says");
            status.state == SyncState::Waiting && status.reason.as_ref().is_some_and(says)
        })
        .await;
    assert!(has_keys(&device));
    device.put(&notes(), "t", "1", &json!({ "n": 1 })).await;
    evil.turn_honest();
    device.synced().await;
}

/// The moments at which the revoking daemon is killed.
#[derive(Clone, Copy, PartialEq)]
enum Moment {
    /// The person has asked; nothing was sent.
    Asked,
    /// The server has the entry; the answer is lost.
    Sent,
}

/// Kills the revoking daemon at one moment, starts it again, and looks whether all came right.
async fn killed(moment: Moment) {
    let server = Server::start();
    let evil = Evil::start(server.address()).await;
    let mut first = Device::start("first").await;
    let account = first.create_account(&evil.url()).await.account;
    let second = Device::start("second").await;
    first.link(&second, &server.url()).await;
    let third = Device::start("third").await;
    first.link(&third, &server.url()).await;
    second.put(&notes(), "t", "before", &json!({ "n": 1 })).await;
    first.row_becomes(&notes(), "t", "before", &row("before", 1)).await;
    first.synced().await;

    let entries = async || {
        let query = ChainQuery { account_id: account, from: 0 };
        server.client().chain(&query).await.unwrap().head.index
    };
    let before = entries().await;
    let script = Script::new().before(|asked| match asked.is("/api/chain") {
        true if asked.method == http::Method::POST => Turn::Lose,
        _ => Turn::Pass,
    });
    evil.play(script.delay(Duration::from_millis(300)));
    let mark = evil.mark();
    let under_way = eventually("the revocation is under way", DEADLINE, async || {
        let asked = evil.asked_since(mark);
        let begun = match moment {
            Moment::Asked => asked.iter().any(|asked| asked.is("/api/sync/manifests")),
            Moment::Sent => entries().await > before,
        };
        if begun { Ok(()) } else { Err("not yet") }
    });
    tokio::select! {
        done = revoke(&first, &["second"]) => panic!("it ended first: {done:?}"),
        () = under_way => {}
    }
    first.kill();
    assert_eq!(entries().await > before, moment == Moment::Sent);
    evil.turn_honest();
    first.resume().await;
    second.status_until("unlinked all the same", is_revoked).await;
    first.put(&notes(), "t", "after", &json!({ "n": 2 })).await;
    third.row_becomes(&notes(), "t", "after", &row("after", 2)).await;
    first.synced().await;
    assert!(first.status().await.alarms.is_empty(), "{:?}", first.status().await.alarms);
    assert_eq!(second.row(&notes(), "t", "after").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_entry_went_it_goes_on() {
    killed(Moment::Asked).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_answer_came_it_goes_on() {
    killed(Moment::Sent).await;
}
