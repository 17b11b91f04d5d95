//! Clients that are slow on purpose, and the end of the server.

use std::time::{Duration, Instant};

use tidings_wire::Code;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::fixture::{TestServer, within};

/// Writes a byte now and then until the server hangs up; gives what it said.
async fn drip(mut stream: TcpStream, byte: &'static [u8]) -> String {
    let mut answer = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        tokio::select! {
            read = stream.read(&mut buffer) => match read {
                Ok(0) | Err(_) => return String::from_utf8_lossy(&answer).into_owned(),
                Ok(read) => answer.extend_from_slice(&buffer[..read]),
            },
            () = tokio::time::sleep(Duration::from_millis(50)) => {
                let _ = stream.write_all(byte).await;
            }
        }
    }
}

#[tokio::test]
async fn a_head_that_drips_is_cut_off() {
    let server = TestServer::start(&[("timeouts.header", "1s")]).await;
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n").await.unwrap();
    within(drip(stream, b"x: y\r\n")).await;
    // One that never says a word.
    let mut silent = TcpStream::connect(server.address()).await.unwrap();
    assert_eq!(within(silent.read(&mut [0; 8])).await.unwrap(), 0);
    // A second head on a connection that had a good first one.
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /hea").await.unwrap();
    let answer = within(drip(stream, b"l")).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_not_before() {
    let server = TestServer::start(&[("timeouts.idle", "4s"), ("timeouts.header", "1s")]).await;
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut buffer = [0; 4096];
    assert!(within(stream.read(&mut buffer)).await.unwrap() > 0);
    let start = Instant::now();
    // It outlives the time for heads by far: nothing of a head was sent.
    assert_eq!(within(stream.read(&mut buffer)).await.unwrap(), 0);
    assert!(start.elapsed() >= Duration::from_secs(3), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_body_that_pauses_or_drips_is_answered_408() {
    let server =
        TestServer::start(&[("timeouts.body_idle", "300ms"), ("timeouts.body", "1s")]).await;
    let head =
        b"POST /api/auth/challenge HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
        content-length: 100\r\nconnection: close\r\n\r\n{";
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(head).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("request.timeout"), "{answer}");
    // Dripping keeps each pause short, but not the whole.
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(head).await.unwrap();
    let answer = within(drip(stream, b" ")).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut_off() {
    let server = TestServer::start(&[("timeouts.write_stall", "500ms")]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = a.book("notes");
    for _ in 0..12 {
        let blob = book.blob(&a.chain, crate::fixture::tag(1), 380_000);
        a.push(&mut book, &[blob]).await;
    }
    // Ask for pages of 4 MB again and again, and read none of it.
    let request = format!(
        "GET /api/sync/pull?app_id=notes&device_id={}&incarnation={} HTTP/1.1\r\nhost: x\r\n\
         authorization: Bearer {}\r\n\r\n",
        b.device.id, b.device.incarnation, b.token.token
    );
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let cut = async {
        loop {
            if stream.write_all(request.as_bytes()).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    within(cut).await;
    assert_eq!(b.pull_all("notes", "").await.len(), 12);
}

/// Over HTTP/2 a reader may keep its socket busy and take nothing of an answer.
#[tokio::test]
async fn an_http2_answer_that_is_not_taken_ends_the_connection() {
    let server = TestServer::start(&[("timeouts.write_stall", "500ms")]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = a.book("notes");
    for _ in 0..4 {
        let blob = book.blob(&a.chain, crate::fixture::tag(1), 380_000);
        a.push(&mut book, &[blob]).await;
    }
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new())
            .initial_stream_window_size(1_024)
            .handshake(hyper_util::rt::TokioIo::new(stream))
            .await
            .unwrap();
    let mut connections = tokio::task::JoinSet::new();
    connections.spawn(connection);
    let request = http::Request::builder()
        .uri(format!(
            "http://x/api/sync/pull?app_id=notes&device_id={}&incarnation={}",
            b.device.id, b.device.incarnation
        ))
        .header("authorization", format!("Bearer {}", b.token.token))
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .unwrap();
    let response = within(sender.send_request(request)).await.unwrap();
    assert_eq!(response.status(), 200);
    // Nobody reads the body; the server lets go.
    within(connections.join_next()).await;
    drop(response);
    assert_eq!(b.pull_all("notes", "").await.len(), 4);
}

#[tokio::test]
async fn there_are_only_so_many_connections() {
    let server = TestServer::start(&[("limits.connections", "3")]).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut buffer = [0; 1024];
        assert!(within(stream.read(&mut buffer)).await.unwrap() > 0);
        held.push(stream);
    }
    let mut refused = TcpStream::connect(server.address()).await.unwrap();
    let mut answer = String::new();
    let _ = within(refused.read_to_string(&mut answer)).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains(Code::Unavailable.as_str()), "{answer}");
    drop(held);
    let recovered = async {
        loop {
            let mut stream = TcpStream::connect(server.address()).await.unwrap();
            let request = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(request).await;
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer).await;
            if answer.starts_with("HTTP/1.1 200 ") {
                break;
            }
        }
    };
    within(recovered).await;
}

#[tokio::test]
async fn stopping_finishes_requests_and_takes_no_new_ones() {
    let server = TestServer::start(&[("timeouts.drain", "10s")]).await;
    let a = server.account().await;
    let address = server.address();
    let mut book = a.book("notes");
    let blob = book.blob(&a.chain, crate::fixture::tag(1), 1_000);
    let manifest = book.manifest(&a.chain);
    let body = crate::fixture::session::push_body(&[blob], &manifest);
    let head = format!(
        "POST /api/sync/push?app_id=notes HTTP/1.1\r\nhost: x\r\ncontent-type: application/cbor\r\n\
         authorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
        a.token.token,
        body.len()
    );
    let all = server.server.shared().room.available_permits();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let (first, rest) = body.split_at(500);
    stream.write_all(first).await.unwrap();
    // The request is in progress once room was taken for its body.
    let room = server.server.shared().room.clone();
    within(async {
        while room.available_permits() == all {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let mut stopping = tokio::task::JoinSet::new();
    stopping.spawn(server.stop());
    within(async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    stream.write_all(rest).await.unwrap();
    let mut answer = Vec::new();
    within(stream.read_to_end(&mut answer)).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
    within(stopping.join_all()).await;
}

#[tokio::test]
async fn stopping_does_not_wait_for_ever() {
    let server = TestServer::start(&[("timeouts.drain", "300ms")]).await;
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let head = b"POST /api/auth/challenge HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{";
    stream.write_all(head).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.stop().await;
    assert_eq!(within(stream.read(&mut [0; 8])).await.unwrap_or(0), 0);
}
