//! The command line: one file per verb, one file for what a person reads when a verb fails.
//!
//! Verbs talk to a running daemon through `tidings_client::local` and to nothing else; only
//! `daemon` and `demo` start programs. The tests use the pure parts from here.

pub mod demo;
pub mod failure;
pub mod import;

mod account;
mod apps;
mod args;
mod completions;
mod connect;
mod context;
mod daemon;
mod delete;
mod devices;
mod doctor;
mod export;
mod get;
mod linking;
mod login;
mod man;
mod output;
mod patch;
mod put;
mod query;
mod record;
mod recover;
mod recovery;
mod signals;
mod start;
mod status;
mod tables;
mod watch;

pub use args::command;
pub use start::run;
