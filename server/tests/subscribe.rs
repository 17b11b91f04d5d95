//! The stream of `changed`, byte by byte.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Legacy;
use hyper_util::rt::TokioExecutor;
use tidings_wire::Code;

use crate::fixture::device::wrap;
use crate::fixture::{Session, TestServer, within};

/// An open stream and what came so far.
struct Stream {
    head: http::response::Parts,
    body: Incoming,
    text: String,
}

impl Stream {
    async fn open(session: &Session, query: &str, headers: &[(&str, &str)]) -> Self {
        let uri = format!("{}/api/sync/subscribe?{query}", session.client.base);
        let bearer = format!("Bearer {}", session.token.token);
        let mut request = Request::builder().uri(uri).header("authorization", bearer);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let client = Legacy::builder(TokioExecutor::new()).build_http();
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let response = within(client.request(request)).await.unwrap();
        assert_eq!(response.status(), 200);
        let (head, body) = response.into_parts();
        let mut stream = Self { head, body, text: String::new() };
        stream.until("\n\n").await;
        stream
    }

    /// Reads until the text so far ends with this.
    async fn until(&mut self, end: &str) {
        within(async {
            while !self.text.ends_with(end) {
                let frame = self.body.frame().await.expect("the stream ended").unwrap();
                self.text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
            }
        })
        .await;
    }

    /// Reads to the end of the stream.
    async fn rest(&mut self) -> &str {
        within(async {
            while let Some(frame) = self.body.frame().await {
                let frame = frame.unwrap();
                self.text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
            }
        })
        .await;
        &self.text
    }

    fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Whether nothing comes while somebody else is told.
    async fn stays_silent(&mut self) {
        let nothing = tokio::time::timeout(Duration::from_millis(150), self.body.frame()).await;
        assert!(nothing.is_err(), "{nothing:?}");
    }
}

#[tokio::test]
async fn a_stream_begins_at_once_and_no_hop_may_hold_it_back() {
    let server = TestServer::start(&[("stream.retry", "1s")]).await;
    let a = server.account().await;
    let headers = [("accept", "text/event-stream"), ("accept-encoding", "gzip, br")];
    let mut stream = Stream::open(&a, "app_id=x", &headers).await;
    let headers = &stream.head.headers;
    assert_eq!(headers["content-type"], "text/event-stream");
    assert_eq!(headers["cache-control"], "no-store, no-transform");
    assert_eq!(headers["x-accel-buffering"], "no");
    assert!(!headers.contains_key("content-encoding"));
    assert!(!headers.contains_key("content-length"));
    let hello = stream.take();
    let (retry, comment) = hello.split_once('\n').unwrap();
    let millis: u64 = retry.strip_prefix("retry: ").unwrap().parse().unwrap();
    assert!((1_000..=2_000).contains(&millis), "{hello}");
    assert_eq!(comment, ": connected\n\n");
}

#[tokio::test]
async fn changed_says_nothing_but_that() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut one = Stream::open(&b, "app_id=notes", &[]).await;
    let mut other = Stream::open(&b, "app_id=todo", &[]).await;
    let mut all = Stream::open(&b, "app_id=*", &[]).await;
    let mut account = Stream::open(&b, "app_id=_account", &[]).await;
    let mut own = Stream::open(&a, "app_id=*", &[]).await;
    let incarnation = format!("app_id=notes&incarnation={}", a.device.incarnation);
    let mut same = Stream::open(&a, &incarnation, &[]).await;
    let copy = format!("app_id=notes&incarnation={}", tidings_wire::Incarnation([1; 8]));
    let mut sibling = Stream::open(&a, &copy, &[]).await;
    for stream in [&mut one, &mut other, &mut all, &mut account, &mut own, &mut same, &mut sibling]
    {
        stream.take();
    }
    let mut book = a.book("notes");
    // A manifest before there is anything is no news, and does not take away that of the first push.
    a.push(&mut book, &[]).await;
    account.stays_silent().await;
    a.write(&mut book, 1, 3).await;
    one.until("\n\n").await;
    assert_eq!(one.take(), "event: changed\ndata:\n\n");
    // The app is new: the account's channel says so.
    account.until("\n\n").await;
    assert_eq!(account.take(), "event: changed\ndata:\n\n");
    all.until("data: _account\n\n").await;
    assert_eq!(all.take(), "event: changed\ndata: notes\n\nevent: changed\ndata: _account\n\n");
    sibling.until("\n\n").await;
    assert_eq!(sibling.take(), "event: changed\ndata:\n\n");
    other.stays_silent().await;
    own.stays_silent().await;
    same.stays_silent().await;

    // Neither a repeat nor a manifest alone is news.
    a.write(&mut book, 1, 1).await;
    one.until("\n\n").await;
    one.take();
    let blobs: Vec<Vec<u8>> = Vec::new();
    a.push(&mut book, &blobs).await;
    one.stays_silent().await;
    account.stays_silent().await;
    // A chain entry is, for everybody.
    a.link().await;
    account.until("\n\n").await;
    own.until("data: _account\n\n").await;
    one.stays_silent().await;
}

