//! Servers that stop, fall silent or break off, and what is said of them meanwhile.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tidings_tests::apart::Network;
use tidings_tests::{Act, Alter, Device, Front, House, Server};
use tidings_wire::local::{StatusAnswer, SyncState};

use super::{doctor, finds, notes, status};

/// Nothing comes through any more and nobody says so: offline in time, no write lost.
#[tokio::test(flavor = "multi_thread")]
async fn f09_a_connection_that_is_half_open() {
    let app = notes();
    let network = Network::new();
    let mut server = Server::with(&["stream.keepalive=1s"]);
    server.stop();
    server.resume_with(|command| network.enter(command));
    let mut house = House { server, proxy: None, devices: Vec::new() };
    for name in ["a", "b"] {
        let mut device = Device::new(name)
            .set("sync.stream_silence=2500ms")
            .set("sync.connect_timeout=1s")
            .set("sync.answer_timeout=1s")
            .set("sync.transfer_timeout=1s");
        device.resume_with(|command| network.enter(command)).await;
        match house.devices.first() {
            None => device.create_account(&house.url()).await,
            Some(first) => first.link(&device, &house.url()).await,
        };
        house.devices.push(device);
    }
    let (a, b) = (house.device(0), house.device(1));
    a.put(&app, "t", "before", &json!({})).await;
    b.rows_become(&app, "t", 1).await;
    a.synced().await;

    let rule = ["INPUT", "-i", "lo", "-p", "tcp", "-j", "DROP"];
    network.iptables(&[&["-A"], &rule[..]].concat());
    let offline = |status: &StatusAnswer| status.state == SyncState::Offline;
    let cut = a.status_until("offline", offline).await;
    assert!(cut.proven_at.is_some(), "the age of what was proved is still told");
    a.put(&app, "t", "during", &json!({})).await;
    assert_eq!(status(a)["state"], "offline");
    let (code, found) = doctor(a);
    assert_eq!(code, 1, "{found:?}");
    finds(&found, "server", &["cannot be reached"]);
    finds(&found, "sync", &["offline", "goes on trying by itself"]);

    network.iptables(&[&["-D"], &rule[..]].concat());
    b.rows_become(&app, "t", 2).await;
    a.synced().await;
}

/// Every break of a page, from its head to its last bytes: none of it counts until all is here.
#[tokio::test(flavor = "multi_thread")]
async fn f16_pages_that_break_off() {
    let app = notes();
    let server = Server::start();
    let front = Front::start(server.address()).await;
    let a = Device::start("a").await;
    a.create_account(&server.url()).await;
    let mut b = Device::new("b").set("sync.backoff_first=10ms").set("sync.backoff_max=50ms");
    b.resume().await;
    a.link(&b, &front.url()).await;
    a.put(&app, "t", "first", &json!({})).await;
    b.rows_become(&app, "t", 1).await;
    b.synced().await;

    // The cursor of every pull that was broken off, and how many there were.
    let (asked, whole) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, done) = (Arc::clone(&asked), Arc::clone(&whole));
    const STEP: usize = 61;
    front.script(move |parts| {
        if !parts.uri.path().ends_with("/pull") {
            return Act::Pass;
        }
        match done.load(Ordering::Relaxed) {
            0 => Act::Short(count.fetch_add(1, Ordering::Relaxed) * STEP, Arc::clone(&done)),
            _ => Act::Pass,
        }
    });
    let before = front.seen("GET /api/sync/pull").len();
    for n in 0..3 {
        a.put(&app, "t", &format!("r{n}"), &json!({ "text": "a".repeat(200) })).await;
    }
    let rows = b.rows_become(&app, "t", 4).await;
    assert_eq!(rows, a.rows(&app, "t").await);
    b.synced().await;
    let broken = asked.load(Ordering::Relaxed);
    assert!(broken > 10, "only {broken} pulls were broken off");
    let seen = front.seen("GET /api/sync/pull");
    let lines = seen.iter().skip(before).take(broken).map(|seen| seen.line.clone());
    let cursors: BTreeSet<_> = lines
        .filter_map(|line| {
            let cursor = line.split(['?', '&']).find(|part| part.starts_with("cursor="))?;
            Some(cursor.to_owned())
        })
        .collect();
    assert_eq!(cursors.len(), 1, "the cursor moved on: {cursors:?}");
    assert!(whole.load(Ordering::Relaxed) > 0);
}

