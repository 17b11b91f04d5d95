//! The daemon as a library: everything it consists of, started in order and stopped in order.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::gate::OwnerToken;
use crate::api::socket::{self, Socket, SocketError};
use crate::api::{Api, account};
use crate::clock::Clock;
use crate::config::{Config, ConfigError, RawConfig};
use crate::disk;
use crate::files;
use crate::home::{Home, HomeError};
use crate::replica::Replica;
use crate::replica::log;
use crate::status::Status;
use crate::store::{CommitError, ErrorKind, Store, StoreError};
use crate::sync::{Settings, Sync};
use crate::vault::{Keystore, Vault};
use tidings_wire::local::SyncState;

/// What a start needs to know.
#[derive(Debug)]
pub struct Options {
    /// Where it keeps its things.
    pub home: Home,
    /// Settings over those of the home's file, such as the command line's.
    pub config: RawConfig,
    /// The clocks.
    pub clock: Clock,
    /// The socket, if the service manager bound it.
    pub listener: Option<UnixListener>,
}

impl Options {
    /// A start in a home with nothing else said.
    pub fn new(home: Home) -> Self {
        Self { home, config: RawConfig::default(), clock: Clock::system(), listener: None }
    }
}

/// Why a daemon does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is one for this home already; it was not disturbed.
    #[error("already running{}, socket {}", pid_text(*.pid), .socket.display())]
    AlreadyRunning {
        /// Its process, as it wrote it down.
        pid: Option<u32>,
        /// Its socket.
        socket: PathBuf,
    },
    /// The home.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The settings.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The owner's token.
    #[error("cannot use the owner's token: {0}")]
    Token(std::io::Error),
    /// The socket that the service manager passed.
    #[error("cannot use the socket that was passed: {0}")]
    Passed(std::io::Error),
    /// A fault of this program.
    #[error("a fault while starting: {0}")]
    Fault(String),
}

fn pid_text(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(", pid {pid}"))
}

impl StartError {
    /// The process's exit code: 0 where a daemon runs already, 78 where a restart cannot help,
    /// else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::AlreadyRunning { .. } => 0,
            Self::Store(error) => match error.kind() {
                ErrorKind::Refused | ErrorKind::Damaged => 78,
                ErrorKind::Retry | ErrorKind::Misuse => 1,
            },
            Self::Config(_)
            | Self::Home(HomeError::Foreign { .. })
            | Self::Socket(SocketError::Occupied { .. } | SocketError::ForeignDirectory { .. }) => {
                78
            }
            Self::Socket(SocketError::Io { source, .. }) | Self::Token(source)
                if is_forbidden(source) =>
            {
                78
            }
            _ => 1,
        }
    }
}

/// Whether the system will say no again: rights that are missing, a file system that is read-only.
fn is_forbidden(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as Kind;
    matches!(error.kind(), Kind::PermissionDenied | Kind::ReadOnlyFilesystem | Kind::NotADirectory)
}

impl From<CommitError<StoreError>> for StartError {
    fn from(error: CommitError<StoreError>) -> Self {
        match error {
            CommitError::Job(error) | CommitError::Store(error) => Self::Store(error),
            CommitError::Panicked(what) => Self::Fault(what),
        }
    }
}

/// How a daemon that ran came to its end.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The disk failed: only a new start knows what is on it.
    #[error("the store stopped: {0}")]
    StoreFailed(StoreError),
    /// It could not be closed in order.
    #[error("the store was not closed in order: {0}")]
    NotClosed(String),
}

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    socket: PathBuf,
    token: String,
    /// Asks this daemon to stop.
    shutdown: CancellationToken,
    /// Stops what apps use: the socket, streams, trimming.
    serving: Stage,
    /// Stops what talks to the server.
    syncing: Stage,
    replica: Replica,
    status: Status,
    drain: Duration,
}

/// Tasks that stop together.
#[derive(Debug, Clone, Default)]
struct Stage {
    stopping: CancellationToken,
    tasks: TaskTracker,
}

impl Stage {
    /// Stops the tasks; those that take longer are left behind.
    async fn stop(&self, what: &str, limit: Duration) {
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(limit, self.tasks.wait()).await.is_err() {
            tracing::warn!(open = self.tasks.len(), "{what} did not stop in time");
        }
    }
}

/// A home that is open, before anything runs.
struct Opened {
    config: Config,
    token: OwnerToken,
    replica: Replica,
    status: Status,
    socket: Socket,
}

