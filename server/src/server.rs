//! A running server: put together from a configuration and a bound listener, stopped in order.
//!
//! Everything comes in as arguments (configuration, listener, shutdown) and every task has an
//! owner, so that tests bind port 0 and own the end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidings_kv::StoreError;
use tidings_wire::ServerId;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::admin;
use crate::config::{Config, ConfigError, Layers};
use crate::hub::{Hub, Settings};
use crate::net::{self, Accept, TlsError, TlsFiles, raise_limit};
use crate::routes;
use crate::state::Shared;
use crate::store::kv::{KvStore, OpenError, Start};
use crate::store::{Refusal, SharedStore};

/// Why a server does not start or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// The system's answer.
        source: std::io::Error,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The admin socket cannot be made.
    #[error(transparent)]
    Admin(#[from] admin::AdminError),
    /// The store stopped after a failed write. What was acknowledged is safe; a restart reads
    /// what is on the disk.
    #[error("the store stopped: {0}")]
    Stopped(StoreError),
    /// The store could not be closed in order.
    #[error("the store was not closed in order: {0}")]
    Close(Refusal),
    /// Another fault of the operating system.
    #[error("{doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl ServerError {
    /// Whether starting again would change nothing before a person acts.
    pub fn needs_person(&self) -> bool {
        match self {
            Self::Open(error) => error.needs_person(),
            Self::Config(_) | Self::Tls(_) => true,
            Self::Admin(error) => !matches!(error, admin::AdminError::Io { .. }),
            Self::Listen { .. } | Self::Stopped(_) | Self::Close(_) | Self::Io { .. } => false,
        }
    }
}

/// A running server.
pub struct Server {
    shared: Arc<Shared>,
    stop: CancellationToken,
    kill: CancellationToken,
    failed: tokio::sync::watch::Receiver<Option<StoreError>>,
    tasks: JoinSet<()>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.shared.address).finish_non_exhaustive()
    }
}

/// How often rate limits forget who has not called.
const TIDY: Duration = Duration::from_secs(60);

impl Server {
    /// Binds the configured address and starts.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn bind(config: Config) -> Result<Self, ServerError> {
        let address = config.listen;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ServerError::Listen { address, source })?;
        Self::start(config, listener).await
    }

    /// Starts on a listener that is bound already.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn start(config: Config, listener: TcpListener) -> Result<Self, ServerError> {
        let io = |doing| move |source| ServerError::Io { doing, source };
        let address = listener.local_addr().map_err(io("read the address"))?;
        let (failing, failed) = tokio::sync::watch::channel(None);
        let location = config.store.clone();
        let opening = tokio::task::spawn_blocking(move || {
            let on_failure = move |error: &StoreError| {
                failing.send_replace(Some(error.clone()));
            };
            KvStore::open(&location, Start::Serve, Some(Arc::new(on_failure)))
        });
        let opened = opening.await.map_err(|error| ServerError::Io {
            doing: "open the store",
            source: std::io::Error::other(error),
        })?;
        let store: SharedStore = Arc::new(opened?);
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        let streams = &config.streams;
        let hub = Hub::start(Settings {
            per_channel: streams.per_app,
            per_account: streams.per_account,
            pending: streams.pending,
            keepalive: streams.keepalive,
            closing_retry: streams.closing_retry,
        });
        let hub = hub.map_err(io("start the threads of the streams"))?;
        let shared = Shared::new(config, address, store, hub, stop.clone());
        let config = &shared.config;
        let mut tasks = JoinSet::new();
        let tls = match &config.tls {
            None => None,
            Some(files) => {
                let reload = files.reload;
                let files = TlsFiles::load(files.cert.clone(), files.key.clone())?;
                let tls = files.config()?;
                let stop = stop.clone();
                tasks.spawn(async move {
                    while timeout(reload, stop.cancelled()).await.is_err() {
                        files.refresh();
                    }
                });
                Some(tls)
            }
        };
        if let Some(path) = &config.admin_socket {
            let socket = admin::Socket::bind(path)?;
            tasks.spawn(admin::serve(socket, shared.clone()));
        }
        let files = raise_limit();
        let accept = Accept {
            router: routes::router(shared.clone()),
            tls,
            timeouts: config.timeouts.clone(),
            most: config.limits.connections.min(files.connections),
            most_per_address: config.limits.connections_per_address,
            trusted_proxies: config.trusted_proxies.clone(),
            stopping: stop.clone(),
            kill: kill.clone(),
        };
        tasks.spawn(net::serve(listener, accept));
        let tidying = shared.clone();
        tasks.spawn(async move {
            while timeout(TIDY, tidying.stopping.cancelled()).await.is_err() {
                tidying.rates.tidy();
                tidying.pulls.tidy();
            }
        });
        Ok(Self { shared, stop, kill, failed, tasks })
    }

    /// The address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// The URL of the server.
    pub fn url(&self) -> String {
        self.shared.url()
    }

    /// The server's id.
    pub fn server_id(&self) -> ServerId {
        self.shared.identity.server()
    }

    /// The parts, for tests that look inside.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Ends when the store stopped after a failed write.
    pub async fn failure(&mut self) -> StoreError {
        loop {
            if let Some(error) = self.failed.borrow_and_update().clone() {
                return error;
            }
            if self.failed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Stops in order: no new connections, a last frame on every stream, requests in progress get
    /// the time that the configuration gives them, writes that were begun are finished, and the
    /// store is closed.
    ///
    /// # Errors
    /// [`ServerError::Close`], [`ServerError::Stopped`].
    pub async fn stop(mut self) -> Result<(), ServerError> {
        let drain = self.shared.config.timeouts.drain;
        self.stop.cancel();
        self.shared.hub.close();
        let kill = self.kill.clone();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        tokio::select! {
            () = all => {}
            () = sleep(drain) => {
                tracing::warn!("requests were still in progress at the deadline");
                kill.cancel();
                self.tasks.shutdown().await;
            }
        }
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.shared.store.close().await.map_err(ServerError::Close)?;
        let failed = self.failed.borrow().clone();
        failed.map_or(Ok(()), |error| Err(ServerError::Stopped(error)))
    }
}

/// Resolves a configuration of defaults and a few values, for tests and embedding.
///
/// # Errors
/// [`ConfigError`].
pub fn config_with(values: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let mut layers = Layers::new();
    for (name, value) in values {
        layers.set(name, *value, crate::config::Origin::Flag("set".to_owned()))?;
    }
    Config::resolve(&layers)
}
