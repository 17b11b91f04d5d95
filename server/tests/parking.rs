//! Parked streams over bare sockets: what is asked before them and behind them, and readers that
//! leave or are many.

use std::time::Duration;

use tidings_wire::sync::PullResponse;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::fixture::reader::{Reader, open_become, small, subscribe};
use crate::fixture::{Session, TestServer, tag, within};

const CHANGED: &str = "event: changed\ndata:\n\n";

fn publish(server: &TestServer, session: &Session, channel: &str) {
    server.server.shared().hub.publish(session.account(), channel, None);
}

#[tokio::test]
async fn the_head_says_that_the_stream_ends_with_its_connection() {
    let server = TestServer::start(&[]).await;
    let a = server.account().await;
    let mut reader = Reader::new(TcpStream::connect(server.address()).await.unwrap());
    reader.say(&subscribe(&a, "notes")).await;
    let head = reader.until("\r\n\r\n").await;
    let mut lines = head.trim_end().split("\r\n");
    assert_eq!(lines.next(), Some("HTTP/1.1 200 OK"));
    let mut headers: Vec<_> = lines.map(|line| line.split_once(": ").unwrap()).collect();
    headers.sort_unstable();
    let values: Vec<_> = headers.iter().map(|(_, value)| *value).collect();
    let names: Vec<_> = headers.iter().map(|(name, _)| *name).collect();
    let all = "cache-control connection content-type date x-accel-buffering x-request-id";
    assert_eq!(names.join(" "), all);
    assert_eq!(values[..3], ["no-store, no-transform", "close", "text/event-stream"]);
    let date = jiff::fmt::rfc2822::parse(values[3]).unwrap().timestamp();
    assert!(date.duration_until(jiff::Timestamp::now()).as_secs().abs() < 60, "{head}");
    let hello = reader.until("\n\n").await;
    assert!(hello.starts_with("retry: ") && hello.ends_with("\n: connected\n\n"), "{hello}");
}

#[tokio::test]
async fn a_refusal_and_then_a_stream_on_one_connection() {
    let server = TestServer::start(&[]).await;
    let a = server.account().await;
    let mut reader = Reader::new(TcpStream::connect(server.address()).await.unwrap());
    let path = "GET /api/sync/subscribe?app_id=notes HTTP/1.1\r\nhost: x\r\n";
    reader.say(&format!("{path}\r\n")).await;
    assert!(reader.until("}}").await.starts_with("HTTP/1.1 401 "));
    reader.say(&format!("{path}authorization: Bearer nonsense\r\n\r\n")).await;
    assert!(reader.until("}}").await.starts_with("HTTP/1.1 401 "));
    reader.say(&format!("{path}accept: application/json\r\n\r\n")).await;
    assert!(reader.until("}}").await.starts_with("HTTP/1.1 406 "));
    assert_eq!(server.server.shared().hub.open_streams(), 0);
    let mut reader = Reader::begin(reader.socket, &a, "notes").await;
    publish(&server, &a, "notes");
    assert_eq!(reader.until("\n\n").await, CHANGED);
}

#[tokio::test]
async fn what_is_sent_behind_the_request_is_dropped() {
    let server = TestServer::start(&[]).await;
    let a = server.account().await;
    let mut reader = Reader::new(TcpStream::connect(server.address()).await.unwrap());
    let behind = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    reader.say(&format!("{}{behind}", subscribe(&a, "notes"))).await;
    reader.until(": connected\n\n").await;
    publish(&server, &a, "notes");
    assert_eq!(reader.until("\n\n").await, CHANGED);
    server.stop().await;
    let rest = reader.rest().await;
    assert!(rest.ends_with("event: closing\ndata: {}\n\n") && !rest.contains("HTTP"), "{rest}");
}

/// Whatever was asked for before the stream comes first and whole, however late it is read.
#[tokio::test]
async fn answers_to_earlier_requests_come_whole() {
    const PULLS: usize = 3;
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = a.book("notes");
    let blob = book.blob(&a.chain, tag(1), 380_000);
    a.push(&mut book, &[blob]).await;
    let page = b.try_pull("notes", "").await.body;
    let entries = minicbor::decode::<PullResponse>(&page).unwrap().entries;
    let pull = format!(
        "GET /api/sync/pull?app_id=notes&device_id={}&incarnation={} HTTP/1.1\r\nhost: x\r\n\
         authorization: Bearer {}\r\n\r\n",
        b.device.id, b.device.incarnation, b.token.token
    );
    let health = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".repeat(30);
    let mut socket = small(server.address()).await;
    let requests = format!("{}{health}{}", pull.repeat(PULLS), subscribe(&b, "notes"));
    within(socket.write_all(requests.as_bytes())).await.unwrap();
    let mut come = Vec::new();
    let end = b": connected\n\n";
    within(async {
        let mut bytes = vec![0; 16 << 10];
        while !come.ends_with(end) {
            let read = socket.read(&mut bytes).await.unwrap();
            assert!(read > 0, "broke off after {} bytes", come.len());
            come.extend_from_slice(&bytes[..read]);
        }
    })
    .await;
    let mut rest = &come[..];
    let mut lengths = Vec::new();
    while let Some(at) = rest.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = std::str::from_utf8(&rest[..at]).unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        rest = &rest[at + 4..];
        let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
        let Some(length) = length else { break };
        let length: usize = length.parse().unwrap();
        if length == page.len() {
            let page: PullResponse = minicbor::decode(&rest[..length]).unwrap();
            assert_eq!(page.entries, entries);
        }
        lengths.push(length);
        rest = &rest[length..];
    }
    assert_eq!(lengths.len(), PULLS + 30);
    assert_eq!(lengths.iter().filter(|length| **length == page.len()).count(), PULLS);
    assert!(rest.starts_with(b"retry: "));
    let mut reader = Reader::new(socket);
    publish(&server, &a, "notes");
    assert_eq!(reader.until("\n\n").await, CHANGED);
}

