//! O19: after standby the client reconnects with the expired token again and again; live updates
//! stay dead though a new token exists.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::AUTHORIZATION;
use rustix::process::Signal;
use serde_json::json;
use tidings_client::local::WatchOptions;
use tidings_tests::evil::{Answer, Asked, Evil, Script, Turn};
use tidings_tests::{DEADLINE, Device, House, Server, eventually, within};
use tidings_wire::local::{Change, ChangeKind, SyncState};
use tidings_wire::{AppId, Code};

const PULL: &str = "/api/sync/pull";

/// The token that a request carries.
fn token(asked: &Asked) -> Option<&str> {
    asked.headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

fn count(asked: &[Asked], path: &str) -> usize {
    asked.iter().filter(|asked| asked.is(path)).count()
}

/// B on its server, D of the same account behind a server that may lie.
async fn house(server: Server, settings: &[&str]) -> (House, Device, Evil) {
    let house = House::of(server, None, [Device::new("b")]).await;
    let evil = Evil::start(house.server.address()).await;
    let mut d = Device::new("d");
    for setting in settings {
        d = d.set(setting);
    }
    d.resume().await;
    house.device(0).link(&d, &evil.url()).await;
    (house, d, evil)
}

#[tokio::test(flavor = "multi_thread")]
async fn o19_after_standby_one_refresh_is_enough() {
    let app: AppId = "notes".parse().unwrap();
    let server = Server::with(&["auth.token_life=2s"]);
    let (house, mut d, evil) = house(server, &["sync.token_margin=0ms"]).await;
    let b = house.device(0);
    b.put(&app, "t", "before", &json!({})).await;
    d.row_becomes(&app, "t", "before", &json!({ "id": "before" })).await;

    d.process().signal(Signal::STOP);
    let asked = evil.asked();
    let old = asked.iter().rev().find_map(token).unwrap().to_owned();
    let with_old = house.server.client().with_token(&old);
    eventually("the token's time is over", DEADLINE, async || match with_old.apps().await {
        Err(error) if error.code() == Some(Code::TokenExpired) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    b.put(&app, "t", "missed", &json!({})).await;
    b.synced().await;
    let mark = evil.mark();
    d.process().signal(Signal::CONT);
    d.row_becomes(&app, "t", "missed", &json!({ "id": "missed" })).await;

    let asked = evil.asked_since(mark);
    let dead = asked.iter().filter(|asked| token(asked) == Some(&old)).count();
    assert!(dead <= 2, "{dead} requests with the dead token");
    // Until the row had come, which took a pull with the new one.
    let pulled = asked
        .iter()
        .position(|asked| asked.is(PULL) && token(asked).is_some_and(|token| token != old))
        .unwrap();
    let refreshes = count(&asked[..pulled], "/api/auth/token");
    assert_eq!(refreshes, 1, "refreshes before the pull");
    // And live updates live.
    b.put(&app, "t", "live", &json!({})).await;
    d.row_becomes(&app, "t", "live", &json!({ "id": "live" })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o19_a_pull_goes_on_where_its_token_ended() {
    let app: AppId = "notes".parse().unwrap();
    let (house, mut d, evil) = house(Server::start(), &["sync.page_entries=2"]).await;
    let b = house.device(0);
    b.put(&app, "t", "before", &json!({})).await;
    d.row_becomes(&app, "t", "before", &json!({ "id": "before" })).await;
    let mut stream = d.follow(&app, "t").await;
    b.put(&app, "t", "last", &json!({})).await;
    let last = stream.event().await;
    d.synced().await;
    d.stop();
    for number in 0..10 {
        b.put(&app, "t", &format!("r{number}"), &json!({})).await;
        b.synced().await;
    }

    // The third of five pages is refused once.
    let pulls = AtomicUsize::new(0);
    evil.play(Script::new().before(move |asked| {
        let third = asked.is(PULL) && pulls.fetch_add(1, Ordering::SeqCst) == 2;
        if third { Answer::problem(Code::TokenExpired).into() } else { Turn::Pass }
    }));
    let mark = evil.mark();
    d.resume().await;
    d.rows_become(&app, "t", 12).await;
    let asked = evil.asked_since(mark);
    let pulls: Vec<_> = (0..).zip(&asked).filter(|(_, asked)| asked.is(PULL)).collect();
    let cursor = |index: usize| pulls[index].1.parameters().get("cursor").cloned();
    assert!(cursor(2).is_some());
    assert_eq!(cursor(3), cursor(2), "it goes on from the third page's cursor");
    let between = &asked[pulls[2].0..pulls[3].0];
    assert_eq!(count(between, "/api/auth/token"), 1, "one refresh");

    // Each row was told once.
    let options =
        WatchOptions { last_event_id: Some(last.id.to_string()), ..WatchOptions::default() };
    let mut stream = d.client().watch(&app, &["t".to_owned()], &options).await.unwrap();
    let mut told = Vec::new();
    while told.len() < 10 {
        let event = within("an event", DEADLINE, stream.next()).await.unwrap().unwrap();
        if let Ok(change) = serde_json::from_str::<Change>(&event.data) {
            assert_eq!(change.kind, ChangeKind::Insert, "{event:?}");
            told.push(change.row_id);
        }
    }
    let rows: BTreeSet<_> = told.iter().collect();
    assert_eq!(rows.len(), 10, "{told:?}");
    b.put(&app, "t", "after", &json!({})).await;
    let event = within("an event", DEADLINE, stream.next()).await.unwrap().unwrap();
    let change: Change = serde_json::from_str(&event.data).unwrap();
    assert_eq!(change.row_id, "after", "nothing was told twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn o19_a_refused_refresh_is_told_and_backed_off_from() {
    let app: AppId = "notes".parse().unwrap();
    let (house, d, evil) = house(Server::start(), &[]).await;
    let b = house.device(0);
    d.put(&app, "t", "before", &json!({})).await;
    d.synced().await;
    let mark = evil.mark();
    evil.play(Script::new().before(|asked| match asked.path.as_str() {
        "/api/auth/challenge" => Turn::Pass,
        _ => Answer::problem(Code::TokenInvalid).into(),
    }));
    const SIGN_INS: usize = 6;
    eventually("it tried again and again", DEADLINE, async || {
        let tries = count(&evil.asked_since(mark), "/api/auth/token");
        if tries >= SIGN_INS { Ok(()) } else { Err(tries) }
    })
    .await;
    let status = d
        .status_until("it says so", |status| {
            status.state != SyncState::Synced && status.reason.is_some()
        })
        .await;
    assert!(!matches!(status.state, SyncState::Revoked), "only the chain can say that: {status:?}");
    // Each try is one challenge and one answer; nothing else is asked for without a token over and
    // over.
    let asked = evil.asked_since(mark);
    let tries = count(&asked, "/api/auth/token");
    assert!(asked.len() <= 4 * tries + 8, "{} requests for {tries} tries", asked.len());
    // Here everything goes on.
    d.put(&app, "t", "meanwhile", &json!({ "v": 1 })).await;
    d.row_becomes(&app, "t", "meanwhile", &json!({ "id": "meanwhile", "v": 1 })).await;
    assert_eq!(b.row(&app, "t", "meanwhile").await, None);
    evil.turn_honest();
    b.row_becomes(&app, "t", "meanwhile", &json!({ "id": "meanwhile", "v": 1 })).await;
    d.synced().await;
}
