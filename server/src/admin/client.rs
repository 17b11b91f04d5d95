//! The operator's side: the socket of a running server if there is one, else the store itself.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{Method, Request};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidings_wire::{ProblemBody, limits};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use super::operations::{
    self, CreateInvite, CreatedInvite, ListedInvite, RevokedInvites, ServerFacts,
};
use super::reach::Reach;
use crate::config::{Config, StoreLocation};
use crate::failure::Failure;
use crate::store::kv::{KvStore, OpenError, Start};
use crate::store::{Compacted, Room, Store};

/// Why an operator's verb fails.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// The store does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A store in memory lives in its server alone.
    #[error(
        "the store is in memory and no server with an admin socket runs: set admin_socket and start one"
    )]
    Memory,
    /// The socket failed.
    #[error("the admin socket {} does not answer: {reason}", .path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The verb was refused.
    #[error("{0}")]
    Refused(String),
}

impl OperatorError {
    /// Whether starting again would change nothing before a person acts.
    pub fn needs_person(&self) -> bool {
        matches!(self, Self::Open(error) if error.needs_person())
    }

    fn refused(failure: &Failure) -> Self {
        let problem = serde_json::from_slice::<ProblemBody>(&failure.body());
        Self::Refused(
            problem.map_or_else(|_| failure.code().to_string(), |body| body.error.message),
        )
    }
}

/// A way to a server's store.
#[derive(Debug)]
pub enum Operator {
    /// A running server's socket.
    Running(PathBuf),
    /// The store itself.
    Store(Box<KvStore>, String),
}

impl Operator {
    /// Finds the way.
    ///
    /// # Errors
    /// [`OperatorError`].
    pub async fn find(config: &Config) -> Result<Self, OperatorError> {
        if let Some(path) = &config.admin_socket {
            match connect(path).await {
                Ok(_) => return Ok(Self::Running(path.clone())),
                Err(error) if is_nobody(&error) => {}
                Err(error) => return Err(socket(path, error)),
            }
        }
        if config.store == StoreLocation::Memory {
            return Err(OperatorError::Memory);
        }
        let store = KvStore::open(&config.store, Start::Command, None)?;
        Ok(Self::Store(Box::new(store), config.url(config.listen)))
    }

    /// Makes an invite.
    ///
    /// # Errors
    /// [`OperatorError`].
    pub async fn create_invite(&self, asked: CreateInvite) -> Result<CreatedInvite, OperatorError> {
        match self {
            Self::Running(path) => call(path, Method::POST, "/invites", &asked).await,
            Self::Store(store, url) => answer(operations::create(&**store, url, asked).await),
        }
    }

    /// Lists invites.
    ///
    /// # Errors
    /// [`OperatorError`].
    pub async fn invites(&self) -> Result<Vec<ListedInvite>, OperatorError> {
        match self {
            Self::Running(path) => call(path, Method::GET, "/invites", &()).await,
            Self::Store(store, _) => answer(operations::list(&**store).await),
        }
    }

    /// Revokes an invite by its id or code.
    ///
    /// # Errors
    /// [`OperatorError`].
    pub async fn revoke_invite(&self, which: &str) -> Result<RevokedInvites, OperatorError> {
        match self {
            Self::Running(path) => {
                let plain: String = which.chars().filter(char::is_ascii_alphanumeric).collect();
                call(path, Method::DELETE, &format!("/invites/{plain}"), &()).await
            }
            Self::Store(store, _) => answer(operations::revoke(&**store, which).await),
        }
    }

    /// What the server is.
    ///
    /// # Errors
    /// [`OperatorError`].
    pub async fn facts(&self) -> Result<ServerFacts, OperatorError> {
        match self {
            Self::Running(path) => call(path, Method::GET, "/server", &()).await,
            Self::Store(store, url) => Ok(operations::facts(&**store, url, 0)),
        }
    }

    /// Gives space back to the disk; `progress` hears of the room every now and then.
    ///
    /// # Errors
    /// [`OperatorError`].
    pub async fn compact(
        &self,
        mut progress: impl FnMut(Room),
    ) -> Result<Compacted, OperatorError> {
        let mut work = std::pin::pin!(async {
            match self {
                Self::Running(path) => call(path, Method::POST, "/compact", &()).await,
                Self::Store(store, _) => answer(store.compact().await.map_err(Failure::from)),
            }
        });
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(PROGRESS) => {}
            }
            // On redb the answer waits for the compaction, which must not wait for the answer.
            tokio::select! {
                done = &mut work => return done,
                room = self.room() => if let Ok(room) = room { progress(room) },
            }
        }
    }

    /// The room that the store takes.
    ///
    /// # Errors
    /// [`OperatorError`].
    pub async fn room(&self) -> Result<Room, OperatorError> {
        match self {
            Self::Running(path) => call(path, Method::GET, "/compact", &()).await,
            Self::Store(store, _) => answer(store.room().await.map_err(Failure::from)),
        }
    }

    /// Lets go of the store, if it was opened.
    ///
    /// # Errors
    /// [`OperatorError`].
    pub async fn close(self) -> Result<(), OperatorError> {
        match self {
            Self::Running(_) => Ok(()),
            Self::Store(store, _) => {
                store.close().await.map_err(|error| OperatorError::Refused(error.to_string()))
            }
        }
    }
}

/// How often an operator hears of the progress.
const PROGRESS: Duration = Duration::from_millis(500);

async fn connect(path: &Path) -> io::Result<UnixStream> {
    let reach = Reach::new(path)?;
    UnixStream::connect(&reach.path).await
}

/// Nobody listens: no file, or one that a killed server left.
fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn socket(path: &Path, reason: impl std::fmt::Display) -> OperatorError {
    OperatorError::Socket { path: path.to_owned(), reason: reason.to_string() }
}

fn answer<T>(answer: Result<T, Failure>) -> Result<T, OperatorError> {
    answer.map_err(|failure| OperatorError::refused(&failure))
}

/// One call over the socket.
async fn call<T: DeserializeOwned>(
    path: &Path,
    method: Method,
    route: &str,
    body: &impl Serialize,
) -> Result<T, OperatorError> {
    let stream = connect(path).await.map_err(|error| socket(path, error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| socket(path, error))?;
    let mut connections = JoinSet::new();
    connections.spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "admin connection ended");
        }
    });
    let json = serde_json::to_vec(body).map_err(|error| socket(path, error))?;
    let has_body = method == Method::POST;
    let request = Request::builder()
        .method(method)
        .uri(route)
        .header(http::header::HOST, "localhost")
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Full::new(bytes::Bytes::from(if has_body { json } else { Vec::new() })))
        .map_err(|error| socket(path, error))?;
    let response = sender.send_request(request).await.map_err(|error| socket(path, error))?;
    let succeeded = response.status().is_success();
    let body = Limited::new(response.into_body(), limits::JSON_RESPONSE).collect().await;
    let body = body.map_err(|error| socket(path, error))?.to_bytes();
    if succeeded {
        return serde_json::from_slice(&body).map_err(|error| socket(path, error));
    }
    let problem: ProblemBody =
        serde_json::from_slice(&body).map_err(|error| socket(path, error))?;
    Err(OperatorError::Refused(problem.error.message))
}
