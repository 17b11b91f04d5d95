//! O01: a CRLF cut between two reads counts as two line ends, so one event comes out as two; the
//! sibling bug never sees CR-only streams end an event.
//!
//! Through every reader of the product that is behind a socket: the command line, the client of
//! the daemon, the client of the server, and the daemon itself. The codec has vectors of its own.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::json;
use tidings_client::local::Client;
use tidings_tests::feed::{Feed, TcpFeed};
use tidings_tests::{Act, DEADLINE, Device, Front, House, Server, within};
use tidings_wire::AppId;
use tidings_wire::sync::SubscribeQuery;
use tokio::sync::mpsc;

const EVENT: &[&[u8]] = &[b"data: A\r\n", b"data: B\r", b"\n", b"data: C\r\n", b"\r", b"\n"];
const CR_ONLY: &[&[u8]] = &[b"event: changed\rdata: x\r\r", b": k\n"];

/// What the daemon's client reads of these pieces: name and data of each event.
async fn read(feed: &Feed, pieces: &[&[u8]]) -> Vec<(String, String)> {
    feed.serve(pieces);
    let app: AppId = "notes".parse().unwrap();
    let client = Client::new(feed.socket());
    let mut stream = client.watch(&app, &["t".to_owned()], &Default::default()).await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = within("the stream", DEADLINE, stream.next()).await.unwrap() {
        events.push((event.name, event.data));
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn o01_one_event_however_its_line_ends_are_cut() {
    let feed = Feed::start();
    let message = |data: &str| vec![("message".to_owned(), data.to_owned())];
    assert_eq!(read(&feed, EVENT).await, message("A\nB\nC"));
    let whole = EVENT.concat();
    for cut in 0..=whole.len() {
        let (left, right) = whole.split_at(cut);
        assert_eq!(read(&feed, &[left, right]).await, message("A\nB\nC"), "cut at {cut}");
    }
    let changed = vec![("changed".to_owned(), "x".to_owned())];
    assert_eq!(read(&feed, CR_ONLY).await, changed);
}

#[tokio::test(flavor = "multi_thread")]
async fn o01_the_command_line_reads_one_event() {
    let feed = Feed::start();
    // Data of several lines that together are JSON, which is what it prints.
    feed.serve(&[&b"data: [1,\r\n"[..], b"data: 2,\r", b"\n", b"data: 3]\r\n", b"\r", b"\n"]);
    feed.serve(CR_ONLY);
    let mut watch = feed.command(&["--app", "notes", "--json", "watch", "t"]);
    let watch = tidings_tests::Process::start("tidings watch", &mut watch);
    let last = r#"{"data":null,"event":"changed"}"#;
    watch.line("the last event", DEADLINE, |line| (line == last).then_some(()));
    assert_eq!(watch.log(), format!("{}\n{last}", r#"{"data":[1,2,3],"event":"message"}"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn o01_the_server_s_client_counts_one_change() {
    let feed = TcpFeed::start();
    let client = tidings_tests::server::client(&feed.url()).with_token("t");
    let query = SubscribeQuery { app_id: "notes".to_owned(), incarnation: None };
    let whole = b"event: changed\r\ndata:\r\n\r\n";
    for cut in 0..=whole.len() {
        let (left, right) = whole.split_at(cut);
        feed.serve(&[left, right]);
        let mut stream = client.subscribe(&query).await.unwrap();
        let mut changes = 0;
        while within("the stream", DEADLINE, stream.next_change()).await.is_some() {
            changes += 1;
        }
        assert_eq!(changes, 1, "cut at {cut}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o01_the_daemon_pulls_on_a_hint_of_cut_lines() {
    let app: AppId = "notes".parse().unwrap();
    let server = Server::start();
    let front = Front::start(server.address()).await;
    let streams = Arc::new(Mutex::new(Vec::<mpsc::UnboundedSender<Bytes>>::new()));
    front.script({
        let streams = Arc::clone(&streams);
        move |request| {
            if request.uri.path() != "/api/sync/subscribe" {
                return Act::Pass;
            }
            let (sender, feed) = mpsc::unbounded_channel();
            sender.send(Bytes::from_static(b": hello\n\n")).unwrap();
            streams.lock().unwrap().push(sender);
            Act::Stream(feed)
        }
    });
    let house = House::of(server, None, [Device::new("b")]).await;
    let d = Device::start("d").await;
    house.device(0).link(&d, &front.url()).await;
    house.device(0).put(&app, "t", "first", &json!({})).await;
    house.device(0).synced().await;
    // The stream says nothing by itself, so this one comes with the pull on connect at best.
    let say = |bytes: &'static [u8]| {
        let streams = streams.lock().unwrap();
        streams.last().expect("D is connected").send(Bytes::from_static(bytes)).unwrap();
    };
    tidings_tests::eventually("D is connected", DEADLINE, async || {
        if streams.lock().unwrap().is_empty() { Err("it is not") } else { Ok(()) }
    })
    .await;
    for piece in [&b"event: changed\r"[..], b"\ndata: notes\r\n\r", b"\n"] {
        say(piece);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    d.rows_become(&app, "t", 1).await;
    house.device(0).put(&app, "t", "second", &json!({})).await;
    house.device(0).synced().await;
    for piece in [&b"event: changed\rdata: notes\r\r"[..], b": k\n"] {
        say(piece);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    d.rows_become(&app, "t", 2).await;
}