/// Tokens that run out in the middle of pulls and streams: nobody notices.
#[tokio::test(flavor = "multi_thread")]
async fn f17_tokens_that_run_out_under_way() {
    let app = notes();
    let server = Server::with(&["auth.token_life=2s"]);
    let front = Front::start(server.address()).await;
    let a = Device::start("a").await;
    a.create_account(&server.url()).await;
    let mut b = Device::new("b").set("sync.page_entries=1").set("sync.token_margin=100ms");
    b.resume().await;
    a.link(&b, &front.url()).await;
    a.put(&app, "t", "first", &json!({})).await;
    b.rows_become(&app, "t", 1).await;

    // Each page takes a while, so that all of them take several lives of a token.
    front.script(|parts| match parts.uri.path().ends_with("/pull") {
        true => Alter::slowly(4, Duration::from_millis(150), |page| page),
        false => Act::Pass,
    });
    const ROWS: usize = 8;
    let signed_in = front.seen("POST /api/auth/token").len();
    let watched = async {
        let mut states = BTreeSet::new();
        b.status_until("three more tokens, and all rows", |status| {
            states.insert(format!("{:?}", status.state));
            front.seen("POST /api/auth/token").len() >= signed_in + 3
                && status.state == SyncState::Synced
                && status.apps.iter().any(|app| app.complete)
        })
        .await;
        states
    };
    let written = async {
        for n in 0..ROWS {
            a.put(&app, "t", &format!("r{n}"), &json!({})).await;
            // Pushes apart, so that each is a page of its own.
            a.synced().await;
        }
    };
    let (states, ()) = tokio::join!(watched, written);
    b.rows_become(&app, "t", ROWS + 1).await;
    let quiet: BTreeSet<_> = ["Synced", "Syncing"].map(str::to_owned).into();
    assert!(states.is_subset(&quiet), "somebody was told: {states:?}");
    // The cursor goes on from page to page: no page is asked for twice for want of a token.
    let pulls = front.seen("GET /api/sync/pull").len();
    assert!(pulls < 10 * ROWS, "{pulls} pulls for {ROWS} pages");
}

/// A server that stops in order says for how long to stay away: that is offline, at once, and all
/// verbs say so.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_in_order_is_offline_at_once() {
    let server = Server::with(&["stream.closing_retry=30s"]);
    let mut house = House::of(server, None, [Device::new("a")]).await;
    house.device(0).synced().await;
    house.server.stop();
    let a = house.device(0);
    let mut states = Vec::new();
    let offline = a.status_until("offline", |status| {
        states.push(status.state);
        status.state == SyncState::Offline
    });
    let said = offline.await;
    assert!(said.reason.is_some_and(|reason| reason.contains("stops for a while")));
    assert!(!states.contains(&SyncState::Syncing), "{states:?}");
    let (code, found) = doctor(a);
    assert_eq!(code, 1);
    finds(&found, "server", &["cannot be reached"]);
    // Whoever links a computer now need not wait for the end of all patience.
    let (ended, said) = a.run(&["devices", "add", "4821-amused-violin-tunnel"]);
    assert_eq!(ended.code(), Some(1), "{said}");
    assert!(said.contains("The server cannot be reached"), "{said}");
}

/// What the address has to do with a server that does not answer, and which one is meant.
#[tokio::test(flavor = "multi_thread")]
async fn addresses_without_a_word_too_few() {
    let device = Device::start("a").await;
    // A server that speaks TLS answers a plain request with an alert (RFC 8446, 6).
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(&[21, 3, 3, 0, 2, 2, 22]);
        }
    });
    let failed = |url: &str| {
        let (ended, said) = device.run(&["account", "create", url]);
        assert_eq!(ended.code(), Some(1), "{said}");
        said
    };
    let said = failed(&format!("http://{address}"));
    assert!(said.contains("write https:// instead of http://"), "{said}");
    let said = failed(&address.to_string());
    assert!(said.contains("without a scheme https:// is meant"), "{said}");
    drop(answering);

    let server = Server::start();
    let account = device.create_account(&format!("{}/", server.url())).await;
    assert_eq!(account.url, server.url());
    assert_eq!(device.status().await.server, Some(server.url()));
}
