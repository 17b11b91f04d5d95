//! Those who listen: streams in a process of their own, and the one who publishes to them.
//!
//! Publishing is one push at a time, and the clock runs from its first byte to the event on each
//! stream, as the same thread sees it.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token, Waker};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidings_wire::Incarnation;

use super::limits::micros;
use super::part::{Part, say};
use super::rounds::percentile;

/// What a load is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Spec {
    /// The server.
    pub(super) address: SocketAddr,
    /// Whose streams they are, in turns.
    pub(super) tokens: Vec<String>,
    /// The streams listen to `c0` to so many, in turns.
    pub(super) channels: usize,
    /// Over TLS, with this authority.
    pub(super) authority: Option<PathBuf>,
    /// What is published.
    pub(super) pushes: Vec<Publish>,
}

/// A push that was sealed before.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Publish {
    /// The number of its channel.
    pub(super) channel: usize,
    /// The whole request.
    pub(super) request: Vec<u8>,
}

/// What a few publishes took.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Delivered {
    /// Events that came.
    pub(super) count: usize,
    /// Median from the push to the event, in microseconds.
    pub(super) p50: f64,
    /// 99th percentile of the same.
    pub(super) p99: f64,
}

/// A running load.
#[derive(Debug)]
pub(super) struct Load(Part);

impl Load {
    /// Starts one; its orders lie in a directory.
    ///
    /// # Panics
    /// It does not start.
    pub(super) fn start(dir: &Path, spec: &Spec) -> Self {
        let file = tempfile::Builder::new().prefix("load-").tempfile_in(dir).expect("a file");
        serde_json::to_writer(file.as_file(), spec).expect("room on the disk");
        let mut part = Part::start("load", &[&file.path().display().to_string()]);
        assert_eq!(part.answer(), "ready");
        Self(part)
    }

    /// Opens so many more streams.
    ///
    /// # Panics
    /// The server refuses one.
    pub(super) fn open(&mut self, count: usize) {
        self.0.ask(&format!("open {count}"));
    }

    /// Publishes the next so many pushes, one after the other.
    ///
    /// # Panics
    /// The server refuses, or an event does not come.
    pub(super) fn publish(&mut self, count: usize) -> Delivered {
        let answer = self.0.ask(&format!("publish {count}"));
        serde_json::from_value(answer).expect("what was delivered")
    }
}

/// The request that opens a stream. It is another replica's than the one that pushes, which would
/// not be told of its own.
pub(super) fn subscribe(spec: &Spec, place: usize) -> Vec<u8> {
    let replica = Incarnation([0xfe; 8]);
    let token = &spec.tokens[place % spec.tokens.len()];
    format!(
        "GET /api/sync/subscribe?incarnation={replica}&app_id=c{} HTTP/1.1\r\nHost: localhost\r\n\
         Accept: text/event-stream\r\nAuthorization: Bearer {token}\r\n\r\n",
        place % spec.channels
    )
    .into_bytes()
}

/// Longest wait for anything.
const DEADLINE: Duration = Duration::from_secs(30);
/// Between two publishes, so that each meets a server that waits.
const GAP: Duration = Duration::from_millis(1);
/// What every event has and nothing else.
const MARK: &[u8] = b"\ndata";
const WAKER: Token = Token(usize::MAX);

/// The part itself.
pub(super) fn run(arguments: &[String]) {
    let [spec] = arguments else { panic!("a file of orders") };
    let spec = std::fs::read(spec).expect("the orders");
    let mut listening = Listening::new(serde_json::from_slice(&spec).expect("orders"));
    let (sender, orders) = mpsc::channel();
    let waker = Arc::new(Waker::new(listening.poll.registry(), WAKER).expect("an epoll"));
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
            // The end of the orders is seen at the next wake-up.
            let _ = waker.wake();
        }
        drop(sender);
        let _ = waker.wake();
    });
    say(&json!("ready"));
    loop {
        match orders.try_recv() {
            Ok(line) => match line.split_once(' ') {
                Some(("open", count)) => say(&listening.open(count.parse().expect("a number"))),
                Some(("publish", count)) => {
                    let delivered = listening.publish(count.parse().expect("a number"));
                    say(&serde_json::to_value(delivered).expect("JSON"));
                }
                _ => panic!("no order: {line}"),
            },
            Err(mpsc::TryRecvError::Empty) => drop(listening.read(None)),
            Err(mpsc::TryRecvError::Disconnected) => return,
        }
    }
}

struct Listening {
    spec: Spec,
    next: usize,
    poll: Poll,
    events: Events,
    streams: Vec<Stream>,
    /// Kept open and never read: nothing is published over TLS.
    sealed: Vec<StreamOwned<ClientConnection, TcpStream>>,
    publisher: Option<TcpStream>,
    buffer: Vec<u8>,
}

struct Stream {
    socket: mio::net::TcpStream,
    /// How much of the mark was read.
    matched: usize,
}

impl Listening {
    fn new(spec: Spec) -> Self {
        Self {
            spec,
            next: 0,
            poll: Poll::new().expect("an epoll"),
            events: Events::with_capacity(256),
            streams: Vec::new(),
            sealed: Vec::new(),
            publisher: None,
            buffer: vec![0; 1 << 16],
        }
    }

