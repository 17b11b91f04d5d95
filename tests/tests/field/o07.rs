//! O07: a compressing or buffering hop holds small SSE writes for ever; clients look connected
//! and get nothing.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tidings_tests::{DEADLINE, Hand, Server, within};
use tidings_wire::AppId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// What curl sends, and all bytes that came back so far.
struct Curl {
    stream: TcpStream,
    got: String,
}

impl Curl {
    async fn subscribe(server: SocketAddr, app: &AppId, token: &str) -> Self {
        let mut stream = TcpStream::connect(server).await.unwrap();
        let request = format!(
            "GET /api/sync/subscribe?app_id={app} HTTP/1.1\r\nHost: {server}\r\n\
             User-Agent: curl/8.5.0\r\nAccept: text/event-stream\r\n\
             Accept-Encoding: gzip, br\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        Self { stream, got: String::new() }
    }

    /// Reads until this text is there; gives all before its end and keeps the rest.
    async fn until(&mut self, text: &str, limit: Duration) -> String {
        let read = async {
            loop {
                if let Some(at) = self.got.find(text) {
                    let rest = self.got.split_off(at + text.len());
                    return std::mem::replace(&mut self.got, rest);
                }
                let mut buffer = [0; 1024];
                let read = self.stream.read(&mut buffer).await.unwrap();
                assert!(read > 0, "it ended: {}", self.got);
                self.got.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
            }
        };
        within(&format!("{text:?} on the stream"), limit, read).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o07_small_writes_go_out_at_once() {
    let app: AppId = "x".parse().unwrap();
    // A keep-alive that comes so late cannot be what flushes the head or a `changed`.
    let server = Server::with(&["stream.keepalive=10m"]);
    let mut pusher = Hand::create(&server.url()).await;
    let subscriber = pusher.link().await;
    let mut curl = Curl::subscribe(server.address(), &app, subscriber.token()).await;
    let head = curl.until("\r\n\r\n", DEADLINE).await.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    assert!(!head.contains("content-encoding"), "{head}");
    assert!(head.contains("no-store") && head.contains("no-transform"), "{head}");
    assert!(head.contains("x-accel-buffering: no"), "{head}");
    curl.until("retry:", DEADLINE).await;
    for round in 0..3 {
        pusher.push(&app, "t", &[("r", json!({ "round": round }))]).await;
        let before = curl.until("event: changed\ndata:\n\n", DEADLINE).await;
        assert!(!before.contains("id:"), "nothing says what changed: {before}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o07_silence_is_broken_by_a_comment() {
    let app: AppId = "x".parse().unwrap();
    let server = Server::with(&["stream.keepalive=1s"]);
    let hand = Hand::create(&server.url()).await;
    let mut curl = Curl::subscribe(server.address(), &app, hand.token()).await;
    for _ in 0..2 {
        curl.until(": keepalive\n\n", DEADLINE).await;
    }
    // What nobody sets is 30 s, below the 60 s after which proxies cut silence.
    let shown = Server::start().command(&["config", "show"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let line = shown.lines().find(|line| line.contains("keepalive")).unwrap();
    assert!(line.contains("30s"), "{line}");
}
