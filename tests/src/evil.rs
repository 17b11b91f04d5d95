//! An evil server: a real one behind a mutator that ends HTTP and does to every exchange what a
//! test's script says: drop, swap, replay, forge, rewrite, delay, cut.
//!
//! Each device of a test may be led to an evil server of its own over one real server, so that
//! two devices can be shown two histories. Everything that devices sent is kept: it is what a
//! server that works against its users would know of them.

mod answer;
mod asked;
mod script;
mod serve;

pub use answer::Answer;
pub use asked::Asked;
pub use script::{Script, Turn};

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::serve::Upstream;

/// A running evil server. Dropping it ends it and all its connections.
#[derive(Debug)]
pub struct Evil {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    client: Client<HttpConnector, Upstream>,
    script: Mutex<Arc<Script>>,
    /// Rises with each script; a stream of an older life ends.
    life: watch::Sender<u64>,
    asked: Mutex<Vec<Asked>>,
}

impl Evil {
    /// Listens on a free port before a server, honest for now.
    ///
    /// # Panics
    /// There is no free port.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            upstream,
            client: Client::builder(TokioExecutor::new()).build_http(),
            script: Mutex::default(),
            life: watch::Sender::new(0),
            asked: Mutex::default(),
        });
        #[expect(clippy::disallowed_methods, reason = "the evil server owns and aborts this task")]
        let task = tokio::spawn(serve::accept(listener, Arc::clone(&shared)));
        Self { address, shared, task }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Acts by a script from now on. Streams of changes end, so that devices open them anew.
    pub fn play(&self, script: Script) {
        *lock(&self.shared.script) = Arc::new(script);
        self.shared.life.send_modify(|life| *life += 1);
    }

    /// Passes everything on from now on, as it is.
    pub fn turn_honest(&self) {
        self.play(Script::new());
    }

    /// Everything that was asked since the start.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.shared.asked).clone()
    }

    /// How much was asked since the start: a mark for [`Evil::asked_since`].
    pub fn mark(&self) -> usize {
        lock(&self.shared.asked).len()
    }

    /// What was asked since a mark.
    pub fn asked_since(&self, mark: usize) -> Vec<Asked> {
        lock(&self.shared.asked).iter().skip(mark).cloned().collect()
    }
}

impl Drop for Evil {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
