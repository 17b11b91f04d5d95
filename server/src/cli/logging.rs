//! Log lines to standard error, as text or JSON. Nothing in them is a token, a key or a blob.

use tidings_server::Config;
use tracing_subscriber::EnvFilter;

use super::Fault;

/// Starts logging as the configuration says.
pub(super) fn start(config: &Config) -> Result<(), Fault> {
    let filter = EnvFilter::try_new(&config.log)
        .map_err(|error| Fault::Failed(format!("log = {:?}: {error}", config.log)))?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = if config.log_json {
        subscriber.json().try_init()
    } else {
        subscriber.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init()
    };
    started.map_err(|error| Fault::Failed(format!("cannot log: {error}")))
}