impl Daemon {
    /// Opens the home and starts serving. When `shutdown` is cancelled, [`Daemon::run`] stops
    /// everything in order.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running then, and no file half made.
    pub async fn start(options: Options, shutdown: CancellationToken) -> Result<Self, StartError> {
        let home = options.home.clone();
        let failed = shutdown.clone();
        let opening = tokio::task::spawn_blocking(move || open(options, failed));
        let opened = opening.await.map_err(|error| StartError::Fault(error.to_string()))??;
        let Opened { mut config, token, replica, status, socket } = opened;
        config.connections = config.connections.min(files::raise_limit());

        let (serving, syncing) = (Stage::default(), Stage::default());
        let owner = token.reveal().to_owned();
        let api = Api::new(
            replica.clone(),
            token,
            status.clone(),
            config.clone(),
            serving.stopping.clone(),
        );
        let keystore = Keystore::new(home.keys(), &replica.store().id());
        let vault = Vault::new(replica.store().clone(), keystore);
        let (sync, driver) =
            Sync::new(replica.clone(), vault, status.clone(), Settings::from(&config));
        let router = api.router(account::router(api.clone(), sync, syncing.tasks.clone()));
        // Until the driver knows better.
        status.set_state(SyncState::Local, None);
        syncing.tasks.spawn(driver.run(syncing.stopping.clone()));
        let stopping = &serving.stopping;
        serving.tasks.spawn(socket::serve(socket, router, config.clone(), stopping.clone()));
        let (store, clock) = (replica.store().clone(), replica.clock().clone());
        serving.tasks.spawn(disk::follow(store, status.clone(), clock, stopping.clone()));
        let trimming = trim(replica.clone(), status.clone(), config.clone(), stopping.clone());
        serving.tasks.spawn(trimming);
        Ok(Self {
            socket: home.socket().to_owned(),
            token: owner,
            shutdown,
            serving,
            syncing,
            replica,
            status,
            drain: config.drain,
        })
    }

    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The owner's token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The status.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Waits for the shutdown and carries it out: streams are told, requests finish, the sync
    /// side stops, the store closes.
    ///
    /// # Errors
    /// [`StopError`]; what was acknowledged is safe.
    pub async fn run(self) -> Result<(), StopError> {
        self.shutdown.cancelled().await;
        // A little more than the connections' own drain time.
        const MARGIN: Duration = Duration::from_secs(2);
        self.serving.stop("the local API", self.drain + MARGIN).await;
        self.syncing.stop("the sync", MARGIN + MARGIN).await;
        let failure = self.replica.store().failure();
        let replica = self.replica;
        let closed = tokio::task::spawn_blocking(move || replica.close()).await;
        if let Some(failure) = failure {
            return Err(StopError::StoreFailed(failure));
        }
        match closed {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(StopError::NotClosed(error.to_string())),
            Err(error) => Err(StopError::NotClosed(error.to_string())),
        }
    }
}

/// Opens everything that lies on the disk. Blocks; takes back the lock if anything fails.
fn open(options: Options, failed: CancellationToken) -> Result<Opened, StartError> {
    let Options { home, config, clock, listener } = options;
    home.create()?;
    // The lock comes first: whoever does not get it has touched nothing.
    let store = Store::open(&home.store(), move |_| failed.cancel());
    let store = store.map_err(|error| match error {
        StoreError::Held { pid, .. } => {
            StartError::AlreadyRunning { pid, socket: home.socket().to_owned() }
        }
        error => StartError::Store(error),
    })?;
    let opened = open_over(&store, &home, config, clock, listener);
    if opened.is_err() {
        let _ = store.close();
    }
    opened
}

fn open_over(
    store: &Store,
    home: &Home,
    config: RawConfig,
    clock: Clock,
    listener: Option<UnixListener>,
) -> Result<Opened, StartError> {
    let config = settings(home, config)?;
    let token = OwnerToken::open(home.data()).map_err(StartError::Token)?;
    let status = Status::new(store.id());
    let replica = Replica::open(store.clone(), clock, status.clone())?;
    let entries = config.log_entries as u64;
    replica.limit_logs(log::Limits { entries, bytes: config.log_bytes });
    let socket = match listener {
        Some(listener) => Socket::adopt(listener).map_err(StartError::Passed)?,
        None => Socket::bind(home.socket())?,
    };
    Ok(Opened { config, token, replica, status, socket })
}

/// The settings of a home: its file, the environment, then what was said at the start.
fn settings(home: &Home, over: RawConfig) -> Result<Config, ConfigError> {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    RawConfig::default().file(&home.config())?.environment(variables).over(over).resolve()
}

/// Takes old changes out of the logs of apps that grew, at start and then at most once per
/// interval. Their count and size are bounded by the writes themselves.
async fn trim(replica: Replica, status: Status, config: Config, stopping: CancellationToken) {
    let mut follower = status.follow();
    loop {
        let apps: Vec<_> =
            follower.borrow_and_update().apps.iter().map(|app| app.id.clone()).collect();
        for app in apps {
            if let Err(error) = trim_app(&replica, &app, &config, &stopping).await {
                tracing::warn!(%app, %error, "the log could not be trimmed");
            }
        }
        // Only writes make a log longer: without any there is nothing to wake up for.
        tokio::select! {
            () = stopping.cancelled() => return,
            changed = follower.changed() => if changed.is_err() { return },
        }
        tokio::select! {
            () = stopping.cancelled() => return,
            () = tokio::time::sleep(config.log_trim) => {}
        }
    }
}

async fn trim_app(
    replica: &Replica,
    app: &tidings_wire::AppId,
    config: &Config,
    stopping: &CancellationToken,
) -> Result<(), CommitError<StoreError>> {
    let age = i64::try_from(config.log_age.as_millis()).unwrap_or(i64::MAX);
    let since = replica.clock().now().saturating_sub(age);
    while !stopping.is_cancelled() && replica.trim(app, since).await? {}
    Ok(())
}
