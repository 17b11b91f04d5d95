//! What strangers and devices may send to the server.

use std::net::SocketAddr;

use serde_json::json;
use tidings_tests::Hand;
use tidings_tests::inside::InsideServer;
use tidings_wire::{AppId, limits};
use tokio::net::TcpStream;

use crate::measure::{alone, bounded};
use crate::throw::{Answer, Body, throw};

const A: &[u8] = &[b'a'; 16 << 10];
const OPEN: &[u8] = &[b'['; 16 << 10];
const CBOR_OPEN: &[u8] = &[0x81; 16 << 10];
const ZEROS: &[u8] = &[0; 16 << 10];

async fn post(server: SocketAddr, path: &str, headers: &str, body: Body) -> Answer {
    let length = match (headers.contains("Content-Length"), body.chunked) {
        (true, _) => String::new(),
        (false, true) => "Transfer-Encoding: chunked\r\n".to_owned(),
        (false, false) => format!("Content-Length: {}\r\n", body.length()),
    };
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: s\r\nConnection: close\r\n{length}{headers}\r\n");
    let stream = TcpStream::connect(server).await.unwrap();
    throw(stream, &head, body).await
}

/// The headers of a push.
fn push_headers(hand: &Hand) -> String {
    format!("Content-Type: application/cbor\r\nAuthorization: Bearer {}\r\n", hand.token())
}

const PUSH: &str = "/api/sync/push?app_id=notes";
const JSON: &str = "Content-Type: application/json\r\n";

