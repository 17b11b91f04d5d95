//! Answers of all kinds to ordinary calls.

use std::time::Duration;

use minicbor::bytes::ByteVec;
use tidings_wire::{
    Code, DeviceId, Epoch, Generation, Hash, Incarnation, Position, StartId, limits,
    sync::{ChainHead, Entry, Item, MEDIA_TYPE, PullResponse, PushRequest},
};

use super::*;
use crate::{
    ErrorKind,
    testing::{answer, within},
};

fn replica() -> Replica {
    Replica {
        app: "notes".parse().unwrap(),
        device: DeviceId([1; 16]),
        incarnation: Incarnation([2; 8]),
    }
}

fn page() -> PullResponse {
    let text = "\u{5317}\u{1f30d}".as_bytes().to_vec();
    let entry = |item| Entry { position: Position(7), received_ms: 1, item };
    PullResponse {
        generation: Generation([3; 8]),
        start: StartId([4; 8]),
        reset: None,
        entries: vec![entry(Item::Blob(ByteVec::from(text))), entry(Item::Damaged)],
        cursor: ByteVec::from(vec![5; 40]),
        position: Position(7),
        part: 0,
        has_more: false,
        head: Position(7),
        manifest_heads: Vec::new(),
        manifests: vec![ByteVec::from(vec![6; 30])],
        anchors: Vec::new(),
        chain: ChainHead { index: tidings_wire::ChainIndex(0), hash: Hash::ZERO },
        epoch: Epoch(0),
        now_ms: 2,
    }
}

#[tokio::test]
async fn a_pull_sends_what_the_server_reads_and_brings_its_page() {
    let body = minicbor::to_vec(page()).unwrap();
    let mut server = Server::tcp(send(answer("200 OK", MEDIA_TYPE, &body))).await;
    let pulled = within(client(&server).pull(&replica(), Some(&[1, 2]))).await.unwrap();
    assert_eq!(pulled, page());
    assert!(server.is_running());
    let request = server.request().await.to_ascii_lowercase();
    let device = "01".repeat(16);
    let line = format!(
        "get /api/sync/pull?app_id=notes&device_id={device}&incarnation={}&cursor=aqi http/1.1",
        "02".repeat(8)
    );
    assert_eq!(request.lines().next().unwrap(), line);
    assert!(request.contains("authorization: bearer t0ken"), "{request}");
    assert!(request.contains("accept: application/cbor"), "{request}");
    assert!(!request.contains("accept-encoding"), "{request}");
}

#[tokio::test]
async fn a_page_is_the_same_for_every_cut_of_its_bytes() {
    let body = minicbor::to_vec(page()).unwrap();
    let whole = answer("200 OK", MEDIA_TYPE, &body);
    for at in 1..whole.len() {
        let (head, tail) = whole.split_at(at);
        let steps = vec![Step::Send(head.to_vec()), Step::Send(tail.to_vec())];
        let server = Server::tcp(steps).await;
        let pulled = within(client(&server).pull(&replica(), None)).await.unwrap();
        assert_eq!(pulled, page(), "cut at {at}");
    }
}

#[tokio::test]
async fn a_body_that_ends_early_is_an_interruption_at_every_byte() {
    let body = minicbor::to_vec(page()).unwrap();
    let whole = answer("200 OK", MEDIA_TYPE, &body);
    let head = whole.len() - body.len();
    for end in head..whole.len() {
        let server = Server::tcp(send(&whole[..end])).await;
        let error = within(client(&server).pull(&replica(), None)).await.unwrap_err();
        assert!(matches!(error, ClientError::Interrupted(_)), "at {end}: {error}");
        assert_eq!(error.kind(), ErrorKind::Retry);
    }
    let server = Server::tcp(send(&whole[..head / 2])).await;
    let error = within(client(&server).pull(&replica(), None)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "a cut head: {error}");
}

#[tokio::test]
async fn a_cut_page_without_a_length_does_not_decode() {
    let body = minicbor::to_vec(page()).unwrap();
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/cbor\r\nconnection: close\r\n\r\n";
    for end in 0..body.len() {
        let server = Server::tcp(send([head, &body[..end]].concat())).await;
        let error = within(client(&server).pull(&replica(), None)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "at {end}: {error}");
    }
}