    fn open(&mut self, count: usize) -> serde_json::Value {
        let tls = self.spec.authority.clone().map(|path| trusting(&path));
        for _ in 0..count {
            let place = self.streams.len() + self.sealed.len();
            let socket = connect(self.spec.address);
            let request = subscribe(&self.spec, place);
            if let Some(config) = &tls {
                let name = ServerName::try_from("localhost").expect("a name");
                let session = ClientConnection::new(Arc::clone(config), name).expect("a session");
                let mut stream = StreamOwned::new(session, socket);
                stream.write_all(&request).expect("a server that reads");
                begun(&mut stream);
                self.sealed.push(stream);
            } else {
                { &socket }.write_all(&request).expect("a server that reads");
                begun(&mut &socket);
                socket.set_nonblocking(true).expect("a socket");
                let mut socket = mio::net::TcpStream::from_std(socket);
                let registry = self.poll.registry();
                let token = Token(place);
                registry.register(&mut socket, token, Interest::READABLE).expect("an epoll");
                self.streams.push(Stream { socket, matched: 0 });
            }
        }
        json!(self.streams.len() + self.sealed.len())
    }

    fn publish(&mut self, count: usize) -> Delivered {
        let mut readers: HashMap<usize, usize> = HashMap::new();
        for place in 0..self.streams.len() {
            *readers.entry(place % self.spec.channels).or_default() += 1;
        }
        let address = self.spec.address;
        let mut publisher = self.publisher.take().unwrap_or_else(|| connect(address));
        let mut taken = Vec::new();
        for _ in 0..count {
            let push = self.spec.pushes.get(self.next).expect("pushes enough").clone();
            self.next += 1;
            let wanted = readers.get(&push.channel).copied().unwrap_or(0);
            let start = Instant::now();
            publisher.write_all(&push.request).expect("a server that reads");
            let mut seen = 0;
            while seen < wanted {
                assert!(start.elapsed() < DEADLINE, "{seen} of {wanted} events came");
                for at in self.read(Some(DEADLINE)) {
                    taken.push(micros(at - start));
                    seen += 1;
                }
            }
            answered(&mut publisher);
            let end = Instant::now() + GAP;
            while Instant::now() < end {
                let late = self.read(Some(end.saturating_duration_since(Instant::now())));
                assert!(late.is_empty(), "an event too many");
            }
        }
        self.publisher = Some(publisher);
        let (p50, p99) = (percentile(&taken, 0.5), percentile(&taken, 0.99));
        Delivered { count: taken.len(), p50, p99 }
    }

    /// Reads what has come, and says when each event did.
    fn read(&mut self, wait: Option<Duration>) -> Vec<Instant> {
        match self.poll.poll(&mut self.events, wait) {
            Err(error) if error.kind() != ErrorKind::Interrupted => panic!("epoll: {error}"),
            _ => {}
        }
        let mut came = Vec::new();
        for event in &self.events {
            let Some(stream) = self.streams.get_mut(event.token().0) else { continue };
            let read = match stream.socket.read(&mut self.buffer) {
                Ok(0) => panic!("the server ended a stream"),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => panic!("a stream broke: {error}"),
            };
            let at = Instant::now();
            for byte in &self.buffer[..read] {
                // Its first byte is nowhere else in the mark, so this misses none.
                let next = stream.matched;
                stream.matched =
                    if *byte == MARK[next] { next + 1 } else { usize::from(*byte == MARK[0]) };
                if stream.matched == MARK.len() {
                    stream.matched = 0;
                    came.push(at);
                }
            }
        }
        came
    }
}

/// A blocking connection that does not wait for ever.
pub(super) fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect_timeout(&address, DEADLINE).expect("a server that accepts");
    socket.set_nodelay(true).expect("a socket");
    socket.set_read_timeout(Some(DEADLINE)).expect("a socket");
    socket
}

/// Reads the head of a stream and its first frame.
pub(super) fn begun(socket: &mut impl Read) {
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    loop {
        let read = socket.read(&mut piece).expect("the head of a stream");
        head.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&head);
        assert!(read > 0 && text.starts_with("HTTP/1.1 200"), "no stream: {text}");
        if text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.ends_with("\n\n")) {
            return;
        }
    }
}

/// Reads a whole answer to a push.
pub(super) fn answered(socket: &mut TcpStream) {
    let mut answer = Vec::new();
    let mut piece = [0; 2048];
    loop {
        let read = socket.read(&mut piece).expect("an answer");
        answer.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&answer);
        assert!(read > 0 && text.starts_with("HTTP/1.1 20"), "no answer: {text}");
        let Some(end) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.map_or(0, |length| length.trim().parse().expect("a length"));
        if answer.len() >= end + 4 + length {
            return;
        }
    }
}

fn trusting(authority: &Path) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(authority).expect("a certificate");
    roots.add(certificate).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_root_certificates(roots);
    Arc::new(builder.with_no_client_auth())
}
