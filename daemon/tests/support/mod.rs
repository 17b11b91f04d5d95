//! A daemon in a temporary home, and a client that shows every byte.

pub mod memory;

use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tidings_daemon::config::RawConfig;
use tidings_daemon::daemon::{Daemon, Options, StartError, StopError};
use tidings_daemon::home::Home;
use tidings_wire::sse::{Event, Item, Reader};
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Longest that anything may take.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Waits for something that has to come.
pub async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: nothing came"),
    }
}

/// A running daemon.
pub struct Running {
    pub home: Home,
    pub token: String,
    shutdown: CancellationToken,
    task: JoinSet<Result<(), StopError>>,
    _dir: Option<TempDir>,
}

/// How to start one.
#[derive(Default)]
pub struct Start {
    config: RawConfig,
}

impl Start {
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.config = self.config.flag(key, value);
        self
    }

    pub async fn fresh(self) -> Running {
        let dir = tempfile::tempdir().unwrap();
        let home = home_in(dir.path());
        let mut running = self.in_home(home).await.unwrap();
        running._dir = Some(dir);
        running
    }

    pub async fn in_home(self, home: Home) -> Result<Running, StartError> {
        let shutdown = CancellationToken::new();
        let mut options = Options::new(home.clone());
        options.config = self.config;
        let daemon = Daemon::start(options, shutdown.clone()).await?;
        let token = daemon.token().to_owned();
        let mut task = JoinSet::new();
        task.spawn(daemon.run());
        Ok(Running { home, token, shutdown, task, _dir: None })
    }
}

pub fn home_in(dir: &Path) -> Home {
    Home::at(dir.join("home"), dir.join("home/tidings.sock"))
}

impl Running {
    pub fn get(&self, path: &str) -> Call {
        Call::new(self, "GET", path)
    }

    pub fn delete(&self, path: &str) -> Call {
        Call::new(self, "DELETE", path)
    }

    pub fn post(&self, path: &str, body: impl Into<String>) -> Call {
        Call::new(self, "POST", path).body("application/json", body)
    }

    pub fn put(&self, path: &str, body: impl Into<String>) -> Call {
        Call::new(self, "PUT", path).body("application/json", body)
    }

    pub fn patch(&self, path: &str, body: impl Into<String>) -> Call {
        Call::new(self, "PATCH", path).body("application/json", body)
    }

    pub fn merge(&self, path: &str, body: impl Into<String>) -> Call {
        Call::new(self, "PATCH", path).body("application/merge-patch+json", body)
    }

    pub async fn stream(&self, path: &str) -> Stream {
        self.get(path).stream().await
    }

    pub fn socket(&self) -> &Path {
        self.home.socket()
    }

    /// Begins to stop without waiting.
    pub fn shut_down(&self) {
        self.shutdown.cancel();
    }

    /// Stops in order; the home stays.
    pub async fn stop(mut self) -> Option<TempDir> {
        self.shutdown.cancel();
        soon("the stop", self.task.join_next()).await.unwrap().unwrap().unwrap();
        self._dir
    }
}

/// A request.
pub struct Call {
    socket: PathBuf,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Call {
    fn new(running: &Running, method: &str, path: &str) -> Self {
        Self {
            socket: running.socket().to_owned(),
            method: method.to_owned(),
            path: path.to_owned(),
            headers: vec![
                ("host".into(), "tidings.localhost".into()),
                ("authorization".into(), format!("Bearer {}", running.token)),
            ],
            body: Bytes::new(),
        }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    pub fn body(mut self, kind: &str, body: impl Into<String>) -> Self {
        self.body = Bytes::from(body.into());
        self.header("content-type", kind)
    }

    pub fn bytes(mut self, kind: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header("content-type", kind)
    }

    async fn open(self) -> (Response<Incoming>, JoinSet<hyper::Result<()>>) {
        let io = UnixStream::connect(&self.socket).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await.unwrap();
        let mut task = JoinSet::new();
        task.spawn(connection);
        let mut request = Request::builder().method(self.method.as_str()).uri(&self.path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(self.body)).unwrap();
        (soon("an answer", sender.send_request(request)).await.unwrap(), task)
    }

    pub async fn send(self) -> Reply {
        let (answer, _task) = self.open().await;
        let (head, body) = answer.into_parts();
        let body = soon("a body", body.collect()).await.unwrap().to_bytes();
        let header =
            |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        Reply {
            status: head.status.as_u16(),
            position: header("tidings-position").map(|text| text.parse().unwrap()),
            etag: header("etag"),
            text: String::from_utf8(body.to_vec()).unwrap(),
            head,
        }
    }

    pub async fn stream(self) -> Stream {
        let (answer, task) = self.open().await;
        let (head, body) = answer.into_parts();
        assert_eq!(head.status, 200);
        assert_eq!(head.headers["content-type"], "text/event-stream");
        assert_eq!(head.headers["cache-control"], "no-store, no-transform");
        Stream { body, reader: Reader::new(), raw: Vec::new(), _task: task }
    }
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub position: Option<u64>,
    pub etag: Option<String>,
    pub text: String,
    pub head: hyper::http::response::Parts,
}

impl Reply {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {}", self.text))
    }

    /// Checks that it worked.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.text);
        self
    }

    /// Checks the refusal's status and code, and gives the problem.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> serde_json::Value {
        let error = self.json()["error"].clone();
        assert_eq!((self.status, error["code"].as_str()), (status, Some(code)), "{}", self.text);
        error
    }
}

/// An open stream.
pub struct Stream {
    body: Incoming,
    reader: Reader,
    pub raw: Vec<u8>,
    /// Serves the connection; the other side sees it closed when the stream is dropped.
    _task: JoinSet<hyper::Result<()>>,
}

impl Stream {
    /// The next event; none if the stream has ended.
    pub async fn next(&mut self) -> Option<Event> {
        // Heartbeats do not count.
        soon("an event", self.next_event()).await
    }

    async fn next_event(&mut self) -> Option<Event> {
        loop {
            while let Some(item) = self.reader.next_item().unwrap() {
                if let Item::Event(event) = item {
                    return Some(event);
                }
            }
            let frame = self.body.frame().await?.unwrap();
            if let Ok(data) = frame.into_data() {
                self.raw.extend_from_slice(&data);
                self.reader.feed(&data);
            }
        }
    }

    /// The next event's name, id and data.
    pub async fn event(&mut self) -> Got {
        let event = self.next().await.expect("the stream ended");
        Got {
            name: event.name.clone(),
            id: event.id.to_string(),
            data: serde_json::from_str(&event.data).unwrap(),
        }
    }

    /// Reads on until this comment was sent.
    pub async fn comment(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.raw).contains(text) {
            let frame = soon("a comment", self.body.frame()).await.unwrap().unwrap();
            self.raw.extend_from_slice(&frame.into_data().unwrap());
        }
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub struct Got {
    pub name: String,
    pub id: String,
    pub data: serde_json::Value,
}

impl Got {
    pub fn text(&self, key: &str) -> &str {
        self.data[key].as_str().unwrap_or_else(|| panic!("no text {key:?} in {:?}", self.data))
    }
}

/// Sends raw bytes and reads until the other side closes.
pub async fn raw(socket: &Path, bytes: &[u8]) -> Vec<u8> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    soon("the end of the connection", async {
        let mut piece = [0; 4096];
        loop {
            match stream.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(n) => answer.extend_from_slice(&piece[..n]),
            }
        }
    })
    .await;
    answer
}
