//! A proxy of bytes that can record, hold back, cut and lose answers.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::wait::{DEADLINE, eventually};

/// A running proxy of one server. Dropping it ends it and all its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    control: watch::Sender<Control>,
}

/// What a test told it, seen by every connection.
#[derive(Debug, Clone)]
struct Control {
    upstream: SocketAddr,
    /// Rises with each cut; a connection of an older life ends.
    life: u64,
    /// New connections are closed at once.
    refusing: bool,
    /// Nothing is passed on.
    holding: bool,
    /// Each piece waits this long.
    delay: Duration,
    /// Most bytes of a piece to the client.
    chop: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Requests whose answers are lost: what their bytes hold, and how many.
    lose: Option<(Vec<u8>, usize)>,
    lost: usize,
    connections: usize,
    recording: bool,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
}

impl Proxy {
    /// Listens on a free port and passes on to a server.
    ///
    /// # Panics
    /// There is no free port.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (control, _) = watch::channel(Control {
            upstream,
            life: 0,
            refusing: false,
            holding: false,
            delay: Duration::ZERO,
            chop: usize::MAX,
        });
        let shared = Arc::new(Shared { state: Mutex::default(), control });
        #[expect(clippy::disallowed_methods, reason = "the proxy owns this task and aborts it")]
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, task }
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Passes new connections on to another server.
    pub fn lead_to(&self, upstream: SocketAddr) {
        self.shared.control.send_modify(|control| control.upstream = upstream);
    }

    /// Cuts every connection now; new ones are passed on.
    pub fn cut(&self) {
        self.shared.control.send_modify(|control| control.life += 1);
    }

    /// Cuts every connection, and closes new ones until [`Proxy::pass`].
    pub fn refuse(&self) {
        self.shared.control.send_modify(|control| {
            control.life += 1;
            control.refusing = true;
        });
    }

    /// Keeps connections open but passes nothing on until [`Proxy::pass`].
    pub fn hold(&self) {
        self.shared.control.send_modify(|control| control.holding = true);
    }

    /// Lets every piece of bytes wait.
    pub fn delay(&self, delay: Duration) {
        self.shared.control.send_modify(|control| control.delay = delay);
    }

    /// Passes answers on in pieces of at most so many bytes, each written by itself.
    pub fn chop(&self, most: usize) {
        self.shared.control.send_modify(|control| control.chop = most.max(1));
    }

    /// Passes everything on again.
    pub fn pass(&self) {
        self.shared.control.send_modify(|control| {
            control.refusing = false;
            control.holding = false;
            control.delay = Duration::ZERO;
            control.chop = usize::MAX;
        });
    }

    /// Loses the answers of the next `count` requests that hold these bytes (such as
    /// `POST /api/sync/push`): they reach the server whole, and the connection ends with the first
    /// byte of the answer. Only for connections over which one request goes at a time.
    pub fn lose_answers(&self, holding: &str, count: usize) {
        let mut state = self.shared.lock();
        state.lose = Some((holding.as_bytes().to_vec(), count));
        state.lost = 0;
    }

    /// Waits until so many answers were lost.
    ///
    /// # Panics
    /// They were not by the deadline.
    pub async fn lost(&self, count: usize) {
        eventually(&format!("{count} answers are lost"), DEADLINE, async || {
            let lost = self.shared.lock().lost;
            if lost >= count { Ok(()) } else { Err(format!("{lost} are")) }
        })
        .await;
    }

    /// Keeps a copy of all that is passed on from now.
    pub fn record(&self) {
        self.shared.lock().recording = true;
    }

    /// What was recorded: bytes to the server, bytes to clients.
    pub fn recorded(&self) -> (Vec<u8>, Vec<u8>) {
        let state = self.shared.lock();
        (state.to_server.clone(), state.to_client.clone())
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.lock().connections
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes bytes to the server; whether the answer to them is to be lost.
    fn sent(&self, bytes: &[u8]) -> bool {
        let mut state = self.lock();
        if state.recording {
            state.to_server.extend_from_slice(bytes);
        }
        let Some((holding, left)) = &mut state.lose else { return false };
        let found = *left > 0 && bytes.windows(holding.len()).any(|window| window == holding);
        if found {
            *left -= 1;
        }
        found
    }

    fn answered(&self, bytes: &[u8]) {
        let mut state = self.lock();
        if state.recording {
            state.to_client.extend_from_slice(bytes);
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        shared.lock().connections += 1;
        let control = shared.control.subscribe();
        if control.borrow().refusing {
            continue;
        }
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            // A connection that breaks is what the proxy is for.
            let _ = relay(client, shared, control).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn relay(
    client: TcpStream,
    shared: Arc<Shared>,
    mut control: watch::Receiver<Control>,
) -> io::Result<()> {
    let (upstream, life) = {
        let control = control.borrow();
        (control.upstream, control.life)
    };
    let server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (losing, lose) = watch::channel(false);
    let up = copy(
        from_client,
        to_server,
        control.clone(),
        |_| usize::MAX,
        |bytes| {
            if shared.sent(bytes) {
                losing.send_replace(true);
            }
            true
        },
    );
    let down = copy(
        from_server,
        to_client,
        control.clone(),
        |control| control.chop,
        |bytes| {
            if *lose.borrow() {
                shared.lock().lost += 1;
                return false;
            }
            shared.answered(bytes);
            true
        },
    );
    let both = async { tokio::try_join!(up, down).map(|_| ()) };
    tokio::select! {
        result = both => result,
        _ = control.wait_for(|control| control.life != life) => Ok(()),
    }
}

/// Copies one direction; ends the connection where `passes` says no.
async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut control: watch::Receiver<Control>,
    chop: impl Fn(&Control) -> usize,
    mut passes: impl FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        let piece = &buffer[..read];
        if read == 0 {
            return to.shutdown().await;
        }
        let (delay, most) = match control.wait_for(|control| !control.holding).await {
            Ok(control) => (control.delay, chop(&control)),
            Err(_) => return Ok(()),
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if !passes(piece) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        for part in piece.chunks(most) {
            to.write_all(part).await?;
            if part.len() < piece.len() {
                // Each part leaves for itself, and is read for itself.
                tokio::task::yield_now().await;
            }
        }
    }
}