#[tokio::test]
async fn a_reader_that_leaves_or_speaks_frees_its_slot() {
    let server = TestServer::start(&[]).await;
    let a = server.account().await;
    let closed = Reader::open(&server, &a, "notes").await;
    open_become(&server, 1).await;
    drop(closed);
    open_become(&server, 0).await;
    let reset = Reader::open(&server, &a, "notes").await;
    reset.socket.set_zero_linger().unwrap();
    drop(reset);
    open_become(&server, 0).await;
    let mut half = Reader::open(&server, &a, "notes").await;
    half.socket.shutdown().await.unwrap();
    assert_eq!(half.rest().await, "");
    open_become(&server, 0).await;
    let mut stray = Reader::open(&server, &a, "notes").await;
    stray.say("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    stray.gone().await;
    open_become(&server, 0).await;
    // One that left while its stream was about to open.
    for _ in 0..20 {
        let mut hasty = TcpStream::connect(server.address()).await.unwrap();
        hasty.write_all(subscribe(&a, "notes").as_bytes()).await.unwrap();
    }
    let stays = Reader::open(&server, &a, "notes").await;
    open_become(&server, 1).await;
    drop(stays);
}

#[tokio::test]
async fn old_clients_are_served_and_a_head_holds_no_stream() {
    let server = TestServer::start(&[]).await;
    let a = server.account().await;
    let mut old = Reader::new(TcpStream::connect(server.address()).await.unwrap());
    old.say(&subscribe(&a, "notes").replace("HTTP/1.1", "HTTP/1.0")).await;
    assert!(old.until(": connected\n\n").await.contains("\r\nconnection: close\r\n"));
    publish(&server, &a, "notes");
    assert_eq!(old.until("\n\n").await, CHANGED);
    let mut head = Reader::new(TcpStream::connect(server.address()).await.unwrap());
    head.say(&subscribe(&a, "notes").replace("GET", "HEAD")).await;
    assert!(head.until("\r\n\r\n").await.starts_with("HTTP/1.1 200 "));
    // It is an ordinary connection still.
    head.say("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(head.until("}").await.starts_with("HTTP/1.1 200 "));
    open_become(&server, 1).await;
}

#[tokio::test]
async fn parked_streams_are_connections_and_make_room_when_they_end() {
    let server = TestServer::start(&[("limits.connections", "4")]).await;
    let a = server.account().await;
    let mut parked = Vec::new();
    // The account's own connection is one.
    for _ in 0..3 {
        parked.push(Reader::open(&server, &a, "notes").await);
    }
    let refused = crate::fixture::http::raw(server.address(), b"").await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    parked.clear();
    open_become(&server, 0).await;
    for _ in 0..3 {
        parked.push(Reader::open(&server, &a, "notes").await);
    }
}

#[tokio::test]
async fn a_thousand_streams_on_one_channel_are_all_told() {
    const STREAMS: usize = 1_000;
    let limits = [("stream.per_app", "1000"), ("limits.connections_per_address", "2000")];
    let server = TestServer::start(&limits).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut readers = Vec::with_capacity(STREAMS);
    for _ in 0..STREAMS {
        readers.push(Reader::open(&server, &b, "notes").await);
    }
    assert_eq!(server.server.shared().hub.open_streams(), STREAMS);
    assert_eq!(b.get("/api/sync/subscribe?app_id=notes").await.status, 429);
    let mut book = a.book("notes");
    for count in [1, 2] {
        a.write(&mut book, 1, count).await;
        for reader in &mut readers {
            assert_eq!(reader.until("\n\n").await, CHANGED);
        }
    }
    // Every other one leaves; the rest hear as before.
    let mut stay = false;
    readers.retain(|_| {
        stay = !stay;
        stay
    });
    open_become(&server, STREAMS / 2).await;
    a.write(&mut book, 1, 1).await;
    for reader in &mut readers {
        assert_eq!(reader.until("\n\n").await, CHANGED);
    }
    drop(readers);
    open_become(&server, 0).await;
}

#[tokio::test]
async fn a_token_ends_its_stream_and_no_other() {
    let server = TestServer::start(&[("auth.token_life", "3s")]).await;
    let a = server.account().await;
    let mut first = Reader::open(&server, &a, "notes").await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let again = Session::sign_in(&server.client, a.device.clone(), a.chain.clone()).await;
    assert!(again.token.expires_ms > a.token.expires_ms);
    let mut second = Reader::open(&server, &again, "notes").await;
    let end = "event: reauth\ndata: {\"reason\":\"token_expired\"}\n\n";
    assert_eq!(first.rest().await, end);
    publish(&server, &a, "notes");
    assert_eq!(second.rest().await, format!("{CHANGED}{end}"));
    open_become(&server, 0).await;
}