#[tokio::test]
async fn keepalives_come_and_the_token_ends_the_stream() {
    let server = TestServer::start(&[("stream.keepalive", "1s"), ("auth.token_life", "6s")]).await;
    let a = server.account().await;
    let mut stream = Stream::open(&a, "app_id=notes", &[]).await;
    stream.take();
    stream.until(": keepalive\n\n").await;
    assert_eq!(stream.take(), ": keepalive\n\n");
    let rest = stream.rest().await.to_owned();
    let end = "event: reauth\ndata: {\"reason\":\"token_expired\"}\n\n";
    assert!(rest.ends_with(end), "{rest}");
    assert!(rest.trim_end_matches(end).replace(": keepalive\n\n", "").is_empty(), "{rest}");
}

#[tokio::test]
async fn a_revoked_device_is_told_at_once() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut gone = Stream::open(&b, "app_id=*", &[]).await;
    let mut stays = Stream::open(&a, "app_id=_account", &[]).await;
    gone.take();
    stays.take();
    let (entry, earlier) = a.device.revokes(&a.chain, &[b.device.id], Default::default());
    let wraps = [wrap(tidings_wire::Epoch(1), a.device.id)];
    assert_eq!(a.append(&entry, &wraps, Some(&earlier)).await.status, 200);
    let said = gone.rest().await;
    assert_eq!(said, "event: reauth\ndata: {\"reason\":\"device_revoked\"}\n\n");
    stays.until("\n\n").await;
    let uri = "/api/sync/subscribe?app_id=*";
    assert_eq!(b.get(uri).await.code(), Code::DeviceRevoked);
}

#[tokio::test]
async fn at_the_end_of_the_server_streams_are_told_when_to_come_back() {
    let server = TestServer::start(&[("stream.closing_retry", "10s")]).await;
    let a = server.account().await;
    let mut stream = Stream::open(&a, "app_id=*", &[]).await;
    stream.take();
    server.stop().await;
    let said = stream.rest().await;
    let (retry, event) = said.split_once('\n').unwrap();
    let millis: u64 = retry.strip_prefix("retry: ").unwrap().parse().unwrap();
    assert!((1_000..=10_000).contains(&millis), "{said}");
    assert_eq!(event, "event: closing\ndata: {}\n\n");
}

#[tokio::test]
async fn only_who_may_and_only_so_many() {
    let server = TestServer::start(&[("stream.per_app", "2"), ("stream.per_account", "3")]).await;
    let a = server.account().await;
    let path = "/api/sync/subscribe?app_id=notes";
    let json = [("accept", "application/json")];
    let reply = a.send(http::Method::GET, path, &json, "").await;
    assert_eq!(reply.code(), Code::NotAcceptable);
    // What is asked for comes before who asks: the refusal needs no token.
    let reply = server.client.send(http::Method::GET, path, &json, "").await;
    assert_eq!(reply.code(), Code::NotAcceptable);
    assert_eq!(server.client.get(path).await.code(), Code::AuthRequired);
    let reply = a.get("/api/sync/subscribe?app_id=NO").await;
    assert_eq!(reply.code(), Code::InvalidField);
    assert_eq!(a.get("/api/sync/subscribe").await.code(), Code::MissingField);
    let first = Stream::open(&a, "app_id=notes", &[]).await;
    let _second = Stream::open(&a, "app_id=notes", &[("accept", "*/*")]).await;
    let reply = a.get(path).await;
    assert_eq!(reply.code(), Code::StreamLimit);
    assert!(reply.headers.contains_key("retry-after"));
    let _third = Stream::open(&a, "app_id=*", &[]).await;
    let reply = a.get("/api/sync/subscribe?app_id=todo").await;
    assert_eq!(reply.code(), Code::StreamLimit);
    // Another account is not concerned; and a closed stream makes room.
    let other = server.account().await;
    let _other = Stream::open(&other, "app_id=notes", &[]).await;
    drop(first);
    let reopened = async {
        while server.server.shared().hub.open_streams() > 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(reopened).await;
    let _fourth = Stream::open(&a, "app_id=notes", &[]).await;
}

#[tokio::test]
async fn a_reader_that_falls_behind_is_told_once_and_delays_nobody() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut slow = Stream::open(&b, "app_id=notes", &[]).await;
    let mut quick = Stream::open(&b, "app_id=notes", &[]).await;
    slow.take();
    quick.take();
    let hub = server.server.shared().hub.clone();
    for _ in 0..50_000 {
        hub.publish(a.account(), "notes", None);
    }
    let mut book = a.book("notes");
    a.write(&mut book, 1, 1).await;
    quick.until("\n\n").await;
    // What the kernel holds for the two sockets, and not one for each.
    while let Ok(Some(frame)) =
        tokio::time::timeout(Duration::from_millis(300), slow.body.frame()).await
    {
        slow.text.push_str(std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap());
    }
    let told = slow.take().matches("event: changed").count();
    assert!((1..=5_000).contains(&told), "{told}");
}
