//! What a hostile server may answer to the daemon.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use http::Method;
use serde_json::json;
use tidings_client::local::Request;
use tidings_tests::inside::{InsideDaemon, InsideServer};
use tidings_tests::{Act, DEADLINE, Device, Front, Hand, eventually, within};
use tidings_wire::linking::{Login, Setup};
use tidings_wire::{AppId, limits};

use crate::measure::{alone, bounded, settled};

const A: &[u8] = &[b'a'; 16 << 10];
const OPEN: &[u8] = &[b'['; 16 << 10];
const ZEROS: &[u8] = &[0; 16 << 10];
const CBOR: &str = "application/cbor";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Lines of an event, and apps, as large pieces.
static LINES: LazyLock<Vec<u8>> = LazyLock::new(|| b"data: aaaaaaaaaaaaaaaaaaa\n".repeat(1 << 10));
static APPS: LazyLock<Vec<u8>> =
    LazyLock::new(|| b"{\"app_id\":\"a\",\"head\":1},".repeat(1 << 10));

/// A lie: which path it answers, what it is called, what it is, and the limit of that answer.
struct Lie {
    path: &'static str,
    what: &'static str,
    act: fn() -> Act,
    limit: usize,
}

const CHALLENGE: &str = "/api/auth/challenge";
/// Answers and frames that are small; what the daemon does besides, such as making a client or
/// keys, is larger than they are.
const SMALL: usize = 256 << 10;

const LIES: &[Lie] = &[
    Lie {
        path: "/api/sync/subscribe",
        what: "a line without end on the stream",
        act: || Act::Endless(200, EVENTS, b"data: ", A, None),
        limit: SMALL,
    },
    Lie {
        path: "/api/sync/subscribe",
        what: "an event of lines without end",
        act: || Act::Endless(200, EVENTS, b"", &LINES, None),
        limit: SMALL,
    },
    Lie {
        path: "/api/sync/pull",
        what: "a page without end",
        // An array of the answer's fields, and an endless generation.
        act: || Act::Endless(200, CBOR, &[0x8f, 0x5b, 0, 0, 1, 0, 0, 0, 0, 0], ZEROS, None),
        limit: limits::PULL_RESPONSE,
    },
    Lie {
        path: "/api/sync/pull",
        what: "a page that announces a tebibyte",
        act: || Act::Endless(200, CBOR, &[], ZEROS, Some(1 << 40)),
        limit: SMALL,
    },
    Lie {
        path: "/api/sync/pull",
        what: "a page of 2^63 entries",
        act: || Act::Answer(200, CBOR, HUGE_PAGE.into()),
        limit: SMALL,
    },
    Lie {
        path: "/api/sync/pull",
        what: "a page of 200,000 levels",
        act: || Act::Answer(200, CBOR, vec![0x81; 200_000].into()),
        limit: 4 * SMALL,
    },
    Lie {
        path: "/api/sync/pull",
        what: "an error without end",
        act: || Act::Endless(500, JSON, b"{\"error\":{\"code\":\"", A, None),
        limit: limits::JSON_RESPONSE,
    },
    Lie {
        path: "/api/sync/apps",
        what: "apps without end",
        act: || Act::Endless(200, JSON, b"{\"apps\":[", &APPS, None),
        limit: limits::JSON_RESPONSE,
    },
    Lie {
        path: "/api/sync/apps",
        what: "apps of 200,000 levels",
        act: || Act::Answer(200, JSON, vec![b'['; 200_000].into()),
        limit: 4 * SMALL,
    },
    Lie {
        path: "/api/chain",
        what: "a chain without end",
        act: || Act::Endless(200, JSON, b"{\"entries\":[\"", A, None),
        limit: limits::JSON_RESPONSE,
    },
    Lie {
        path: CHALLENGE,
        what: "a challenge without end",
        act: || Act::Endless(200, JSON, b"{\"nonce\":\"", A, None),
        limit: 1 << 20,
    },
];

/// `[generation, start, null, [* 2^63 entries`.
const HUGE_PAGE: &[u8] = &[
    0x8f, 0x48, 1, 1, 1, 1, 1, 1, 1, 1, 0x48, 1, 1, 1, 1, 1, 1, 1, 1, 0xf6, 0x9b, 128, 0, 0, 0, 0,
    0, 0, 0,
];

