//! Fakes that answer each connection with a stream of exact bytes, cut exactly where a test says:
//! one where a daemon's socket would be, one where a server would be.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use tidings_client::socket::SOCKET_NAME;

use crate::process::command;
use crate::programs;

/// Long enough that a reader sees two pieces as two reads.
const PAUSE: Duration = Duration::from_millis(20);

/// What a fake serves and what it was asked.
#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// One stream a connection; without one the connection stays open and silent.
    streams: VecDeque<Vec<Vec<u8>>>,
    requests: Vec<String>,
}

/// A fake of the daemon's socket.
#[derive(Debug)]
pub struct Feed {
    dir: TempDir,
    shared: Shared,
}

impl Feed {
    /// Listens in a home of its own.
    ///
    /// # Panics
    /// There is no room for a socket.
    pub fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let listener = UnixListener::bind(dir.path().join(SOCKET_NAME)).expect("a socket");
        let shared = Shared::default();
        let serving = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                serving.answer(stream);
            }
        });
        Self { dir, shared }
    }

    /// The next connection gets these pieces, each in a write of its own, and then the end.
    pub fn serve(&self, pieces: &[&[u8]]) {
        self.shared.serve(pieces);
    }

    /// The heads of the requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.shared.lock().requests.clone()
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join(SOCKET_NAME)
    }

    /// The command line on this home.
    pub fn command(&self, verb: &[&str]) -> Command {
        let mut command = command(programs::tidings());
        command.env("HOME", self.dir.path()).arg("--home").arg(self.dir.path()).args(verb);
        command
    }
}

/// A fake of a server.
#[derive(Debug)]
pub struct TcpFeed {
    address: SocketAddr,
    shared: Shared,
}

impl TcpFeed {
    /// Listens on a free port.
    ///
    /// # Panics
    /// There is none.
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Shared::default();
        let serving = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // Each piece leaves for itself.
                let _ = stream.set_nodelay(true);
                serving.answer(stream);
            }
        });
        Self { address, shared }
    }

    /// As [`Feed::serve`].
    pub fn serve(&self, pieces: &[&[u8]]) {
        self.shared.serve(pieces);
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, pieces: &[&[u8]]) {
        let pieces = pieces.iter().map(|piece| piece.to_vec()).collect();
        self.lock().streams.push_back(pieces);
    }

    /// Answers on a thread of its own.
    fn answer(&self, stream: impl Read + Write + Send + 'static) {
        let shared = self.clone();
        std::thread::spawn(move || {
            // A reader that goes away is its own business.
            let _ = shared.stream(stream);
        });
    }

    fn stream(&self, mut stream: impl Read + Write) -> std::io::Result<()> {
        let mut head = Vec::new();
        let mut buffer = [0; 1024];
        while !head.windows(4).any(|window| window == b"\r\n\r\n") {
            let read = stream.read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            head.extend_from_slice(&buffer[..read]);
        }
        let pieces = {
            let mut state = self.lock();
            state.requests.push(String::from_utf8_lossy(&head).into_owned());
            state.streams.pop_front()
        };
        stream.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
        )?;
        stream.flush()?;
        let Some(pieces) = pieces else {
            // Silent until the reader goes.
            while stream.read(&mut buffer)? > 0 {}
            return Ok(());
        };
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            std::thread::sleep(PAUSE);
            stream.write_all(piece)?;
            stream.flush()?;
        }
        Ok(())
    }
}
