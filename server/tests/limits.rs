//! What is too large or not there: refused with its limit before it is buffered, in the envelope.

use http::Method;
use tidings_wire::Code;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::fixture::http::raw;
use crate::fixture::session::push_body;
use crate::fixture::{TestServer, tag, within};

#[tokio::test]
async fn unknown_paths_and_methods_have_the_envelope() {
    let server = TestServer::start(&[]).await;
    let client = &server.client;
    for path in ["/", "/api", "/api/sync", "/api/nothing", "/api/pair/1/new/more", "/../etc/passwd"]
    {
        assert_eq!(client.get(path).await.code(), Code::RouteNotFound, "{path}");
    }
    for (method, path) in [
        (Method::GET, "/api/accounts"),
        (Method::DELETE, "/api/chain"),
        (Method::PUT, "/api/sync/push"),
        (Method::POST, "/healthz"),
    ] {
        let reply = client.send(method, path, &[], "").await;
        assert_eq!(reply.code(), Code::MethodNotAllowed, "{path}");
    }
    assert_eq!(client.get("/healthz").await.status, 200);
    assert_eq!(client.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn bodies_have_their_media_type() {
    let server = TestServer::start(&[]).await;
    let a = server.account().await;
    let text = [("content-type", "text/plain")];
    let reply = server.client.send(Method::POST, "/api/auth/challenge", &text, "{}").await;
    assert_eq!(reply.code(), Code::UnsupportedMediaType);
    let json = [("content-type", "application/json")];
    let reply = a.send(Method::POST, "/api/sync/push?app_id=notes", &json, "{}").await;
    assert_eq!(reply.code(), Code::UnsupportedMediaType);
    let with = [("content-type", "Application/JSON; charset=utf-8")];
    let reply = server.client.send(Method::POST, "/api/auth/challenge", &with, "{").await;
    assert_eq!(reply.code(), Code::BadJson);
}

#[tokio::test]
async fn a_body_at_its_limit_is_read_and_one_above_is_refused() {
    let server = TestServer::start(&[("limits.push_request", "20000")]).await;
    let a = server.account().await;
    let mut book = a.book("notes");
    let mut sized = |size: usize| {
        let mut trial = book.clone();
        let blob = trial.blob(&a.chain, tag(1), 100);
        let manifest = trial.manifest(&a.chain);
        let around = push_body(&[blob], &manifest).len() - 100;
        let blob = book.blob(&a.chain, tag(1), size - around);
        let manifest = book.manifest(&a.chain);
        push_body(&[blob], &manifest)
    };
    for limit in [19_999, 20_000] {
        let body = sized(limit);
        assert_eq!(body.len(), limit);
        let reply = a.post_cbor("/api/sync/push?app_id=notes", body).await;
        assert_eq!(reply.status, 200, "{limit}: {:?}", reply.body);
    }
    let reply = a.post_cbor("/api/sync/push?app_id=notes", sized(20_001)).await;
    let problem = reply.problem();
    assert_eq!(problem.code, Code::TooLarge);
    assert!(problem.message.contains("20000"), "{}", problem.message);
    let reply = a.post_cbor("/api/sync/push?app_id=notes", vec![0; 1 << 20]).await;
    assert_eq!(reply.code(), Code::TooLarge);
}

#[tokio::test]
async fn a_push_has_only_so_many_blobs() {
    let server = TestServer::start(&[("limits.push_blobs", "4")]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = a.book("notes");
    a.write(&mut book, 1, 4).await;
    let mut more = book.clone();
    let blobs: Vec<_> = (0..5).map(|_| more.blob(&a.chain, tag(1), 50)).collect();
    let manifest = more.manifest(&a.chain);
    assert_eq!(a.try_push("notes", &blobs, &manifest).await.code(), Code::TooLarge);
    // A list that claims to be longer than the body could hold.
    for head in [&b"\x82\x9b\xff\xff\xff\xff\xff\xff\xff\xff"[..], b"\x82\x9a\x00\x10\x00\x00"] {
        let reply = a.post_cbor("/api/sync/push?app_id=notes", head.to_vec()).await;
        assert_eq!(reply.code(), Code::TooLarge);
    }
    // A list without a length, of many tiny blobs.
    let mut endless = b"\x82\x9f".to_vec();
    endless.extend(std::iter::repeat_n(0x40, 100_000));
    let reply = a.post_cbor("/api/sync/push?app_id=notes", endless).await;
    assert_eq!(reply.code(), Code::TooLarge);
    assert_eq!(b.pull("notes", "").await.entries.len(), 4);
}

#[tokio::test]
async fn lengths_that_lie_and_bodies_without_end_are_refused() {
    let server = TestServer::start(&[("limits.json_request", "4KiB")]).await;
    let head = "POST /api/auth/challenge HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    let close = "connection: close\r\n";
    // Announced too large.
    let request = format!("{head}{close}content-length: 99999999999\r\n\r\n{{}}");
    let answer = raw(server.address(), request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("4096"), "{answer}");
    // Not a number, twice, or together with chunks.
    for lie in ["content-length: many", "content-length: 2\r\ncontent-length: 3"] {
        let request = format!("{head}{close}{lie}\r\n\r\n{{}}");
        let answer = raw(server.address(), request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{lie}: {answer}");
    }
    // Shorter than announced: the client hangs up.
    within(async {
        let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        let request = format!("{head}content-length: 100\r\n\r\n{{}}");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
    })
    .await;
    // Chunks without end.
    within(async {
        let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        let request = format!("{head}transfer-encoding: chunked\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let (mut read, mut write) = stream.into_split();
        let mut pouring = tokio::task::JoinSet::new();
        pouring.spawn(async move {
            let chunk = [b"400\r\n".to_vec(), vec![b' '; 1024], b"\r\n".to_vec()].concat();
            while write.write_all(&chunk).await.is_ok() {}
        });
        let mut answer = vec![0; 64];
        let read = read.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        // The connection ends, however much the client pours.
        pouring.join_all().await;
    })
    .await;
    assert_eq!(server.client.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn heads_have_a_limit() {
    let server = TestServer::start(&[]).await;
    let long = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(200_000));
    let answer = raw(server.address(), long.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let many: String = (0..200).map(|n| format!("x{n}: y\r\n")).collect();
    let many = format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{many}\r\n");
    let answer = raw(server.address(), many.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    for nonsense in
        ["\r\n\r\n\r\n", "GET\r\n\r\n", "\x16\x03\x01\x02\x00\x01", "GET / HTTP/9.9\r\n\r\n"]
    {
        let answer = raw(server.address(), nonsense.as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{nonsense:?}: {answer}");
    }
    assert_eq!(server.client.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn quotas_hold_and_change_nothing() {
    let server =
        TestServer::start(&[("quota.bytes", "10000"), ("limits.apps", "2"), ("limits.lanes", "3")])
            .await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = a.book("notes");
    let blob = book.blob(&a.chain, tag(1), 6_000);
    a.push(&mut book, &[blob]).await;
    let mut more = book.clone();
    let blob = more.blob(&a.chain, tag(1), 6_000);
    let manifest = more.manifest(&a.chain);
    let reply = a.try_push("notes", &[blob], &manifest).await;
    assert_eq!((reply.code(), reply.status.as_u16()), (Code::QuotaExceeded, 507));
    a.write(&mut book, 2, 1).await;
    a.write(&mut book, 3, 1).await;
    let mut more = book.clone();
    let blob = more.blob(&a.chain, tag(4), 50);
    let manifest = more.manifest(&a.chain);
    assert_eq!(a.try_push("notes", &[blob], &manifest).await.code(), Code::QuotaExceeded);
    let mut second = a.book("second");
    a.write(&mut second, 1, 1).await;
    let mut third = a.book("third");
    let blob = third.blob(&a.chain, tag(1), 50);
    let manifest = third.manifest(&a.chain);
    assert_eq!(a.try_push("third", &[blob], &manifest).await.code(), Code::QuotaExceeded);
    assert_eq!(b.pull_all("notes", "").await.len(), 3);
    let apps: tidings_wire::sync::AppsResponse = b.get("/api/sync/apps").await.json();
    assert_eq!(apps.apps.len(), 2);
}

#[tokio::test]
async fn requests_are_limited_by_address_and_account() {
    let server = TestServer::start(&[("rates.account", "1/h burst 3")]).await;
    let a = server.account().await;
    for _ in 0..3 {
        assert_eq!(a.get("/api/sync/apps").await.status, 200);
    }
    assert_eq!(a.get("/api/sync/apps").await.code(), Code::RateLimited);
    let other = server.account().await;
    assert_eq!(other.get("/api/sync/apps").await.status, 200);

    let server =
        TestServer::start(&[("rates.address", "1/h burst 2"), ("trusted_proxies", "127.0.0.1")])
            .await;
    let from = |address: &str| {
        let (client, address) = (server.client.clone(), address.to_owned());
        async move {
            let headers = [("x-forwarded-for", address.as_str())];
            client.send(Method::GET, "/api/nothing", &headers, "").await.code()
        }
    };
    for _ in 0..2 {
        assert_eq!(from("192.0.2.1").await, Code::RouteNotFound);
    }
    assert_eq!(from("192.0.2.1").await, Code::RateLimited);
    // What stands left of the proxy's word is only what the client says.
    assert_eq!(from("198.51.100.9, 192.0.2.1").await, Code::RateLimited);
    assert_eq!(from("192.0.2.1, 192.0.2.2").await, Code::RouteNotFound);
    // Monitors are never limited.
    for _ in 0..5 {
        assert_eq!(server.client.get("/healthz").await.status, 200);
    }
}
