//! TLS from files: both versions, both protocols, and a certificate that is renewed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::fixture::{Client, TestServer, within};

/// A certificate on disk.
pub struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn cert(&self) -> PathBuf {
        self.dir.path().join("cert.pem")
    }

    fn key(&self) -> PathBuf {
        self.dir.path().join("key.pem")
    }

    /// Writes a new self-signed pair; gives the certificate.
    pub fn renew(&self) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(self.key(), made.signing_key.serialize_pem()).unwrap();
        std::fs::write(self.cert(), made.cert.pem()).unwrap();
        made.cert.der().clone()
    }

    pub async fn server(&self, values: &[(&str, &str)]) -> TestServer {
        let (cert, key) = (self.cert().display().to_string(), self.key().display().to_string());
        let mut all = vec![("tls.cert", cert.as_str()), ("tls.key", key.as_str())];
        all.extend_from_slice(values);
        TestServer::start(&all).await
    }
}

async fn connect(
    server: &TestServer,
    trusted: &CertificateDer<'static>,
    version: &'static SupportedProtocolVersion,
    alpn: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let socket = TcpStream::connect(server.address()).await?;
    secure(socket, trusted, version, alpn).await
}

/// Speaks TLS over a connection.
pub async fn secure(
    socket: TcpStream,
    trusted: &CertificateDer<'static>,
    version: &'static SupportedProtocolVersion,
    alpn: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    within(TlsConnector::from(Arc::new(config)).connect(name, socket)).await
}

/// A plain address in front of a server with TLS, for clients that speak none.
pub struct Front {
    pub address: SocketAddr,
    _connections: JoinSet<()>,
}

impl Front {
    pub fn client(&self) -> Client {
        Client::new(format!("http://{}", self.address))
    }
}

pub async fn front(server: &TestServer, trusted: &CertificateDer<'static>) -> Front {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (back, trusted) = (server.address(), trusted.clone());
    let mut connections = JoinSet::new();
    connections.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((mut plain, _)) = listener.accept().await {
            let trusted = trusted.clone();
            open.spawn(async move {
                let socket = TcpStream::connect(back).await.unwrap();
                let version = &rustls::version::TLS13;
                let mut tls = secure(socket, &trusted, version, &[]).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut plain, &mut tls).await;
            });
        }
    });
    Front { address, _connections: connections }
}

fn healthz() -> Request<Empty<Bytes>> {
    Request::builder().uri("https://localhost/healthz").body(Empty::new()).unwrap()
}

#[tokio::test]
async fn both_protocols_are_spoken_over_tls_1_3_alone() {
    let files = Files::new();
    let cert = files.renew();
    let server = files.server(&[]).await;
    assert!(server.server.url().starts_with("https://"));
    let version = &rustls::version::TLS13;
    let stream = connect(&server, &cert, version, &[b"http/1.1"]).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let mut connections = tokio::task::JoinSet::new();
    connections.spawn(connection);
    let mut request = healthz();
    request.headers_mut().insert("host", "localhost".parse().unwrap());
    let response = within(sender.send_request(request)).await.unwrap();
    assert_eq!(response.status(), 200);

    let stream = connect(&server, &cert, version, &[b"h2"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    connections.spawn(connection);
    let response = within(sender.send_request(healthz())).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = within(response.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(body, r#"{"status":"ok"}"#);

    let older = connect(&server, &cert, &rustls::version::TLS12, &[b"http/1.1"]).await;
    assert!(older.unwrap_err().to_string().contains("ProtocolVersion"));
}

#[tokio::test]
async fn a_renewed_certificate_is_taken_up_and_a_broken_one_is_not() {
    let files = Files::new();
    let old = files.renew();
    let server = files.server(&[("tls.reload", "1s")]).await;
    let version = &rustls::version::TLS13;
    connect(&server, &old, version, &[]).await.unwrap();
    std::fs::write(files.cert(), "half a certificate").unwrap();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    connect(&server, &old, version, &[]).await.unwrap();
    let new = files.renew();
    within(async {
        while connect(&server, &new, version, &[]).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    assert!(connect(&server, &old, version, &[]).await.is_err());
}

#[tokio::test]
async fn a_handshake_that_does_not_come_is_cut_off() {
    let files = Files::new();
    files.renew();
    let server = files.server(&[("timeouts.tls_handshake", "300ms")]).await;
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let read = within(tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 8])).await;
    assert_eq!(read.unwrap_or(0), 0);
    // Plain HTTP gets no answer that could be taken for one.
    let answer =
        crate::fixture::http::raw(server.address(), b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(!answer.starts_with("HTTP"), "{answer}");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let files = Files::new();
    files.renew();
    std::fs::write(files.key(), "nothing").unwrap();
    let config = tidings_server::config_with(&[
        ("store", "memory:"),
        ("tls.cert", &files.cert().display().to_string()),
        ("tls.key", &files.key().display().to_string()),
    ])
    .unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let error = tidings_server::Server::start(config, listener).await.unwrap_err().to_string();
    assert!(error.contains("key.pem"), "{error}");
}
