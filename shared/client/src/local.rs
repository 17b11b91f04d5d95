//! The client of the daemon on its Unix socket, for apps and the command line.
//!
//! HTTP/1.1 over a few kept connections; every call is typed by `tidings_wire::local`, and
//! [`Client::request`] takes what is not. Streams end when they end: opening one again with the
//! last id is the caller's. [`crate::socket`] says where the socket is.

mod client;
mod dial;
mod error;
mod path;
mod reply;
mod rows;
mod stream;
#[cfg(test)]
mod tests;

pub use client::{Client, Request, Timeouts};
pub use error::LocalError;
pub use reply::Reply;
pub use stream::{EventStream, OldRecord, WatchOptions};
