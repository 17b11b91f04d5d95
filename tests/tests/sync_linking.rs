//! Making an account and linking computers: what goes wrong is said, and nothing is left behind.

use http::Method;
use serde_json::{Value, json};
use tidings_client::local::{EventStream, LocalError, Request};
use tidings_tests::{DEADLINE, Device, House, Server, within};
use tidings_wire::Code;
use tidings_wire::linking::LoginEvent;

/// Begins a login and gives the code that it shows.
async fn shown_code(device: &Device, url: &str) -> (EventStream, String) {
    let login = json!({ "url": url, "name": device.name(), "keystore": "file" });
    let request = Request::new(Method::POST, "/v1/login").json(&login).unwrap();
    let mut events = device.client().stream(request).await.unwrap();
    loop {
        if let LoginEvent::Code(shown) = next(&mut events).await {
            return (events, shown.code);
        }
    }
}

async fn next(events: &mut EventStream) -> LoginEvent {
    loop {
        let event = within("an event of the login", DEADLINE, events.next()).await;
        let event = event.unwrap().expect("the stream goes on");
        if let Some(event) = LoginEvent::read(&event.name, &event.data).unwrap() {
            return event;
        }
    }
}

async fn failure(events: &mut EventStream) -> tidings_wire::Problem {
    loop {
        match next(events).await {
            LoginEvent::Error(problem) => return problem,
            LoginEvent::Paired(account) => panic!("linked: {account:?}"),
            _ => {}
        }
    }
}

async fn add(device: &Device, code: &str) -> Result<Value, LocalError> {
    let request = Request::new(Method::POST, "/v1/devices/add").json(&json!({ "code": code }))?;
    device.client().request(request).await?.json()
}