#[tokio::test(flavor = "multi_thread")]
async fn a_linked_daemon_is_told_too_much() {
    let _alone = alone().await;
    let app: AppId = "notes".parse().unwrap();
    let server = InsideServer::start().await;
    let front = Front::start(server.address()).await;
    let device = Device::new("inside")
        .set("sync.poll=500ms")
        .set("sync.poll_buffered=500ms")
        .set("sync.sleep_check=200ms");
    let daemon = InsideDaemon::start(device).await;
    let device = &daemon.device;
    device.create_account(&front.url()).await;
    let mut hand = Hand::join(device, &server.url()).await;
    hand.push(&app, "t", &[("r0", json!({}))]).await;
    device.rows_become(&app, "t", 1).await;

    for (number, lie) in LIES.iter().enumerate() {
        let told = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&told);
        let hearing = async {
            front.script(move |request| {
                let path = request.uri.path();
                if path == lie.path {
                    counter.fetch_add(1, Ordering::SeqCst);
                    return (lie.act)();
                }
                // A sign-in is asked for only by who has lost the token.
                if lie.path == CHALLENGE { refusal(path) } else { Act::Pass }
            });
            // Streams that are open would go on telling the truth.
            front.cut();
            hand.push(&app, "t", &[(&format!("r{}", number + 1), json!({}))]).await;
            if lie.path == "/api/chain" {
                hand.link().await;
            }
            // Twice, so that one of them was heard out.
            eventually(lie.what, DEADLINE, async || match told.load(Ordering::SeqCst) {
                heard @ 0..2 => Err(format!("told {heard} times")),
                _ => Ok(()),
            })
            .await;
        };
        bounded(lie.what, lie.limit, hearing).await;
        // The truth again: it goes on, and everything arrives.
        front.script(|_| Act::Pass);
        device.rows_become(&app, "t", number + 2).await;
        // Whatever is still being told comes to its end before the next is measured.
        front.cut();
        settled().await;
    }
    daemon.stop().await;
}

/// What makes a daemon sign in again.
fn refusal(path: &str) -> Act {
    if path.starts_with("/api/sync/") {
        let body = br#"{"error":{"code":"auth.token_expired","message":"sign in again"}}"#;
        return Act::Answer(401, JSON, body[..].into());
    }
    Act::Pass
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_joins_is_told_too_much() {
    let _alone = alone().await;
    let server = InsideServer::start().await;
    let front = Front::start(server.address()).await;
    let daemon = InsideDaemon::start(Device::new("inside")).await;
    type Lying = fn() -> Act;
    // A refusal may carry entries of the device chain, so it is allowed as much as those are.
    let long = limits::JSON_RESPONSE;
    let lies: [(&str, Lying, usize); 4] = [
        ("no end", || Act::Endless(200, JSON, b"{\"account_id\":\"", A, None), SMALL),
        ("a tebibyte", || Act::Endless(200, JSON, b"{", A, Some(1 << 40)), SMALL),
        ("no ground", || Act::Endless(200, JSON, b"", OPEN, None), SMALL),
        ("a refusal without end", || Act::Endless(400, JSON, b"{\"error\":", A, None), long),
    ];
    for (what, act, limit) in lies {
        front.script(move |_| act());
        let url = front.url();
        let create = daemon.device.try_create_account(&url, None);
        let refused = bounded(what, limit, create).await;
        assert!(refused.is_err(), "{what}");
    }
    // The other side's messages in the mailbox, where a pairing waits for them.
    front.script(|request| match request.uri.path().starts_with("/api/pair/") {
        true => Act::Endless(200, JSON, b"{\"messages\":[\"", A, None),
        false => Act::Pass,
    });
    let login = Login { url: front.url(), setup: Setup::default() };
    let login = async {
        let request = Request::new(Method::POST, "/v1/login").json(&login).unwrap();
        let mut events = daemon.device.client().stream(request).await.unwrap();
        while let Some(event) = within("an event", DEADLINE, events.next()).await.unwrap() {
            if event.name == "error" {
                return event.data;
            }
        }
        panic!("the login ended without a word");
    };
    let refused = bounded("messages without end", long, login).await;
    assert!(!refused.is_empty());

    front.script(|_| Act::Pass);
    daemon.device.create_account(&front.url()).await;
    daemon.stop().await;
}

/// What the daemon's clients, such as the command line, read of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_socket_is_told_too_much() {
    let _alone = alone().await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let lies: [(&str, &'static [u8], usize); 2] = [
        ("a line without end", A, limits::SSE_LINE),
        ("an event without end", &LINES, limits::SSE_EVENT),
    ];
    for (what, piece, limit) in lies {
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let teller = std::thread::spawn(move || {
            use std::io::{Read as _, Write as _};
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ";
            let mut told = stream.write_all(head.as_bytes());
            // Until the reader has had enough.
            while told.is_ok() {
                told = stream.write_all(piece);
            }
        });
        let hearing = async {
            let client = tidings_client::local::Client::new(&path);
            let mut stream = client.watch_status().await.unwrap();
            within(what, DEADLINE, stream.next()).await
        };
        let heard = bounded(what, limit, hearing).await;
        assert!(heard.is_err(), "{what}: {heard:?}");
        teller.join().unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
