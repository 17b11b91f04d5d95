//! A server for tests that answers each connection with prepared bytes.
//!
//! It reads one request, writes the pieces with a flush after each, and then does what the last
//! step says. It works over any stream: TCP, TLS and Unix sockets.

use std::{io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, UnixListener},
    sync::mpsc,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

/// Deadline of every wait in these tests.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// What happens on a connection after its request was read.
#[derive(Clone)]
pub(crate) enum Step {
    /// Writes and flushes.
    Send(Vec<u8>),
    /// Goes on writing zeros until the peer hangs up.
    SendForever,
    /// Keeps the connection open and says nothing until the peer hangs up.
    Hang,
    /// Answers before the request's body was read.
    EarlyAnswer(Vec<u8>),
}

/// A running server; it stops when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// The head and body of each request, as text.
    pub(crate) requests: mpsc::UnboundedReceiver<String>,
    tasks: JoinSet<()>,
}

impl Server {
    /// Serves every connection on a loopback port with the same steps.
    pub(crate) async fn tcp(steps: Vec<Step>) -> Self {
        Self::start(None, steps).await
    }

    /// The same behind TLS.
    pub(crate) async fn tls(config: Arc<rustls::ServerConfig>, steps: Vec<Step>) -> Self {
        Self::start(Some(TlsAcceptor::from(config)), steps).await
    }

    async fn start(acceptor: Option<TlsAcceptor>, steps: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, requests) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (steps, seen, acceptor) = (steps.clone(), seen.clone(), acceptor.clone());
                connections.spawn(async move {
                    match acceptor {
                        // A client that trusts nobody breaks the handshake off.
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                converse(stream, steps, seen).await;
                            }
                        }
                        None => converse(stream, steps, seen).await,
                    }
                });
            }
        });
        Self { address, requests, tasks }
    }

    /// Serves every connection on a Unix socket with the same steps.
    pub(crate) fn unix(path: &Path, steps: Vec<Step>) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let (seen, requests) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(converse(stream, steps.clone(), seen.clone()));
            }
        });
        Self { address: ([127, 0, 0, 1], 0).into(), requests, tasks }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next request that came in.
    pub(crate) async fn request(&mut self) -> String {
        within(self.requests.recv()).await.unwrap()
    }

    /// How many tasks it has; one while it runs.
    #[cfg(test)]
    pub(crate) fn is_running(&self) -> bool {
        !self.tasks.is_empty()
    }
}

/// Waits for something that must happen before the deadline.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(DEADLINE, future).await.expect("nothing happened before the deadline")
}

/// An HTTP/1.1 answer with a length.
pub(crate) fn answer(status: &str, media_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// The head of a stream that ends with its connection.
pub(crate) fn stream_head() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_vec()
}

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    steps: Vec<Step>,
    seen: mpsc::UnboundedSender<String>,
) {
    let early = matches!(steps.first(), Some(Step::EarlyAnswer(_)));
    let Ok(request) = read_request(&mut stream, early).await else { return };
    let _ = seen.send(request);
    for step in steps {
        let result = match step {
            Step::Send(bytes) | Step::EarlyAnswer(bytes) => send(&mut stream, &bytes).await,
            Step::SendForever => loop {
                if let Err(error) = send(&mut stream, &[0; 16 << 10]).await {
                    break Err(error);
                }
            },
            Step::Hang => stream.read(&mut [0; 1]).await.map(|_| ()),
        };
        if result.is_err() {
            return;
        }
    }
    let _ = stream.shutdown().await;
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

/// The head, and the body by its length or in chunks.
async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    head_only: bool,
) -> io::Result<String> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let lower = head.to_ascii_lowercase();
        let length = lower
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let chunked = lower.contains("transfer-encoding: chunked");
        let whole = match length {
            Some(length) => bytes.len() >= head.len() + 4 + length,
            None => !chunked || body.ends_with("0\r\n\r\n"),
        };
        if head_only || whole {
            return Ok(text);
        }
    }
}
