//! The server and the daemon inside the test's own process, for tests that measure it.

use std::net::SocketAddr;

use tempfile::TempDir;
use tidings_daemon::config::RawConfig;
use tidings_daemon::daemon::{Daemon, Options};
use tidings_daemon::home::Home;
use tidings_server::{Server, config_with};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::device::Device;

/// A server over sled in this process, where anybody may make an account and nobody is limited.
#[derive(Debug)]
pub struct InsideServer {
    _dir: TempDir,
    server: Server,
}

impl InsideServer {
    /// Starts it.
    ///
    /// # Panics
    /// It does not start.
    pub async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let store = format!("sled:{}", dir.path().join("store").display());
        let config = config_with(&[
            ("listen", "127.0.0.1:0"),
            ("store", &store),
            ("registration", "open"),
            ("stream.retry", "100ms"),
            ("stream.closing_retry", "100ms"),
            ("rates.address", "off"),
            ("rates.account", "off"),
            ("rates.create_account", "off"),
            ("rates.open_mailbox", "off"),
        ]);
        let server = Server::bind(config.expect("a configuration")).await.expect("a server");
        Self { _dir: dir, server }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Its URL.
    pub fn url(&self) -> String {
        self.server.url()
    }
}

/// A daemon in this process.
#[derive(Debug)]
pub struct InsideDaemon {
    /// Its home and its client.
    pub device: Device,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl InsideDaemon {
    /// Starts a daemon in the home of a device that does not run.
    ///
    /// # Panics
    /// It does not start.
    pub async fn start(mut device: Device) -> Self {
        let mut config = RawConfig::default();
        for setting in device.settings() {
            let (key, value) = setting.split_once('=').expect("KEY=VALUE");
            config = config.flag(key, value);
        }
        let home = Home::at(device.home(), device.socket());
        let options = Options { config, ..Options::new(home) };
        let shutdown = CancellationToken::new();
        let daemon = Daemon::start(options, shutdown.clone()).await.expect("a daemon");
        #[expect(clippy::disallowed_methods, reason = "it is awaited in `stop`")]
        let task = tokio::spawn(async move { daemon.run().await.expect("an end in order") });
        device.adopt().await;
        Self { device, shutdown, task }
    }

    /// Stops it in order.
    ///
    /// # Panics
    /// It does not stop well.
    pub async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.expect("an end in order");
    }
}
