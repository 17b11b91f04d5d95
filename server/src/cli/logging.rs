//! Log lines to standard error, as text or JSON. Nothing in them is a token, a key or a blob.

use tidings_server::Config;
use tracing_subscriber::EnvFilter;

use super::Fault;

/// A bare level is meant for our own code: the HTTP libraries write whole headers at theirs, and
/// with them tokens.
fn filter(log: &str) -> String {
    let level = ["off", "error", "warn", "info", "debug", "trace"].contains(&log);
    if level { format!("warn,tidings_server={log},tidings_kv={log}") } else { log.to_owned() }
}

/// Starts logging as the configuration says.
pub(super) fn start(config: &Config) -> Result<(), Fault> {
    let filter = EnvFilter::try_new(filter(&config.log))
        .map_err(|error| Fault::Failed(format!("log = {:?}: {error}", config.log)))?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = if config.log_json {
        subscriber.json().try_init()
    } else {
        subscriber.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init()
    };
    started.map_err(|error| Fault::Failed(format!("cannot log: {error}")))
}
