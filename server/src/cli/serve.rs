//! `tidings-server serve`: runs until SIGTERM or SIGINT, then stops in order.

use serde_json::json;
use tidings_server::config::Registration;
use tidings_server::{Server, ServerError};
use tokio::signal::unix::{SignalKind, signal};

use super::{Common, Fault, logging, output};

/// Threads for blocking store calls; one request uses one at a time.
const BLOCKING_THREADS: usize = 64;

/// Serves.
pub(super) fn run(common: &Common) -> Result<(), Fault> {
    let config = common.resolve()?;
    logging::start(&config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(|error| Fault::Failed(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let failed = |error| Fault::Failed(format!("cannot listen for signals: {error}"));
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let invites = config.registration == Registration::Invite;
        let mut server = Server::bind(config).await?;
        let (url, id) = (server.url(), server.server_id());
        if common.json {
            output::json(&json!({ "event": "listening", "url": url, "server_id": id }));
        } else {
            output::line(&format!("tidings-server listens on {url} (server {id})"));
            if invites {
                output::line("Invite people with: tidings-server invite create");
            }
        }
        let store_failure = tokio::select! {
            _ = terminate.recv() => None,
            _ = interrupt.recv() => None,
            error = server.failure() => Some(error),
        };
        tracing::info!("stopping");
        let stopped = tokio::select! {
            stopped = server.stop() => stopped,
            // Who asks twice does not want to wait.
            _ = terminate.recv() => return Err(Fault::Failed("stopped at once".to_owned())),
            _ = interrupt.recv() => return Err(Fault::Failed("stopped at once".to_owned())),
        };
        if let Some(error) = store_failure {
            return Err(ServerError::Stopped(error).into());
        }
        stopped?;
        tracing::info!("stopped");
        Ok(())
    })
}