/// It still serves.
async fn serves(hand: &mut Hand) {
    let app: AppId = "notes".parse().unwrap();
    hand.push(&app, "t", &[("r", json!({}))]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_bodies_without_end_or_ground() {
    let _alone = alone().await;
    let server = InsideServer::start().await;
    let mut hand = Hand::create(&server.url()).await;
    let (to, limit) = (server.address(), limits::JSON_REQUEST);
    let text = Body { beginning: b"{\"genesis\":\"", piece: A, times: 1 << 14, ..Body::NONE };
    let deep = Body { piece: OPEN, times: 13, ..Body::NONE };
    assert!(deep.length() > 200_000);
    for path in ["/api/accounts", "/api/auth/challenge", "/api/auth/token", "/api/chain"] {
        let endless = Body { chunked: true, ..text };
        let what = format!("{path}: chunks without end");
        bounded(&what, limit, post(to, path, JSON, endless)).await.is(&[413, 0]);
        let what = format!("{path}: a length past the limit");
        bounded(&what, limit, post(to, path, JSON, text)).await.is(&[413]);
        let lie = format!("{JSON}Content-Length: 18446744073709551615\r\n");
        let what = format!("{path}: a length of 2^64 - 1");
        let short = Body { times: 1, ..text };
        bounded(&what, limit, post(to, path, &lie, short)).await.is(&[413, 431, 400]);
        let what = format!("{path}: 200,000 levels");
        bounded(&what, limit, post(to, path, JSON, deep)).await.is(&[400]);
    }
    serves(&mut hand).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pushes_around_their_limit() {
    let _alone = alone().await;
    let server = InsideServer::start().await;
    let mut hand = Hand::create(&server.url()).await;
    let (to, limit) = (server.address(), limits::PUSH_REQUEST);
    let headers = push_headers(&hand);
    let endless = Body { piece: ZEROS, times: 1 << 12, chunked: true, ..Body::NONE };
    assert!(endless.length() > 4 * limit as u64);
    bounded("chunks without end", limit, post(to, PUSH, &headers, endless)).await.is(&[413, 0]);
    let long = Body { chunked: false, ..endless };
    bounded("a length past the limit", 64 << 10, post(to, PUSH, &headers, long)).await.is(&[413]);
    let lie = format!("{headers}Content-Length: {limit}\r\n");
    let little = Body { piece: ZEROS, times: 1, ..Body::NONE };
    let stream = async {
        // It announces all that is allowed, sends little, and goes.
        let head = format!("POST {PUSH} HTTP/1.1\r\nHost: s\r\n{lie}\r\n");
        let mut stream = TcpStream::connect(to).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, head.as_bytes()).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, little.piece).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    bounded("much announced, little sent", 64 << 10, stream).await;

    for (extra, status) in [(-1, 400), (0, 400), (1, 413)] {
        let length = limit.checked_add_signed(extra).unwrap();
        // No blob, and all the rest is the manifest.
        let body = zeros(&[&[0x82, 0x80][..], &bytes(length - 7)].concat(), length - 7, &[]);
        assert_eq!(body.length(), length as u64);
        let what = format!("a push of its limit and {extra}");
        bounded(&what, limit, post(to, PUSH, &headers, body)).await.is(&[status]);
    }
    serves(&mut hand).await;
}

/// So many zeros after a beginning, and before an end.
fn zeros(beginning: &[u8], count: usize, end: &'static [u8]) -> Body {
    let (times, rest) = (count / ZEROS.len(), count % ZEROS.len());
    Body {
        beginning: Box::leak(beginning.to_vec().into_boxed_slice()),
        piece: ZEROS,
        times: times as u64,
        end: Box::leak([&ZEROS[..rest], end].concat().into_boxed_slice()),
        chunked: false,
    }
}

/// The head of a byte string in CBOR.
fn bytes(count: usize) -> [u8; 5] {
    let [a, b, c, d] = u32::try_from(count).unwrap().to_be_bytes();
    [0x5a, a, b, c, d]
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_around_their_limit() {
    let _alone = alone().await;
    let server = InsideServer::start().await;
    let mut hand = Hand::create(&server.url()).await;
    let headers = push_headers(&hand);
    for (length, status) in [(limits::BLOB - 1, 400), (limits::BLOB, 400), (limits::BLOB + 1, 413)]
    {
        // One blob and an empty manifest.
        let body = zeros(&[&[0x82, 0x81][..], &bytes(length)].concat(), length, &[0x40]);
        let what = format!("a blob of {length} bytes");
        let sent = post(server.address(), PUSH, &headers, body);
        bounded(&what, limits::BLOB, sent).await.is(&[status]);
    }
    serves(&mut hand).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cbor_that_promises_much() {
    let _alone = alone().await;
    let server = InsideServer::start().await;
    let mut hand = Hand::create(&server.url()).await;
    let headers = push_headers(&hand);
    let deep = Body { piece: CBOR_OPEN, times: 13, ..Body::NONE };
    assert!(deep.length() > 200_000);
    let promises: [(&str, &'static [u8]); 8] = [
        ("2^64 - 1 blobs", &[0x82, 0x9b, 255, 255, 255, 255, 255, 255, 255, 255]),
        ("2^32 blobs", &[0x82, 0x9b, 0, 0, 0, 1, 0, 0, 0, 0]),
        ("a blob of 2^63 bytes", &[0x82, 0x81, 0x5b, 128, 0, 0, 0, 0, 0, 0, 0]),
        ("a blob of 2^31 bytes", &[0x82, 0x81, 0x5a, 128, 0, 0, 0]),
        ("text of 2^63 bytes", &[0x82, 0x81, 0x7b, 128, 0, 0, 0, 0, 0, 0, 0]),
        ("a map of 2^63", &[0xbb, 128, 0, 0, 0, 0, 0, 0, 0]),
        ("2^64 - 1 fields", &[0x9b, 255, 255, 255, 255, 255, 255, 255, 255, 0x80, 0x40]),
        ("endless fields", &[0x9f, 0x80, 0x40, 0x9f, 0x9f, 0x9f, 0x9f]),
    ];
    for (what, beginning) in promises {
        let body = Body { beginning, ..Body::NONE };
        let sent = post(server.address(), PUSH, &headers, body);
        bounded(what, 64 << 10, sent).await.is(&[400, 413]);
    }
    let sent = post(server.address(), PUSH, &headers, deep);
    bounded("200,000 levels", 2 * deep.length() as usize, sent).await.is(&[400]);
    // A field of a later version may be nested: it is passed over without a level of stack each.
    let later = Body { beginning: &[0x83, 0x80, 0x40], ..deep };
    let sent = post(server.address(), PUSH, &headers, later);
    bounded("200,000 levels in a later field", 2 * deep.length() as usize, sent).await.is(&[400]);
    serves(&mut hand).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_without_end() {
    let _alone = alone().await;
    let server = InsideServer::start().await;
    let mut hand = Hand::create(&server.url()).await;
    let (to, limit) = (server.address(), limits::REQUEST_HEAD);
    let line = Body { piece: A, times: 1 << 10, ..Body::NONE };
    let many = Body { piece: b"X-Header: value\r\n", times: 1 << 16, ..Body::NONE };
    let heads = [
        ("a path without end", "GET /", line),
        ("a header without end", "GET /healthz HTTP/1.1\r\nHost: s\r\nX: ", line),
        ("a name without end", "GET /healthz HTTP/1.1\r\nHost: s\r\n", line),
        ("headers without end", "GET /healthz HTTP/1.1\r\nHost: s\r\n", many),
        ("no line at all", "", line),
    ];
    for (what, head, body) in heads {
        let stream = TcpStream::connect(to).await.unwrap();
        bounded(what, limit, throw(stream, head, body)).await.is(&[400, 414, 431, 0]);
    }
    // The same as the trailer of a body, and as extensions of a chunk.
    let chunked = "POST /api/accounts HTTP/1.1\r\nHost: s\r\nContent-Type: application/json\r\n\
                   Transfer-Encoding: chunked\r\n\r\n";
    for (what, beginning) in [("a trailer", &b"0\r\nX: "[..]), ("an extension", b"1;x=")] {
        let stream = TcpStream::connect(to).await.unwrap();
        let body = Body { beginning, ..line };
        bounded(what, limit, throw(stream, chunked, body)).await.is(&[400, 413, 431, 0]);
    }
    serves(&mut hand).await;
}

/// A frame of HTTP/2 (RFC 9113, 4.1): length, type, flags, stream, payload.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_without_end_over_http_2() {
    let _alone = alone().await;
    let server = InsideServer::start().await;
    let mut hand = Hand::create(&server.url()).await;
    let leak = |bytes: Vec<u8>| -> &'static [u8] { Box::leak(bytes.into_boxed_slice()) };
    let (headers, settings, continuation) = (1, 4, 9);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let opened = [&preface[..], &frame(settings, 0, 0, &[])].concat();
    // A literal header that is not indexed (RFC 7541, 6.2.2): "x" and 100 letters.
    let literal = [&[0, 1, b'x', 100][..], &[b'a'; 100]].concat();
    let literals = literal.repeat(150);
    assert!(literals.len() < 1 << 14);
    let begun = [&opened[..], &frame(headers, 0, 1, &literals)].concat();
    // One header that announces 2^28 bytes, and none that ends.
    let long = [0, 1, b'x', 0x7f, 0x81, 0xff, 0xff, 0x7f];
    let unended = [&opened[..], &frame(headers, 0, 1, &long)].concat();
    for (what, beginning, piece) in [
        ("headers without end", begun, frame(continuation, 0, 1, &literals)),
        ("a header without end", unended, frame(continuation, 0, 1, A)),
        ("continuations of nothing", opened.clone(), frame(continuation, 0, 1, &[])),
        ("settings without end", opened, frame(settings, 0, 0, &[0, 3, 0, 0, 0, 1])),
    ] {
        let body =
            Body { beginning: leak(beginning), piece: leak(piece), times: 1 << 10, ..Body::NONE };
        let stream = TcpStream::connect(server.address()).await.unwrap();
        let limit = 4 * limits::REQUEST_HEAD;
        bounded(what, limit, throw(stream, "", body)).await.is(&[0]);
    }
    serves(&mut hand).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_mailbox() {
    let _alone = alone().await;
    let server = InsideServer::start().await;
    let mut hand = Hand::create(&server.url()).await;
    let nameplate = hand.client().open_mailbox().await.unwrap().nameplate;
    let put = async |message: usize, index: u32| {
        // Base64url of so many zeros, without padding.
        let letters = (message * 4).div_ceil(3);
        let beginning = format!("{{\"index\":{index},\"message\":\"");
        let letter: &'static [u8] = &[b'A'; 1 << 10];
        let body = Body {
            beginning: Box::leak(beginning.into_bytes().into_boxed_slice()),
            piece: letter,
            times: (letters / letter.len()) as u64,
            end: Box::leak([&letter[..letters % letter.len()], b"\"}"].concat().into_boxed_slice()),
            chunked: false,
        };
        let head = format!(
            "PUT /api/pair/{nameplate}/new HTTP/1.1\r\nHost: s\r\nConnection: close\r\n{JSON}\
             Content-Length: {}\r\n\r\n",
            body.length()
        );
        throw(TcpStream::connect(server.address()).await.unwrap(), &head, body).await
    };
    let limit = limits::MAILBOX_MESSAGE;
    // As it comes it is a third longer, and it is kept.
    for (length, accepted) in [(limit + 1, false), (limit, true), (limit - 1, true)] {
        let what = format!("a message of {length} bytes");
        let index = u32::from(length < limit);
        let answer = bounded(&what, 2 * limit, put(length, index)).await;
        if accepted {
            answer.is(&[200, 204]);
        } else {
            answer.is(&[400, 413]);
        }
    }
    // However many come, a mailbox keeps little of them.
    let many = async {
        let mut taken = 0;
        for index in 2..200 {
            if matches!(put(limit, index).await.status(), 200 | 204) {
                taken += 1;
            }
        }
        taken
    };
    let taken = bounded("two hundred messages", 4 << 20, many).await;
    println!("{taken} more messages were taken");
    serves(&mut hand).await;
}
