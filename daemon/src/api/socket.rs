//! The socket: how it comes to be, who may connect, and the loop that serves connections.
//!
//! Only the holder of the store's lock comes here, so a socket file that nobody answers is left
//! from a daemon that was killed. Anything else at its path is somebody's file and is not touched.

use std::fs;
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tidings_wire::limits;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::io::Watched;
use crate::config::Config;

/// Why there is no socket to listen on.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Something that is no socket stands in its place.
    #[error("{} is {what}, not a socket; move it away or set TIDINGS_SOCKET", .path.display())]
    Occupied {
        /// The path.
        path: PathBuf,
        /// What stands there.
        what: &'static str,
    },
    /// Another daemon answers there.
    #[error("another daemon answers on {}", .path.display())]
    Answered {
        /// The path.
        path: PathBuf,
    },
    /// The directory belongs to somebody else.
    #[error("{} belongs to user {owner}, not to you", .path.display())]
    ForeignDirectory {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// The system refused.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SocketError {
    move |source| SocketError::Io { doing, path: path.to_owned(), source }
}

/// A bound socket. Its file goes with it, unless it came from the service manager.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    /// Path, device and inode of the file that is ours to remove.
    file: Option<(PathBuf, u64, u64)>,
}

impl Socket {
    /// Uses a listener that the service manager bound.
    ///
    /// # Errors
    /// It cannot be made non-blocking.
    pub fn adopt(listener: StdListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener: UnixListener::from_std(listener)?, file: None })
    }

    /// Binds a path. The caller holds the store's lock. Blocks shortly.
    ///
    /// # Errors
    /// See [`SocketError`].
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        if let Some(dir) = path.parent() {
            make_directory(dir)?;
        }
        clear(path)?;
        let listener = StdListener::bind(path).map_err(failed("bind the socket", path))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))
            .map_err(failed("protect the socket", path))?;
        let found = fs::symlink_metadata(path).map_err(failed("look at the socket", path))?;
        listener.set_nonblocking(true).map_err(failed("use the socket", path))?;
        let listener = UnixListener::from_std(listener).map_err(failed("use the socket", path))?;
        Ok(Self { listener, file: Some((path.to_owned(), found.dev(), found.ino())) })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let Some((path, dev, ino)) = &self.file else { return };
        // Another daemon may have put its own there since.
        let ours = fs::symlink_metadata(path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (*dev, *ino));
        if ours {
            let _ = fs::remove_file(path);
        }
    }
}

/// Makes the socket's directory for this user alone, or checks that it is.
fn make_directory(dir: &Path) -> Result<(), SocketError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(failed("make the directory", dir))?;
    let found = fs::metadata(dir).map_err(failed("look at the directory", dir))?;
    let me = rustix::process::geteuid().as_raw();
    if found.uid() != me {
        return Err(SocketError::ForeignDirectory { path: dir.to_owned(), owner: found.uid() });
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
            .map_err(failed("protect the directory", dir))?;
    }
    Ok(())
}

/// Removes the socket of a daemon that was killed.
fn clear(path: &Path) -> Result<(), SocketError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("look at", path)(error)),
    };
    if !found.is_socket() {
        let what = if found.is_dir() {
            "a directory"
        } else if found.is_symlink() {
            "a symbolic link"
        } else {
            "a file"
        };
        return Err(SocketError::Occupied { path: path.to_owned(), what });
    }
    match StdStream::connect(path) {
        Ok(_) => Err(SocketError::Answered { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed("remove the old socket", path))
        }
        Err(error) => Err(failed("connect to", path)(error)),
    }
}

/// Serves connections until `stopping` is cancelled, then lets those that are open finish within
/// the configured time.
pub async fn serve(socket: Socket, router: Router, config: Config, stopping: CancellationToken) {
    let tasks = TaskTracker::new();
    let places = Arc::new(Semaphore::new(config.connections));
    let (closing, cut) = (CancellationToken::new(), CancellationToken::new());
    loop {
        // Waiting for a place before accepting leaves the rest in the system's own queue.
        let accepted = tokio::select! {
            () = stopping.cancelled() => break,
            accepted = accept(&socket.listener, &places) => accepted,
        };
        let Some((stream, place)) = accepted else { continue };
        let serving = connection(stream, router.clone(), config.clone(), closing.clone());
        let cut = cut.clone();
        tasks.spawn(async move {
            cut.run_until_cancelled(serving).await;
            drop(place);
        });
    }
    // No new connections from here on.
    drop(socket);
    closing.cancel();
    tasks.close();
    if timeout(config.drain, tasks.wait()).await.is_err() {
        tracing::warn!(open = tasks.len(), "connections were cut at the end of the drain time");
        cut.cancel();
        tasks.wait().await;
    }
}

type Place = tokio::sync::OwnedSemaphorePermit;

/// The next connection of a peer that is this user.
async fn accept(listener: &UnixListener, places: &Arc<Semaphore>) -> Option<(UnixStream, Place)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    let stream = match listener.accept().await {
        Ok((stream, _)) => stream,
        Err(error) => {
            // Out of descriptors: trying again at once would only spin.
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(Duration::from_millis(50)).await;
            return None;
        }
    };
    let me = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == me => Some((stream, place)),
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), "a connection of another user was closed");
            None
        }
        Err(error) => {
            tracing::warn!(%error, "a connection of nobody was closed");
            None
        }
    }
}

async fn connection(
    stream: UnixStream,
    router: Router,
    config: Config,
    closing: CancellationToken,
) {
    let io = TokioIo::new(Watched::new(stream, config.write_stall));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(config.header_timeout)
        .max_headers(limits::REQUEST_HEADERS)
        .max_buf_size(limits::REQUEST_HEAD)
        .half_close(false);
    let connection = http.serve_connection(io, TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closing.cancelled() => {
            // Finishes what is being answered and takes nothing more.
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_gives_way_and_nothing_else_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/tidings.sock");
        let first = Socket::bind(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert!(matches!(Socket::bind(&path), Err(SocketError::Answered { .. })));
        drop(first);
        assert!(!path.exists());

        // As kill -9 leaves it: the file without a listener.
        drop(StdListener::bind(&path).unwrap());
        assert!(path.exists());
        let again = Socket::bind(&path).unwrap();

        // Replaced by another's: left alone at the end.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        drop(again);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        let refused = Socket::bind(&path).unwrap_err().to_string();
        assert!(refused.contains("is a file, not a socket"), "{refused}");
        assert!(refused.contains(path.to_str().unwrap()));
        assert_eq!(fs::read(&path).unwrap(), b"precious");

        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(Socket::bind(&path).unwrap_err().to_string().contains("is a directory"));
        fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink("/nowhere", &path).unwrap();
        assert!(Socket::bind(&path).unwrap_err().to_string().contains("is a symbolic link"));
    }

    #[tokio::test]
    async fn a_path_that_is_too_long_is_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let short = dir.path().as_os_str().len() + 1;
        let fits = dir.path().join("s".repeat(107 - short));
        assert_eq!(fits.as_os_str().len(), 107);
        Socket::bind(&fits).unwrap();
        let long = dir.path().join("s".repeat(108 - short));
        let refused = Socket::bind(&long).unwrap_err().to_string();
        assert!(refused.contains("bind the socket"), "{refused}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing half-made stays");
    }
}
