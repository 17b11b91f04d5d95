//! What hostile inputs make the daemon take: never twice what their limit allows.

use std::process::Command;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::support::memory::Peak;
use crate::support::{Running, Start, soon};

const LIMIT: usize = 1 << 20;
const NAME: &str = "local::memory::hostile_inputs_take_no_memory";
const CHILD: &str = "TIDINGS_TEST_MEMORY_CHILD";

/// In a process of its own, because the counter counts everything.
#[test]
fn hostile_inputs_take_no_memory() {
    if std::env::var_os(CHILD).is_some() {
        return tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(measure());
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([NAME, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

async fn measure() {
    let daemon = Start::default().fresh().await;
    daemon.post("/v1/apps/m/tables/t/rows", r#"{"id":"warm"}"#).send().await.ok();
    let post = |path: &str, kind: &str, rest: &str| {
        format!(
            "POST /v1/apps/m/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
             Content-Type: {kind}\r\nConnection: close\r\n{rest}",
            daemon.token
        )
    };
    let rows = "tables/t/rows";
    let json = "application/json";
    let chunked = "Transfer-Encoding: chunked\r\n\r\n";
    let announced = format!("Content-Length: {}\r\n\r\n", 1_u64 << 40);
    let exact = format!("Content-Length: {LIMIT}\r\n\r\n");
    let chunk = |bytes: &[u8]| {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        chunk
    };
    let (spaces, x) = (chunk(&[b' '; 0x4000]), chunk(&[b'x'; 0x4000]));
    let inputs: [(&str, String, &[u8], u16); 6] = [
        ("an announced length", post(rows, json, &announced), b"{", 413),
        ("an endless body", post(rows, json, chunked), &spaces, 413),
        ("an endless line", post("tables/t/import", "application/x-ndjson", chunked), &x, 413),
        ("deep nesting", post(rows, json, &exact), &[b'['; 0x4000], 400),
        ("deep nesting in a batch", post("batch", json, &exact), &[b'['; 0x4000], 400),
        ("an endless head", "GET /v1/ping?".to_owned(), &[b'x'; 0x4000], 431),
    ];
    for (what, head, piece, status) in inputs {
        let peak = Peak::begin();
        let answer = send(&daemon, head.as_bytes(), piece, 4 * LIMIT).await;
        let taken = peak.taken();
        println!("{what}: {} KiB", taken >> 10);
        assert!(taken < 2 * LIMIT, "{what} took {taken} bytes");
        let line = String::from_utf8_lossy(&answer);
        // Where the request line itself is too long nothing needs to be answered.
        let fine = line.starts_with(&format!("HTTP/1.1 {status}"))
            || (status == 431 && (line.is_empty() || line.starts_with("HTTP/1.1 4")));
        assert!(fine, "{what}: {line}");
    }
    daemon.stop().await;
}

/// Sends a head, then a piece again and again up to `limit` bytes, and reads the answer.
async fn send(daemon: &Running, head: &[u8], piece: &[u8], limit: usize) -> Vec<u8> {
    let stream = UnixStream::connect(daemon.socket()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let write = async {
        if writer.write_all(head).await.is_err() {
            return;
        }
        for _ in 0..limit / piece.len().max(1) {
            if piece.len() < 16 || writer.write_all(piece).await.is_err() {
                break;
            }
        }
    };
    let read = async {
        let mut answer = Vec::with_capacity(4096);
        let mut piece = [0; 1024];
        while let Ok(read @ 1..) = reader.read(&mut piece).await {
            answer.extend_from_slice(&piece[..read]);
        }
        answer
    };
    let (answer, ()) = soon("an answer", async { tokio::join!(read, write) }).await;
    answer
}
