//! The accept loop: limits before work, no spinning when files run out, an orderly end.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use rustls::ServerConfig;
use tidings_wire::Code;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection;
use crate::config::{Network, Timeouts};
use crate::failure::Failure;
use crate::rates::network_of;

/// What the accept loop needs.
#[derive(Clone)]
pub struct Accept {
    /// The routes.
    pub router: Router,
    /// TLS, unless connections are plain.
    pub tls: Option<Arc<ServerConfig>>,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Most connections.
    pub most: usize,
    /// Most connections of one address.
    pub most_per_address: usize,
    /// Addresses that stand for many clients and are not counted.
    pub trusted_proxies: Vec<Network>,
    /// Set when the server begins to stop.
    pub stopping: CancellationToken,
    /// Set when it does not wait any longer.
    pub kill: CancellationToken,
}

/// How long to wait after `accept` failed for want of files or memory.
const BACKOFF: Duration = Duration::from_millis(50);

/// Accepts until the server stops, then waits for the connections to end.
pub async fn serve(listener: TcpListener, accept: Accept) {
    let connections = TaskTracker::new();
    let open = Arc::new(Open::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = accept.stopping.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections now");
                sleep(BACKOFF).await;
                continue;
            }
        };
        let Some(entered) = open.enter(&accept, peer.ip()) else {
            refuse(&stream, accept.tls.is_some());
            continue;
        };
        let accept = accept.clone();
        connections.spawn(async move {
            let kill = accept.kill.clone();
            tokio::select! {
                () = handle(stream, peer, accept, entered) => {}
                () = kill.cancelled() => {}
            }
        });
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn handle(stream: TcpStream, peer: SocketAddr, accept: Accept, entered: Entered) {
    // Frames of streams are small and should leave at once.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "no TCP_NODELAY");
    }
    // A peer that vanished answers nothing: small writes to it would be kept for a quarter hour.
    #[cfg(target_os = "linux")]
    {
        let stall = accept.timeouts.write_stall.as_millis();
        let stall = u32::try_from(stall).unwrap_or(u32::MAX);
        if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(&stream, stall) {
            tracing::debug!(%peer, %error, "no TCP_USER_TIMEOUT");
        }
    }
    let (router, ip, stopping) = (accept.router, peer.ip(), accept.stopping);
    let Some(tls) = accept.tls else {
        return connection::serve(stream, ip, router, &accept.timeouts, stopping, entered).await;
    };
    match timeout(accept.timeouts.tls_handshake, TlsAcceptor::from(tls).accept(stream)).await {
        Ok(Ok(stream)) => {
            connection::serve(stream, ip, router, &accept.timeouts, stopping, entered).await;
        }
        Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
        Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
    }
}

/// Errors of `accept` that belong to the connection, not to the listener (accept(2)).
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionAborted | Kind::ConnectionReset | Kind::Interrupted | Kind::WouldBlock
    )
}

/// Tells a plain client why, if its socket takes it at once. In TLS nothing can be said before a
/// handshake, which is what there is no room for.
fn refuse(stream: &TcpStream, tls: bool) {
    if tls {
        return;
    }
    let failure =
        Failure::new(Code::Unavailable, "the server has too many connections").retry_after(10);
    let body = failure.body();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nretry-after: 10\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let mut answer = head.into_bytes();
    answer.extend_from_slice(&body);
    if let Err(error) = stream.try_write(&answer) {
        tracing::debug!(%error, "a refused connection was not told why");
    }
}

/// The open connections, counted.
#[derive(Debug, Default)]
struct Open {
    all: AtomicUsize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

/// One open connection; parked ones are open too. Dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct Entered {
    open: Arc<Open>,
    /// Under which address it counts.
    address: Option<IpAddr>,
}

#[cfg(test)]
impl Entered {
    /// The only connection of a server that does not exist.
    pub(super) fn alone() -> Self {
        Self { open: Arc::default(), address: None }
    }
}

impl Open {
    fn enter(self: &Arc<Self>, accept: &Accept, peer: IpAddr) -> Option<Entered> {
        if self.all.load(Ordering::Relaxed) >= accept.most {
            return None;
        }
        let proxy = accept.trusted_proxies.iter().any(|network| network.contains(peer));
        let address = (!proxy).then(|| network_of(peer));
        if let Some(address) = address {
            let mut by_address = self.lock();
            let count = by_address.entry(address).or_default();
            if *count >= accept.most_per_address {
                return None;
            }
            *count += 1;
        }
        self.all.fetch_add(1, Ordering::Relaxed);
        Some(Entered { open: self.clone(), address })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.open.all.fetch_sub(1, Ordering::Relaxed);
        let Some(address) = self.address else { return };
        let mut by_address = self.open.lock();
        if let Some(count) = by_address.get_mut(&address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                by_address.remove(&address);
            }
        }
    }
}
