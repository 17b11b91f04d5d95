//! The command line: flags that every verb shares, and which file does what.
//!
//! Exit codes: 0 done, 1 failed, 2 usage, 78 a person has to act and starting again would not
//! help (a newer or damaged store, one that another process holds, a configuration that is wrong).

mod compact;
mod config;
mod healthcheck;
mod invite;
mod logging;
mod output;
mod serve;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tidings_server::config::{Config, ConfigError, Layers};
use tidings_server::{ServerError, admin::OperatorError};

/// The Tidings sync server: stores sealed changes and says that something changed.
#[derive(Debug, Parser)]
#[command(name = "tidings-server", version, about, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    verb: Verb,
}

/// Flags of every verb.
#[derive(Debug, Args)]
struct Common {
    /// Configuration file (TOML); `config template` prints one with every key.
    #[arg(long, global = true, env = "TIDINGS_SERVER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where everything is kept: sled:DIR, redb:DIR or memory:
    #[arg(long, global = true, value_name = "ENGINE:DIR")]
    store: Option<String>,
    /// Address and port to listen on.
    #[arg(long, global = true, value_name = "IP:PORT")]
    listen: Option<String>,
    /// The URL under which devices reach this server.
    #[arg(long, global = true, value_name = "URL")]
    public_url: Option<String>,
    /// Who may create an account: invite or open.
    #[arg(long, global = true, value_name = "WHO")]
    registration: Option<String>,
    /// PEM file of the certificate chain.
    #[arg(long, global = true, value_name = "FILE")]
    tls_cert: Option<String>,
    /// PEM file of the private key.
    #[arg(long, global = true, value_name = "FILE")]
    tls_key: Option<String>,
    /// A reverse proxy in front speaks TLS.
    #[arg(long, global = true)]
    behind_proxy: bool,
    /// Sets any key of the configuration; may be given several times.
    #[arg(long = "set", global = true, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    /// Answers in JSON, one value a line.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Runs the server until it is told to stop (SIGTERM, Ctrl-C).
    Serve,
    /// Invites people to create an account here.
    #[command(subcommand)]
    Invite(invite::Verb),
    /// Gives disk space back that deleted and replaced data still takes; the server may run.
    Compact,
    /// Shows or checks the configuration.
    #[command(subcommand)]
    Config(config::Verb),
    /// Asks a running server whether it can serve; for containers and monitors.
    Healthcheck(healthcheck::Flags),
}

/// Why a verb did not do what was asked.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Operator(#[from] OperatorError),
    #[error("{0}")]
    Failed(String),
}

impl Fault {
    fn code(&self) -> u8 {
        let needs_person = match self {
            Self::Config(_) => true,
            Self::Server(error) => error.needs_person(),
            Self::Operator(error) => error.needs_person(),
            Self::Failed(_) => false,
        };
        if needs_person { 78 } else { 1 }
    }
}

impl Common {
    /// The raw configuration: file, environment, flags.
    fn layers(&self) -> Result<Layers, ConfigError> {
        let plain = [
            ("store", &self.store, "--store"),
            ("listen", &self.listen, "--listen"),
            ("public_url", &self.public_url, "--public-url"),
            ("registration", &self.registration, "--registration"),
            ("tls.cert", &self.tls_cert, "--tls-cert"),
            ("tls.key", &self.tls_key, "--tls-key"),
        ];
        let proxy = self.behind_proxy.then(|| "true".to_owned());
        let set =
            self.set.iter().map(|(name, value)| (name.clone(), value.clone(), "--set".to_owned()));
        let flags = plain
            .into_iter()
            .map(|(name, value, flag)| (name, value.clone(), flag))
            .chain([("behind_proxy", proxy, "--behind-proxy")])
            .filter_map(|(name, value, flag)| Some((name.to_owned(), value?, flag.to_owned())))
            .chain(set);
        // A variable that is not UTF-8 cannot be one of ours: their values are text.
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Layers::load(self.config.as_deref(), environment, flags)
    }

    /// The resolved configuration.
    fn resolve(&self) -> Result<Config, ConfigError> {
        Config::resolve(&self.layers()?)
    }
}

/// Parses the command line and does what it says.
pub(crate) fn run() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.verb {
        Verb::Serve => serve::run(&cli.common),
        Verb::Invite(verb) => invite::run(&cli.common, verb),
        Verb::Compact => compact::run(&cli.common),
        Verb::Config(verb) => config::run(&cli.common, verb),
        Verb::Healthcheck(flags) => healthcheck::run(&cli.common, flags),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            output::fault(cli.common.json, &fault.to_string());
            ExitCode::from(fault.code())
        }
    }
}

/// A runtime for verbs that make a call or two.
fn block_on<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Fault::Failed(format!("cannot start: {error}")))?;
    runtime.block_on(work)
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
