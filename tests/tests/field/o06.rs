//! O06: a slow subscriber overruns a bounded broadcast; the "lagged" error ends its stream without
//! a word, and because the ring is shared another tenant loses events.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};
use tidings_client::remote::PullFilter;
use tidings_client::socket::OWNER_TOKEN_NAME;
use tidings_tests::{DEADLINE, Device, Hand, Server, eventually, within};
use tidings_wire::AppId;
use tidings_wire::sync::{Item, SubscribeQuery};

/// Opens a stream of changes and reads nothing more of it than that it stands.
fn stalled(server: &Server, hand: &Hand) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let head = format!(
        "GET /api/sync/subscribe?app_id=notes HTTP/1.1\r\nHost: {}\r\nAccept: \
         text/event-stream\r\nAuthorization: Bearer {}\r\n\r\n",
        server.address(),
        hand.token()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The answer's head says that the stream stands.
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    stream
}

/// Reads on until a text has come, or the stream has ended.
async fn reads_or_ends(mut stream: TcpStream, text: &'static str) -> bool {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let reading = tokio::task::spawn_blocking(move || {
        let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            seen.extend_from_slice(&piece[..count]);
            if String::from_utf8_lossy(&seen).contains(text) {
                return true;
            }
        }
        false
    });
    reading.await.unwrap()
}

/// Memory of a process in bytes.
fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

async fn pushes(hand: &mut Hand, app: &AppId, count: usize) {
    for number in 0..count {
        hand.push(app, "t", &[(&format!("r{number}"), json!({ "n": number }))]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o06_who_reads_slowly_loses_nothing_and_costs_nobody() {
    let app: AppId = "notes".parse().unwrap();
    let mut server = Server::with(&["rates.account=off", "rates.address=off"]);
    let mut user = Hand::create(&server.url()).await;
    let slow = user.link().await;
    let mut other = Hand::create(&server.url()).await;
    let hearing = other.link().await;
    let stream = stalled(&server, &slow);
    let query = SubscribeQuery { app_id: app.to_string(), incarnation: None };
    let mut heard = hearing.client().subscribe(&query).await.unwrap();
    let before = memory(server.process().id());

    for _ in 0..2 {
        tokio::join!(pushes(&mut user, &app, 100), pushes(&mut other, &app, 25));
        // The other account hears of its own, whoever stalls.
        let changed = within("the other's hint", DEADLINE, heard.next_change()).await;
        assert_eq!(changed, Some(()));
    }
    let grown = memory(server.process().id()).saturating_sub(before);
    assert!(grown < 32 << 20, "the server grew by {} KiB", grown >> 10);

    // It reads again: a hint, or the end that makes it come back; then everything is there.
    reads_or_ends(stream, "event: changed").await;
    let (mut cursor, mut blobs) = (None::<Vec<u8>>, 0);
    eventually("all 200", DEADLINE, async || {
        let page = slow.pull(&app, cursor.as_deref(), &PullFilter::default()).await;
        let page = page.map_err(|error| error.to_string())?;
        blobs += page.entries.iter().filter(|entry| matches!(entry.item, Item::Blob(_))).count();
        cursor = Some(page.cursor.to_vec());
        if blobs == 200 && !page.has_more { Ok(()) } else { Err(blobs.to_string()) }
    })
    .await;
}

/// Follows a table on a device's socket by hand, without reading.
fn follow(device: &Device, query: &str) -> UnixStream {
    let token = std::fs::read_to_string(device.home().join(OWNER_TOKEN_NAME)).unwrap();
    let mut stream = UnixStream::connect(device.socket()).unwrap();
    let head = format!(
        "GET /v1/apps/notes/tables/t/stream{query} HTTP/1.1\r\nHost: localhost\r\nAccept: \
         text/event-stream\r\nAuthorization: Bearer {}\r\n\r\n",
        token.trim()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// What came on a stream: the ids of rows in their order, and whether the end was said.
#[derive(Debug, Default)]
struct Told {
    rows: Vec<String>,
    resync: bool,
    last_id: String,
}

/// Reads a stream until a row has come, it has ended, or a `resync` was said.
fn read_on(stream: &mut UnixStream, until: &str, told: &mut Told) {
    let (mut text, mut piece) = (String::new(), [0; 64 << 10]);
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        text.push_str(&String::from_utf8_lossy(&piece[..count]));
        while let Some(end) = text.find('\n') {
            let line: String = text.drain(..=end).collect();
            if let Some(id) = line.strip_prefix("id: ") {
                told.last_id = id.trim().to_owned();
            }
            told.resync |= line.starts_with("event: resync");
            if let Some(data) = line.strip_prefix("data: ")
                && let Ok(change) = serde_json::from_str::<Value>(data)
                && let Some(row) = change["row_id"].as_str()
            {
                told.rows.push(row.to_owned());
            }
        }
        if told.resync || told.rows.last().is_some_and(|row| row == until) {
            return;
        }
    }
}

/// The local streams: a place in a log cannot be overrun, so that a slow reader gets all of it;
/// where that cannot be, it is told.
#[tokio::test(flavor = "multi_thread")]
async fn o06_a_slow_reader_on_the_socket_has_no_silent_hole() {
    let app: AppId = "notes".parse().unwrap();
    let device = Device::start("d").await;
    let wide = "x".repeat(32 << 10);
    device.put(&app, "t", "first", &json!({})).await;
    let mut stream = follow(&device, "");
    let mut fast = device.follow(&app, "t").await;
    // Far more than a socket holds; somebody else hears of each.
    for number in 0..200 {
        let row = format!("r{number:03}");
        device.put(&app, "t", &row, &json!({ "v": wide })).await;
        assert_eq!(fast.change().await.row_id, row);
    }
    let (mut stream, mut told) = tokio::task::spawn_blocking(move || {
        let mut told = Told::default();
        read_on(&mut stream, "r199", &mut told);
        (stream, told)
    })
    .await
    .unwrap();
    // It may have been cut off meanwhile: it goes on from where it was.
    let wished: Vec<String> = (0..200).map(|number| format!("r{number:03}")).collect();
    if told.rows != wished && !told.resync {
        stream = follow(&device, &format!("?lastEventId={}", told.last_id));
        read_on(&mut stream, "r199", &mut told);
    }
    assert!(told.resync || told.rows == wished, "a silent hole: {:?}", told.rows);
    drop(stream);

    // Of a backlog that is too long for a stream it is told, and the stream goes on.
    let id = told.last_id;
    let rows: Vec<Value> = (0..1_200).map(|n| json!({ "id": format!("many{n}") })).collect();
    let body: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let import =
        tidings_client::local::Request::new(http::Method::POST, "/v1/apps/notes/tables/t/import");
    device.client().request(import.body("application/x-ndjson", body)).await.unwrap();
    let mut behind = follow(&device, &format!("?lastEventId={id}"));
    let told = tokio::task::spawn_blocking(move || {
        let mut told = Told::default();
        read_on(&mut behind, "", &mut told);
        told
    })
    .await
    .unwrap();
    assert!(told.resync, "{told:?}");
}
