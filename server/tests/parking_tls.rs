//! Streams over TLS, parked with their connection's state, and streams over HTTP/2, which share a
//! socket and stay bodies: the same hub tells both.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::CertificateDer;
use rustls::version::TLS13;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;

use crate::fixture::reader::{Reader, open_become};
use crate::fixture::{Session, TestServer, within};
use crate::tls::{Files, Front, front, secure};

const CHANGED: &str = "event: changed\ndata:\n\n";

/// A server with TLS and an account on it.
struct Secure {
    server: TestServer,
    cert: CertificateDer<'static>,
    account: Session,
    _front: Front,
    _files: Files,
}

impl Secure {
    async fn start(values: &[(&str, &str)]) -> Self {
        let files = Files::new();
        let cert = files.renew();
        let server = files.server(values).await;
        let front = front(&server, &cert).await;
        let account = crate::fixture::session::create(&front.client(), None).await;
        Self { server, cert, account, _front: front, _files: files }
    }

    async fn open(&self) -> Reader<TlsStream<TcpStream>> {
        let socket = TcpStream::connect(self.server.address()).await.unwrap();
        let socket = secure(socket, &self.cert, &TLS13, &[b"http/1.1"]).await.unwrap();
        Reader::begin(socket, &self.account, "notes").await
    }

    fn publish(&self) {
        self.server.server.shared().hub.publish(self.account.account(), "notes", None);
    }
}

#[tokio::test]
async fn a_stream_over_tls_is_told_and_ends_in_order() {
    let secure = Secure::start(&[("stream.keepalive", "1s")]).await;
    let mut reader = secure.open().await;
    secure.publish();
    reader.until(CHANGED).await;
    reader.until(": keepalive\n\n").await;
    secure.server.stop().await;
    // Without a close_notify this were an error: nobody cut the connection.
    let rest = reader.rest().await;
    assert!(rest.ends_with("event: closing\ndata: {}\n\n"), "{rest}");
}

#[tokio::test]
async fn a_reader_that_leaves_or_speaks_frees_its_slot() {
    let secure = Secure::start(&[]).await;
    let mut polite = secure.open().await;
    open_become(&secure.server, 1).await;
    polite.socket.shutdown().await.unwrap();
    open_become(&secure.server, 0).await;
    let rude = secure.open().await;
    drop(rude);
    open_become(&secure.server, 0).await;
    let reset = secure.open().await;
    reset.socket.get_ref().0.set_zero_linger().unwrap();
    drop(reset);
    open_become(&secure.server, 0).await;
    let mut stray = secure.open().await;
    stray.say("x").await;
    open_become(&secure.server, 0).await;
    stray.gone().await;
    // Bytes that are no TLS.
    let mut noise = secure.open().await;
    noise.socket.get_mut().0.write_all(&[0; 64]).await.unwrap();
    open_become(&secure.server, 0).await;
    noise.gone().await;
}

#[tokio::test]
async fn keys_may_be_renewed_on_a_parked_stream() {
    let secure = Secure::start(&[]).await;
    let mut reader = secure.open().await;
    for _ in 0..3 {
        reader.socket.get_mut().1.refresh_traffic_keys().unwrap();
        reader.socket.flush().await.unwrap();
        secure.publish();
        assert_eq!(reader.until("\n\n").await, CHANGED);
    }
    open_become(&secure.server, 1).await;
}

/// Several streams over one HTTP/2 connection.
struct Shared {
    sender: http2::SendRequest<Empty<Bytes>>,
    connections: JoinSet<()>,
}

impl Shared {
    async fn connect(server: &TestServer, window: u32) -> Self {
        let socket = TcpStream::connect(server.address()).await.unwrap();
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(window)
            .handshake(TokioIo::new(socket))
            .await
            .unwrap();
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let _ = connection.await;
        });
        Self { sender, connections }
    }

    async fn open(&mut self, session: &Session, channel: &str) -> Body {
        let request = Request::builder()
            .uri(format!("http://x/api/sync/subscribe?app_id={channel}"))
            .header("authorization", format!("Bearer {}", session.token.token))
            .body(Empty::new())
            .unwrap();
        let response = within(self.sender.send_request(request)).await.unwrap();
        assert_eq!(response.status(), 200);
        let mut body = Body { body: response.into_body(), text: String::new() };
        assert!(body.until("connected\n\n").await.starts_with("retry: "));
        body
    }
}

struct Body {
    body: hyper::body::Incoming,
    text: String,
}

impl Body {
    async fn until(&mut self, end: &str) -> String {
        within(async {
            while !self.text.ends_with(end) {
                let frame = self.body.frame().await.expect("the stream ended").unwrap();
                self.text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
            }
        })
        .await;
        std::mem::take(&mut self.text)
    }

    async fn rest(self) -> String {
        let rest = within(self.body.collect()).await.unwrap().to_bytes();
        String::from_utf8(rest.to_vec()).unwrap()
    }
}

#[tokio::test]
async fn streams_over_http2_are_told_by_the_same_hub() {
    let server = TestServer::start(&[("stream.keepalive", "1s"), ("auth.token_life", "4s")]).await;
    let a = server.account().await;
    let hub = server.server.shared().hub.clone();
    let mut shared = Shared::connect(&server, 65_535).await;
    let mut one = shared.open(&a, "notes").await;
    let gone = shared.open(&a, "notes").await;
    let mut all = shared.open(&a, "*").await;
    let mut parked = Reader::open(&server, &a, "notes").await;
    open_become(&server, 4).await;
    drop(gone);
    open_become(&server, 3).await;
    hub.publish(a.account(), "notes", None);
    one.until(CHANGED).await;
    all.until("event: changed\ndata: notes\n\n").await;
    parked.until(CHANGED).await;
    one.until(": keepalive\n\n").await;
    let end = "event: reauth\ndata: {\"reason\":\"token_expired\"}\n\n";
    assert!(one.rest().await.ends_with(end));
    assert!(all.rest().await.ends_with(end));
    assert!(parked.rest().await.ends_with(end));
    open_become(&server, 0).await;
    shared.connections.abort_all();
}

#[tokio::test]
async fn a_stalled_reader_over_http2_is_told_once_and_delays_nobody() {
    let server = TestServer::start(&[]).await;
    let a = server.account().await;
    let hub = server.server.shared().hub.clone();
    let mut slow = Shared::connect(&server, 1_024).await;
    let mut slow = slow.open(&a, "*").await;
    let mut quick = Reader::open(&server, &a, "notes").await;
    for _ in 0..500 {
        hub.publish(a.account(), "notes", None);
        assert_eq!(quick.until("\n\n").await, CHANGED);
    }
    hub.publish(a.account(), "last", None);
    let told = slow.until("data: last\n\n").await;
    let count = told.matches("data: notes\n\n").count();
    // A window's worth, sixteen, and the one for the rest.
    assert!((1..=100).contains(&count), "{count}");
    hub.publish(a.account(), "notes", None);
    assert_eq!(slow.until("\n\n").await, "event: changed\ndata: notes\n\n");
}