/// The same mailbox with other words.
fn twisted(code: &str) -> String {
    let nameplate = code.split('-').next().unwrap();
    let other = format!("{nameplate}-abandon-ability-zoo");
    if other == code { format!("{nameplate}-zoo-zoo-zoo") } else { other }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_code_burns_itself_and_the_next_one_works() {
    let house = House::new(&["a"]).await;
    let a = house.device(0);
    let b = Device::start("b").await;
    let (mut events, code) = shown_code(&b, &house.url()).await;
    let refused = add(a, &twisted(&code)).await.unwrap_err();
    assert_eq!(refused.code(), Some(Code::PairWrongCode), "{refused}");
    let problem = failure(&mut events).await;
    assert_eq!(problem.code, Code::PairWrongCode);
    assert!(problem.hint.unwrap().contains("tidings login"));
    // The right words are of no more use.
    let refused = add(a, &code).await.unwrap_err();
    assert!(refused.code().is_some(), "{refused}");
    assert_eq!(a.devices().await.devices.len(), 1);

    a.link(&b, &house.url()).await;
    let names: Vec<_> = b.devices().await.devices.into_iter().map(|d| (d.name, d.this)).collect();
    assert!(names.contains(&(Some("b".to_owned()), true)), "{names:?}");
    assert!(names.contains(&(Some("a".to_owned()), false)), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_that_is_none_or_that_nobody_shows_is_refused_in_words() {
    let house = House::new(&["a"]).await;
    let a = house.device(0);
    for (code, expected) in [
        ("hello", Code::InvalidField),
        ("12-abandon-ability", Code::InvalidField),
        ("12-abandon-ability-nonsenseword", Code::InvalidField),
        ("999999-abandon-ability-zoo", Code::PairEnded),
    ] {
        let refused = add(a, code).await.unwrap_err();
        assert_eq!(refused.code(), Some(expected), "{code}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_nobody_watches_any_more_gives_way_to_the_next() {
    let house = House::new(&["a"]).await;
    let b = Device::start("b").await;
    let (events, _) = shown_code(&b, &house.url()).await;
    drop(events);
    // The daemon notices within a heartbeat of the stream; until then it says that it is busy.
    tidings_tests::eventually("the next login begins", DEADLINE, async || {
        let login = json!({ "url": house.url(), "name": "b", "keystore": "file" });
        let request = Request::new(Method::POST, "/v1/login").json(&login).unwrap();
        let mut events = b.client().stream(request).await.unwrap();
        match next(&mut events).await {
            LoginEvent::Code(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_has_one_account() {
    let house = House::new(&["a", "b"]).await;
    for device in &house.devices {
        let refused = device.try_create_account(&house.url(), None).await.unwrap_err();
        assert_eq!(refused.code(), Some(Code::AccountPresent), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_an_account_from_being_made_is_said_and_can_be_put_right() {
    let a = Device::start("a").await;
    // Nobody there.
    let refused = a.try_create_account("http://127.0.0.1:9", None).await.unwrap_err();
    assert_eq!(refused.code(), Some(Code::UpstreamFailed), "{refused}");
    // Not encrypted.
    let refused = a.try_create_account("http://sync.example.org", None).await.unwrap_err();
    assert_eq!(refused.code(), Some(Code::InvalidField), "{refused}");
    let server = Server::with(&["registration=invite"]);
    let refused = a.try_create_account(&server.url(), Some("wrong".to_owned())).await.unwrap_err();
    assert_eq!(refused.code(), Some(Code::UpstreamFailed), "{refused}");
    let server = Server::start();
    a.create_account(&server.url()).await;
    a.synced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_outlives_restarts_and_keys_are_private() {
    use std::os::unix::fs::PermissionsExt as _;

    let mut house = House::new(&["a"]).await;
    let before = house.device(0).status().await;
    house.device_mut(0).stop();
    house.device_mut(0).resume().await;
    let after = house.device(0).synced().await;
    assert_eq!((before.account, before.device), (after.account, after.device));
    let keys = house.device(0).home().join("keys");
    assert_eq!(std::fs::metadata(keys).unwrap().permissions().mode() & 0o777, 0o600);
}

/// Makes an account with the keystore that is named, or none.
async fn create(device: &Device, url: &str, keystore: Option<&str>) -> Result<Value, LocalError> {
    let mut request = json!({ "url": url, "name": device.name() });
    if let Some(keystore) = keystore {
        request["keystore"] = json!(keystore);
    }
    let request = Request::new(Method::POST, "/v1/account").json(&request)?;
    device.client().request(request).await?.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_keychain_the_keys_lie_in_a_file_unless_one_was_asked_for() {
    let server = Server::start();
    let mut device = Device::new("a");
    device.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent/bus");
    device.resume().await;
    let refused = create(&device, &server.url(), Some("keychain")).await.unwrap_err();
    assert_eq!(refused.code(), Some(Code::KeysLocked), "{refused}");
    let refused = create(&device, &server.url(), Some("cupboard")).await.unwrap_err();
    assert!(refused.to_string().contains("keychain"), "{refused}");
    let account = create(&device, &server.url(), None).await.unwrap();
    assert_eq!(account["keystore"], "file");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_keys_stop_syncing_and_nothing_else() {
    let app: tidings_wire::AppId = "notes".parse().unwrap();
    let devices = ["a", "b"].map(|name| Device::new(name).set("sync.unlock_every=200ms"));
    let mut house = House::of(Server::start(), None, devices).await;
    house.device_mut(0).stop();
    let keys = house.device(0).home().join("keys");
    let away = house.device(0).home().join("away");
    std::fs::rename(&keys, &away).unwrap();
    house.device_mut(0).resume().await;
    let a = house.device(0);
    let waiting = |status: &tidings_wire::local::StatusAnswer| {
        status.state == tidings_wire::local::SyncState::Waiting
    };
    let status = a.status_until("it waits for its keys", waiting).await;
    assert!(status.reason.unwrap().contains("keystore"));
    // Local reads and writes go on, and go out once the keys are back.
    a.put(&app, "t", "1", &json!({ "v": 1 })).await;
    a.row_becomes(&app, "t", "1", &json!({ "id": "1", "v": 1 })).await;
    std::fs::rename(&away, &keys).unwrap();
    house.device(1).row_becomes(&app, "t", "1", &json!({ "id": "1", "v": 1 })).await;
    a.synced().await;
}
