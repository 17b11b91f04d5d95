//! What the command line takes: the verbs, and what every one of them understands.

use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};

use super::{
    account, apps, completions, daemon, delete, demo, devices, doctor, export, get, import, login,
    man, patch, put, query, recover, recovery, status, tables, watch,
};

/// Tidings keeps the data of desktop apps in step across your computers, and nobody else can
/// read it.
#[derive(Debug, Parser)]
#[command(
    name = "tidings",
    version,
    propagate_version = false,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 no daemon is running, 4 something only \
                  you can do comes first, 78 the daemon cannot run until a person looked at it."
)]
pub struct Cli {
    /// What every verb understands.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Options that every verb understands.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Global {
    /// The app whose data is meant.
    #[arg(long, global = true, env = "TIDINGS_APP", value_name = "APP", hide_env_values = true)]
    pub app: Option<String>,
    /// The directory of the daemon: its store, keys, configuration and socket. Without it: the
    /// directories of your desktop.
    #[arg(long, global = true, env = "TIDINGS_HOME", value_name = "DIR", hide_env_values = true)]
    pub home: Option<PathBuf>,
    /// Print JSON, one value per line.
    #[arg(long, global = true)]
    pub json: bool,
}

/// The verbs, one file each.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show on this one computer how a row travels between two: a server, two devices, real data.
    Demo(demo::Args),
    /// Run the daemon in the foreground: it keeps the rows and syncs them.
    Daemon(daemon::Args),
    /// Start an account on a server.
    Account(account::Args),
    /// Link this computer to your account: shows a code to type on a linked one.
    Login(login::Args),
    /// List the linked computers, link a new one by its code, unlink or name one.
    Devices(devices::Args),
    /// Make a recovery kit to print.
    Recovery(recovery::Args),
    /// Come back into your account with its recovery kit when every computer is lost.
    Recover(recover::Args),
    /// Say what is synced and what is not.
    Status(status::Args),
    /// Check everything that sync depends on and say what to do.
    Doctor(doctor::Args),
    /// List the apps that have data here.
    Apps(apps::Args),
    /// List the tables of an app.
    Tables(tables::Args),
    /// Show a row.
    Get(get::Args),
    /// Create or replace a row.
    Put(put::Args),
    /// Change columns of a row.
    Patch(patch::Args),
    /// Delete a row.
    Delete(delete::Args),
    /// List rows of a table.
    Query(query::Args),
    /// Print changes of a table as they happen, from this computer or another, until Ctrl-C.
    Watch(watch::Args),
    /// Read rows from a JSON, NDJSON or CSV file into tables.
    Import(import::Args),
    /// Write the rows of a table as JSON, NDJSON or CSV.
    Export(export::Args),
    /// Print a completion script for a shell.
    Completions(completions::Args),
    /// Write the man pages into a directory.
    Man(man::Args),
    /// Run a program that ends when the process that started it does.
    #[command(hide = true)]
    Tied(demo::TiedArgs),
}

/// The whole command, for completions, man pages and their checks.
pub fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
