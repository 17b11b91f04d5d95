//! A real `tidings-server` on a free port, with a store of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tidings_client::remote::{Config, SyncClient};

use crate::process::{Process, command};
use crate::programs;
use crate::wait::DEADLINE;

/// A server. It keeps its port and its store over restarts.
#[derive(Debug)]
pub struct Server {
    dir: TempDir,
    engine: &'static str,
    settings: Vec<String>,
    address: SocketAddr,
    process: Option<Process>,
}

/// Settings that make tests short where operators are patient: devices come back at once.
const QUICK: [&str; 2] = ["stream.retry=100ms", "stream.closing_retry=100ms"];

impl Server {
    /// Starts a server over sled where anybody may make an account.
    ///
    /// # Panics
    /// It does not start.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// The same with settings, each `KEY=VALUE`.
    ///
    /// # Panics
    /// It does not start.
    pub fn with(settings: &[&str]) -> Self {
        Self::over("sled", settings)
    }

    /// The same over an engine: `sled` or `redb`.
    ///
    /// # Panics
    /// It does not start.
    pub fn over(engine: &'static str, settings: &[&str]) -> Self {
        let dir = tempfile::Builder::new().prefix("tidings-server-").tempdir();
        let mut server = Self {
            dir: dir.expect("a directory"),
            engine,
            settings: QUICK.iter().chain(settings).map(|&setting| setting.to_owned()).collect(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            process: None,
        };
        server.resume();
        server
    }

    /// The command that runs a verb on this server's store.
    pub fn command(&self, verb: &[&str]) -> Command {
        let mut command = command(programs::tidings_server());
        command.args(verb).args(["--store", &self.store()]);
        command.env("HOME", self.dir.path()).args(["--set", "registration=open"]);
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        command
    }

    /// Starts it again on the same port and store.
    ///
    /// # Panics
    /// It runs already, or does not start.
    pub fn resume(&mut self) {
        self.resume_with(|_| {});
    }

    /// The same; `prepare` may change the command.
    ///
    /// # Panics
    /// As [`Server::resume`].
    pub fn resume_with(&mut self, prepare: impl FnOnce(&mut Command)) {
        self.begin_with(prepare);
        self.served().unwrap_or_else(|fault| panic!("the server does not serve: {fault}"));
    }

    /// Waits until a server that was begun serves.
    ///
    /// # Errors
    /// What it said before it ended instead.
    ///
    /// # Panics
    /// It was not begun.
    pub fn served(&mut self) -> Result<(), String> {
        self.address = self.process().try_line(DEADLINE, |line| {
            let event: serde_json::Value = serde_json::from_str(line).ok()?;
            event.get("url")?.as_str()?.strip_prefix("http://")?.trim_end_matches('/').parse().ok()
        })?;
        Ok(())
    }

    /// Starts it again without waiting until it serves.
    ///
    /// # Panics
    /// It runs already.
    pub fn begin_with(&mut self, prepare: impl FnOnce(&mut Command)) {
        assert!(self.process.is_none(), "the server runs already");
        let mut command = self.command(&["serve", "--json", "--listen", &self.address.to_string()]);
        prepare(&mut command);
        self.process = Some(Process::start("the server", &mut command));
    }

    /// Stops it in order.
    ///
    /// # Panics
    /// It does not stop well.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop(DEADLINE);
        }
    }

    /// Kills it, as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The directory of its store; copy it only while the server is stopped.
    pub fn store_dir(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// A directory beside the store for whatever a test wants to keep.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The store, as the command line names it.
    pub fn store(&self) -> String {
        format!("{}:{}", self.engine, self.store_dir().display())
    }

    /// The running program.
    ///
    /// # Panics
    /// It does not run.
    pub fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("the server does not run")
    }

    /// What it logged since its start.
    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::log).unwrap_or_default()
    }

    /// A typed client without a token.
    ///
    /// # Panics
    /// Never, for an address.
    pub fn client(&self) -> SyncClient {
        client(&self.url())
    }
}

/// A typed client of the server at a URL, without a token.
///
/// # Panics
/// It is no URL of a server.
pub fn client(url: &str) -> SyncClient {
    SyncClient::new(&Config::new(url.parse().expect("a URL"))).expect("a client")
}
