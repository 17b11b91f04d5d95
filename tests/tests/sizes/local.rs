//! What programs on the same computer may send to the daemon's socket.

use serde_json::{Value, json};
use tidings_tests::Device;
use tidings_tests::inside::InsideDaemon;
use tidings_wire::{AppId, limits};
use tokio::net::UnixStream;

use crate::measure::{alone, bounded};
use crate::throw::{Answer, Body, throw};

const A: &[u8] = &[b'a'; 16 << 10];
const OPEN: &[u8] = &[b'['; 16 << 10];

/// A daemon and the header that opens it.
struct Socket {
    daemon: InsideDaemon,
    token: String,
}

impl Socket {
    async fn start() -> Self {
        let daemon = InsideDaemon::start(Device::new("inside")).await;
        let token = std::fs::read_to_string(daemon.device.home().join("owner-token")).unwrap();
        let socket = Self { daemon, token: token.trim().to_owned() };
        // What a first write needs is made now.
        socket.serves().await;
        socket
    }

    async fn send(&self, line: &str, headers: &str, body: Body) -> Answer {
        let length = match (headers.contains("Content-Length"), body.chunked) {
            (true, _) => String::new(),
            (false, true) => "Transfer-Encoding: chunked\r\n".to_owned(),
            (false, false) => format!("Content-Length: {}\r\n", body.length()),
        };
        let head = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Authorization: Bearer {}\r\n{length}{headers}\r\n",
            self.token
        );
        let stream = UnixStream::connect(self.daemon.device.socket()).await.unwrap();
        throw(stream, &head, body).await
    }

    async fn serves(&self) {
        let app: AppId = "notes".parse().unwrap();
        self.daemon.device.put(&app, "t", "r", &json!({ "v": 1 })).await;
        assert!(self.daemon.device.row(&app, "t", "r").await.is_some());
    }
}

const JSON: &str = "Content-Type: application/json\r\n";
const CALLS: [&str; 5] = [
    "POST /v1/apps/notes/tables/t/rows",
    "PUT /v1/apps/notes/tables/t/rows/x",
    "PATCH /v1/apps/notes/tables/t/rows/x",
    "POST /v1/apps/notes/batch",
    "POST /v1/apps/notes/tables/t/query",
];

#[tokio::test(flavor = "multi_thread")]
async fn json_bodies_without_end_or_ground() {
    let _alone = alone().await;
    let socket = Socket::start().await;
    let limit = limits::LOCAL_REQUEST;
    let text = Body { beginning: b"{\"v\":\"", piece: A, times: 1 << 13, ..Body::NONE };
    let deep = Body { beginning: b"{\"v\":", piece: OPEN, times: 13, ..Body::NONE };
    assert!(deep.length() > 200_000);
    for line in CALLS {
        let endless = Body { chunked: true, ..text };
        let what = format!("{line}: chunks without end");
        bounded(&what, limit, socket.send(line, JSON, endless)).await.is(&[413, 0]);
        let what = format!("{line}: a length past the limit");
        bounded(&what, 64 << 10, socket.send(line, JSON, text)).await.is(&[413, 0]);
        let lie = format!("{JSON}Content-Length: 18446744073709551615\r\n");
        let short = Body { times: 1, ..text };
        let what = format!("{line}: a length of 2^64 - 1");
        bounded(&what, 64 << 10, socket.send(line, &lie, short)).await.is(&[413, 431, 400, 0]);
        let what = format!("{line}: 200,000 levels");
        bounded(&what, limit, socket.send(line, JSON, deep)).await.is(&[400]).says("too_deep");
    }
    socket.serves().await;
    socket.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_streams() {
    let _alone = alone().await;
    let socket = Socket::start().await;
    let import = "POST /v1/apps/notes/tables/t/import";
    let ndjson = "Content-Type: application/x-ndjson\r\n";
    let line = Body { piece: A, times: 1 << 13, chunked: true, ..Body::NONE };
    let limit = limits::LOCAL_REQUEST;
    bounded("a line without end", limit, socket.send(import, ndjson, line)).await.is(&[413, 400]);
    let empty = Body { piece: &[b'\n'; 16 << 10], times: 1 << 9, ..line };
    bounded("lines without anything", limit, socket.send(import, ndjson, empty)).await.is(&[200]);
    socket.serves().await;
    socket.daemon.stop().await;
}

/// A row whose columns have exactly so many bytes as CBOR: one column of text.
fn row_of(bytes: usize) -> Value {
    // a1 map(1), 61 76 "v", 7a u32 text(n)
    json!({ "v": "x".repeat(bytes - 8) })
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_around_their_limit() {
    let _alone = alone().await;
    let socket = Socket::start().await;
    for (length, status) in [(limits::ROW - 1, 201), (limits::ROW, 200), (limits::ROW + 1, 413)] {
        let body: &'static [u8] =
            Box::leak(row_of(length).to_string().into_bytes().into_boxed_slice());
        let body = Body { beginning: body, ..Body::NONE };
        let put = socket.send("PUT /v1/apps/notes/tables/t/rows/x", JSON, body);
        let what = format!("a row of {length} bytes");
        // The request, the row as values, as CBOR in replica, log and outbox, and the old one.
        bounded(&what, 10 * limits::ROW, put).await.is(&[status]);
    }
    socket.serves().await;
    socket.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_and_addresses_without_end() {
    let _alone = alone().await;
    let socket = Socket::start().await;
    let limit = limits::REQUEST_HEAD;
    let line = Body { piece: A, times: 1 << 10, ..Body::NONE };
    let many = Body { piece: b"X-Header: value\r\n", times: 1 << 16, ..Body::NONE };
    let heads = [
        ("a path without end", "GET /", line),
        ("a query without end", "GET /v1/apps/notes/tables/t/rows?filter=", line),
        ("a header without end", "GET /v1/ping HTTP/1.1\r\nHost: localhost\r\nX: ", line),
        ("headers without end", "GET /v1/ping HTTP/1.1\r\nHost: localhost\r\n", many),
    ];
    for (what, head, body) in heads {
        let stream = UnixStream::connect(socket.daemon.device.socket()).await.unwrap();
        bounded(what, limit, throw(stream, head, body)).await.is(&[400, 414, 431, 0]);
    }
    socket.serves().await;
    socket.daemon.stop().await;
}
