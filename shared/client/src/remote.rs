//! The client of a sync server: one method per call, typed by `tidings-wire`.
//!
//! HTTPS by rustls with the system's trust or one pinned authority, through the proxy that the
//! environment names. Answers are read only up to their limits, redirects are not followed, and
//! pages that some network puts in the way are told from answers of a server. It never repeats a
//! call by itself and holds no key: signing happens elsewhere.

mod account;
mod call;
mod client;
mod config;
mod decode;
mod error;
mod notify;
mod pull;
mod sync;
#[cfg(test)]
mod tests;
mod tls;
mod url;

pub use client::SyncClient;
pub use config::{Config, Timeouts};
pub use error::{ClientError, ConfigError};
pub use notify::{Channel, Notice, NotifyStream, ReauthReason, StreamEnd};
pub use pull::{Lane, PullFilter, Replica};
pub use tls::Trust;
pub use url::ServerUrl;
