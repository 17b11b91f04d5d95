//! The limit of a server of streams: one thread and epoll, no parsing to speak of, no accounts, no
//! checks. A subscriber is a descriptor in the list of its channel; a publish is written to each.
//! With a journal it is first made durable, by 512 bytes and one fdatasync.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use serde_json::json;

use super::limits::Journal;
use super::part::{Part, end_with_input, say};

/// The running program.
#[derive(Debug)]
pub(super) struct Floor {
    part: Part,
    /// Where it listens.
    pub(super) address: SocketAddr,
}

impl Floor {
    /// Starts it: with a journal, if a publish is to be durable; with keep-alives, if they have a
    /// period.
    ///
    /// # Panics
    /// It does not start.
    pub(super) fn start(journal: Option<&Path>, keepalive: Duration) -> Self {
        let journal = journal.map(|path| path.display().to_string()).unwrap_or_default();
        let millis = keepalive.as_millis().to_string();
        let mut part = Part::start("floor", &[&journal, &millis]);
        let said = part.answer();
        let address = said["address"].as_str().and_then(|text| text.parse().ok());
        Self { part, address: address.expect("its address") }
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        self.part.id()
    }
}

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: ok\n\n";
const DONE: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
const LISTENER: Token = Token(usize::MAX);

/// The part itself.
pub(super) fn run(arguments: &[String]) {
    let [journal, keepalive] = arguments else { panic!("a journal and milliseconds") };
    let journal = (!journal.is_empty()).then(|| Journal::create(Path::new(journal)));
    let keepalive = Duration::from_millis(keepalive.parse().expect("milliseconds"));
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    end_with_input();
    say(&json!({ "address": listener.local_addr().expect("an address").to_string() }));
    Serving {
        poll: Poll::new().expect("an epoll"),
        listener,
        journal,
        connections: Vec::new(),
        channels: HashMap::new(),
        buffer: vec![0; 1 << 16],
    }
    .serve(keepalive);
}

struct Serving {
    poll: Poll,
    listener: TcpListener,
    journal: Option<Journal>,
    connections: Vec<Option<TcpStream>>,
    channels: HashMap<Box<[u8]>, Vec<usize>>,
    buffer: Vec<u8>,
}

impl Serving {
    fn serve(mut self, keepalive: Duration) {
        let registry = self.poll.registry();
        registry.register(&mut self.listener, LISTENER, Interest::READABLE).expect("an epoll");
        let mut events = Events::with_capacity(256);
        let mut next = Instant::now() + keepalive;
        loop {
            let left = next.saturating_duration_since(Instant::now());
            match self.poll.poll(&mut events, (!keepalive.is_zero()).then_some(left)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => panic!("epoll: {error}"),
                _ => {}
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    Token(place) => self.read(place),
                }
            }
            if !keepalive.is_zero() && Instant::now() >= next {
                next += keepalive;
                for place in self.channels.values().flatten() {
                    self.send(*place, b":\n\n");
                }
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((mut socket, _)) = self.listener.accept() {
            // A small write leaves at once.
            let _ = socket.set_nodelay(true);
            let place = Token(self.connections.len());
            let registry = self.poll.registry();
            registry.register(&mut socket, place, Interest::READABLE).expect("an epoll");
            self.connections.push(Some(socket));
        }
    }

    fn read(&mut self, place: usize) {
        let Some(Some(socket)) = self.connections.get_mut(place) else { return };
        let read = match socket.read(&mut self.buffer) {
            Ok(read) if read > 0 => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            _ => {
                self.connections[place] = None;
                self.channels.values_mut().for_each(|list| list.retain(|known| *known != place));
                return;
            }
        };
        // Each request comes in one piece, and answers are waited for.
        let request = &self.buffer[..read];
        let path = request.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        let channel = path.rsplit(|byte| *byte == b'=').next().unwrap_or_default();
        if request.starts_with(b"GET") {
            self.channels.entry(channel.into()).or_default().push(place);
            self.send(place, HEAD);
        } else {
            if let Some(journal) = &mut self.journal {
                journal.append();
            }
            for place in self.channels.get(channel).into_iter().flatten() {
                self.send(*place, tidings_wire::sse::CHANGED);
            }
            self.send(place, DONE);
        }
    }

    fn send(&self, place: usize, bytes: &[u8]) {
        if let Some(Some(socket)) = self.connections.get(place) {
            // Whoever does not read loses it.
            let _ = { socket }.write(bytes);
        }
    }
}
