//! The socket of a running server: only the user who runs it (and root) may speak to it.

use std::convert::Infallible;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{self, Request, State};
use axum::response::Response;
use axum::routing::{delete, get};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::operations::{self, CreateInvite};
use super::reach::{PATH, Reach};
use crate::failure::{self, Answer};
use crate::routes::{Call, json};
use crate::state::Shared;
use crate::store::Refusal;

/// Why the socket cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The path is longer than a socket's may be.
    #[error(
        "the path of the admin socket, {}, has {} bytes, more than {PATH}: set admin_socket to a \
         shorter one", .0.display(), .0.as_os_str().len()
    )]
    TooLong(PathBuf),
    /// Something else stands at the path.
    #[error("{} is not a socket; it is left as it is: set admin_socket to another path", .0.display())]
    NotASocket(PathBuf),
    /// A server listens there.
    #[error("another server listens on {}", .0.display())]
    InUse(PathBuf),
    /// The operating system refused.
    #[error("cannot make the admin socket {}: {source}", .path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// A bound socket; its file goes with it.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Binds. A stale socket is replaced, anything else is left alone.
    ///
    /// # Errors
    /// [`AdminError`].
    pub fn bind(path: &Path) -> Result<Self, AdminError> {
        let io = |source| AdminError::Io { path: path.to_owned(), source };
        let reach = Reach::new(path).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidFilename => AdminError::TooLong(path.to_owned()),
            _ => io(error),
        })?;
        match std::fs::symlink_metadata(path) {
            Ok(meta) if meta.file_type().is_socket() => {
                // The store's lock is held by us, but the path may be somebody else's.
                if std::os::unix::net::UnixStream::connect(&reach.path).is_ok() {
                    return Err(AdminError::InUse(path.to_owned()));
                }
                std::fs::remove_file(path).map_err(io)?;
            }
            Ok(_) => return Err(AdminError::NotASocket(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io(error)),
        }
        let listener = UnixListener::bind(&reach.path).map_err(io)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(io)?;
        Ok(Self { listener, path: path.to_owned() })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, "the admin socket's file stays");
        }
    }
}

/// Serves the socket until the server stops.
pub async fn serve(socket: Socket, shared: Arc<Shared>) {
    let connections = TaskTracker::new();
    let stopping = shared.stopping.clone();
    let router = Router::new()
        .route("/invites", get(list).post(create))
        .route("/invites/{which}", delete(revoke))
        .route("/server", get(facts))
        .route("/compact", get(room).post(compact))
        .fallback(failure::no_route)
        .method_not_allowed_fallback(failure::no_method)
        .with_state(shared);
    loop {
        let accepted = tokio::select! {
            accepted = socket.listener.accept() => accepted,
            () = stopping.cancelled() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let router = router.clone();
                connections.spawn(async move { connection(stream, router).await });
            }
            Err(error) => {
                tracing::warn!(%error, "the admin socket cannot accept now");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
    connections.close();
    connections.wait().await;
}

async fn connection(stream: UnixStream, router: Router) {
    let own = rustix::process::geteuid().as_raw();
    // Between bind and chmod others may have connected.
    let allowed = stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0);
    if !allowed {
        tracing::warn!("another user tried the admin socket");
        return;
    }
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let router = router.clone();
        async move {
            let response: Response = match router.oneshot(request.map(Body::new)).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            Ok::<_, Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(std::time::Duration::from_secs(10))
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "admin connection ended");
    }
}

async fn create(State(shared): State<Arc<Shared>>, request: Request) -> Answer<Response> {
    let asked: CreateInvite = Call::new(&shared, request).json(&shared).await?;
    json(&operations::create(&*shared.store, &shared.url(), asked).await?)
}

async fn list(State(shared): State<Arc<Shared>>) -> Answer<Response> {
    json(&operations::list(&*shared.store).await?)
}

async fn revoke(
    State(shared): State<Arc<Shared>>,
    extract::Path(which): extract::Path<String>,
) -> Answer<Response> {
    json(&operations::revoke(&*shared.store, &which).await?)
}

async fn facts(State(shared): State<Arc<Shared>>) -> Answer<Response> {
    let streams = shared.hub.open_streams();
    json(&operations::facts(&*shared.store, &shared.url(), streams))
}

async fn compact(State(shared): State<Arc<Shared>>) -> Answer<Response> {
    tokio::select! {
        done = shared.store.compact() => json(&done?),
        // The store gives it up when it is closed.
        () = shared.stopping.cancelled() => {
            Err(Refusal::NotCompacted("the server stops".to_owned()).into())
        }
    }
}

async fn room(State(shared): State<Arc<Shared>>) -> Answer<Response> {
    json(&shared.store.room().await?)
}
