//! `tidings daemon`: the daemon in the foreground, for a terminal or a service manager.

use std::io::IsTerminal;
use std::os::unix::net::UnixListener;

use sd_notify::NotifyState;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use super::context::Context;
use super::failure::{Exit, Failure};
use super::signals::Stop;
use crate::clock::Clock;
use crate::config::RawConfig;
use crate::daemon::{Daemon, Options, StartError};
use crate::home::Home;
use crate::vault::forbid_core_dumps;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
    Settings come from config.toml in the home, then from TIDINGS_* variables, then from --set. \
    --show-settings lists all of them with their values and where each comes from. The daemon \
    ends on SIGTERM, SIGINT and SIGHUP in order: requests finish, the store closes.")]
pub struct Args {
    /// Set one setting, such as api.drain=2s; may be given again.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// List all settings and stop.
    #[arg(long)]
    show_settings: bool,
    /// What is logged to standard error: error, warn, info, debug, trace, or a filter.
    #[arg(
        long,
        value_name = "FILTER",
        env = "TIDINGS_LOG",
        default_value = "info",
        hide_env_values = true
    )]
    log: String,
}

/// Most threads for reads of the store, opening of pages and the like. They end when idle.
const BLOCKING_THREADS: usize = 8;

/// One thread for everything that waits: an idle daemon wakes up once for what happens, and keeps
/// no stacks and heaps of threads that have nothing to do.
///
/// # Errors
/// The system gives no epoll or the like.
pub fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_THREADS).build()
}

/// Runs the daemon until it is asked to stop.
pub async fn run(args: Args, context: Context) -> Result<(), Failure> {
    let home = Home::find(context.home.as_deref()).map_err(Failure::home)?;
    let mut config = RawConfig::default();
    for setting in &args.set {
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| Failure::argument("--set", "expected KEY=VALUE"))?;
        config = config.flag(key.trim(), value.trim());
    }
    if args.show_settings {
        return show_settings(&home, config, &context);
    }
    log(&args.log)?;
    if let Err(error) = forbid_core_dumps() {
        tracing::warn!(%error, "memory of this process may be written to a core file");
    }

    let mut stop = Stop::listen().map_err(|error| Failure::io("Listening to signals", &error))?;
    let shutdown = CancellationToken::new();
    let options = Options { home, config, clock: Clock::system(), listener: passed_listener()? };
    let daemon = match Daemon::start(options, shutdown.clone()).await {
        Ok(daemon) => daemon,
        Err(error @ StartError::AlreadyRunning { .. }) => {
            // Not a failure: there is a daemon, which is what was wanted.
            eprintln!("{error}");
            return Ok(());
        }
        Err(error) => {
            let exit = match error.exit_code() {
                78 => Exit::NeedsPerson,
                _ => Exit::Failed,
            };
            return Err(Failure::daemon(error, exit));
        }
    };
    tracing::info!(socket = %daemon.socket().display(), "ready");
    tell(NotifyState::Ready);
    let mut running = std::pin::pin!(daemon.run());
    let result = tokio::select! {
        result = &mut running => result,
        () = stop.asked() => {
            tell(NotifyState::Stopping);
            tracing::info!("stopping");
            shutdown.cancel();
            running.await
        }
    };
    result.map_err(Failure::daemon_stopped)
}

fn show_settings(home: &Home, over: RawConfig, context: &Context) -> Result<(), Failure> {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let config = RawConfig::default()
        .file(&home.config())
        .and_then(|raw| raw.environment(variables).over(over).resolve())
        .map_err(|error| Failure::daemon(error, Exit::NeedsPerson))?;
    for shown in config.show() {
        match context.out.is_json() {
            true => context.out.json_line(&serde_json::json!({
                "key": shown.key, "value": shown.value, "origin": shown.origin.to_string(),
                "means": shown.doc,
            }))?,
            false => {
                context.out.line(format!("# {}", shown.doc))?;
                context
                    .out
                    .line(format!("{} = {:?}  # {}", shown.key, shown.value, shown.origin))?;
            }
        }
    }
    Ok(())
}

/// Logs to standard error, in colour only where a person looks at it.
fn log(filter: &str) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(filter).map_err(|error| Failure::argument("--log", error))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init()
        .map_err(Failure::unexpected)
}

/// The socket that the service manager bound, if it did.
fn passed_listener() -> Result<Option<UnixListener>, Failure> {
    listenfd::ListenFd::from_env()
        .take_unix_listener(0)
        .map_err(|error| Failure::io("Taking the socket from the service manager", &error))
}

/// Tells the service manager, where there is one.
fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "the service manager was not told");
    }
}