#[tokio::test]
async fn a_login_page_is_not_an_answer() {
    for status in ["200 OK", "403 Forbidden", "503 Service Unavailable"] {
        let page = answer(status, "text/html; charset=utf-8", b"<html>Welcome to our Wi-Fi</html>");
        let server = Server::tcp(send(page)).await;
        let client = client(&server);
        for error in [
            within(client.apps()).await.unwrap_err(),
            within(client.health()).await.unwrap_err(),
            within(client.pull(&replica(), None)).await.unwrap_err(),
        ] {
            assert!(matches!(error, ClientError::NotTidings { .. }), "{error}");
            assert!(error.to_string().contains("text/html"), "{error}");
            assert_eq!(error.kind(), ErrorKind::Retry);
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let there = Server::tcp(send(answer("200 OK", "application/json", b"{}"))).await;
    let redirect = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {}/login\r\ncontent-length: 0\r\n\r\n",
        there.url()
    );
    let server = Server::tcp(send(redirect)).await;
    let error = within(client(&server).apps()).await.unwrap_err();
    assert!(error.to_string().contains("a redirect to http://127.0.0.1"), "{error}");
    let mut requests = there.requests;
    assert!(requests.try_recv().is_err(), "the token went to another server");
}

#[tokio::test]
async fn an_answer_that_announces_too_much_is_refused_unread() {
    let size = limits::PULL_RESPONSE + 1;
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {size}\r\n\r\n");
    let server = Server::tcp(vec![Step::Send(head.into()), Step::Hang]).await;
    let error = within(client(&server).pull(&replica(), None)).await.unwrap_err();
    assert!(matches!(error, ClientError::TooLarge { limit: limits::PULL_RESPONSE }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Damaged);
}

#[tokio::test]
async fn an_endless_answer_is_cut_at_its_limit() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n".to_vec();
    let server = Server::tcp(vec![Step::Send(head), Step::SendForever]).await;
    let error = within(client(&server).apps()).await.unwrap_err();
    assert!(matches!(error, ClientError::TooLarge { limit: limits::JSON_RESPONSE }), "{error}");
}

#[tokio::test]
async fn problems_keep_their_words_and_kinds() {
    let cases = [
        ("429 Too Many Requests", "rate.limited", Code::RateLimited, ErrorKind::Retry),
        ("401 Unauthorized", "auth.token_expired", Code::TokenExpired, ErrorKind::Refused),
        ("409 Conflict", "lane_gap", Code::LaneGap, ErrorKind::Refused),
        ("507 Insufficient Storage", "quota.exceeded", Code::QuotaExceeded, ErrorKind::Refused),
        ("507 Insufficient Storage", "storage.full", Code::StorageFull, ErrorKind::Retry),
        ("400 Bad Request", "request.invalid_field", Code::InvalidField, ErrorKind::Misuse),
        ("503 Service Unavailable", "from.the.future", Code::Internal, ErrorKind::Retry),
        ("409 Conflict", "from.the.future", Code::Internal, ErrorKind::Refused),
    ];
    for (status, code, wanted, kind) in cases {
        let body = format!(r#"{{"error":{{"code":"{code}","message":"m","retryAfter":30}}}}"#);
        let server = Server::tcp(send(answer(status, "application/json", body.as_bytes()))).await;
        let error = within(client(&server).apps()).await.unwrap_err();
        assert_eq!(error.code(), Some(wanted));
        assert_eq!(error.kind(), kind, "{code}");
        assert_eq!(error.retry_after(), Some(Duration::from_secs(30)));
    }
}

#[tokio::test]
async fn what_a_server_says_cannot_drive_a_terminal() {
    let long = "x".repeat(10_000);
    let body = format!(
        r#"{{"error":{{"code":"rate.limited","message":"a\u001b[2Jb\r\nc {long}","hint":"\u0007{long}"}}}}"#
    );
    let refusal = answer("429 Too Many Requests", "application/json", body.as_bytes());
    let value = format!(r#"{{"generation":"\u001b[2J{long}"}}"#);
    for sent in [refusal, answer("200 OK", "application/json", value.as_bytes())] {
        let server = Server::tcp(send(sent)).await;
        let error = within(client(&server).apps()).await.unwrap_err();
        let shown = error.to_string();
        assert!(!shown.contains(char::is_control) && shown.len() < 1_000, "{shown}");
        if let ClientError::Problem { problem, .. } = error {
            let hint = problem.hint.unwrap();
            assert!(!hint.contains(char::is_control) && hint.len() < 1_000);
        }
    }
}

#[tokio::test]
async fn a_proxy_that_asks_to_wait_is_heard() {
    let bytes = b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\nretry-after: 7\r\n\
                  content-length: 4\r\n\r\nbusy";
    let server = Server::tcp(send(bytes)).await;
    let error = within(client(&server).apps()).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn an_encoded_answer_is_refused() {
    let bytes = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n\
                  content-length: 2\r\n\r\n{}";
    let server = Server::tcp(send(bytes)).await;
    let error = within(client(&server).apps()).await.unwrap_err();
    assert!(matches!(error, ClientError::Protocol(_)), "{error}");
}

#[tokio::test]
async fn silence_is_a_timeout_and_a_closed_port_is_unreachable() {
    let server = Server::tcp(vec![Step::Hang]).await;
    let timeouts = Timeouts { answer: Duration::from_millis(50), ..Timeouts::default() };
    let error = within(client_with(&server, timeouts).apps()).await.unwrap_err();
    assert!(matches!(error, ClientError::Timeout), "{error}");

    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let url = format!("http://{free}").parse().unwrap();
    let client = SyncClient::new(&Config::new(url)).unwrap();
    let error = within(client.health()).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable(_)), "{error}");
    assert_eq!(error.kind(), ErrorKind::Retry);
}

#[tokio::test]
async fn what_cannot_be_right_is_not_sent() {
    let mut server = Server::tcp(send(answer("200 OK", MEDIA_TYPE, b""))).await;
    let client = client(&server);
    let blob = ByteVec::from(vec![0; limits::PUSH_REQUEST + 1]);
    let push = PushRequest { blobs: vec![blob], manifest: ByteVec::from(Vec::new()) };
    let error = client.push(&replica().app, &push).await.unwrap_err();
    assert!(matches!(error, ClientError::RequestTooLarge { .. }), "{error}");

    let unsigned = SyncClient::new(&Config::new(server.url().parse().unwrap())).unwrap();
    let error = unsigned.apps().await.unwrap_err();
    assert!(matches!(error, ClientError::NoToken), "{error}");
    let error = client.with_token("a\r\nb: c").apps().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    assert!(server.requests.try_recv().is_err());
}

#[test]
fn tokens_do_not_print() {
    let config = Config::new("https://example.org".parse().unwrap());
    if let Ok(client) = SyncClient::new(&config) {
        let shown = format!("{:?}", client.with_token("T0KEN"));
        assert!(!shown.contains("T0KEN"), "{shown}");
    }
}
