//! The Tidings sync server: an opaque log with cursors, and a nudge.
//!
//! It checks signatures and order, stores sealed blobs durably, and tells an account's devices
//! that something changed. It holds no key that opens anything and links no code that could.
//! `docs/protocol.md` is its contract; [`Server`] is its entry.

pub mod admin;
mod announce;
pub mod auth;
mod body;
mod chains;
mod clock;
pub mod config;
pub mod cursor;
mod failure;
pub mod hub;
mod invite;
mod leaving;
mod mailbox;
mod net;
mod random;
mod rates;
mod routes;
mod server;
mod since;
mod state;
pub mod store;
mod text;
mod turns;

pub use clock::Millis;
pub use config::Config;
pub use failure::Failure;
pub use server::{Server, ServerError, config_with};
pub use state::Shared;
