//! Connections: accepting, TLS, and the watch that keeps slow ones from holding anything.

mod accept;
mod connection;
mod files;
mod parked;
mod socket;
mod tls;

pub use accept::{Accept, serve};
pub use files::raise_limit;
pub(crate) use parked::Plain;
pub use tls::{TlsError, TlsFiles};
