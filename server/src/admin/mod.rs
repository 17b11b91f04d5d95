//! The operator's verbs, over a 0600 socket of a running server or straight on a store.
//!
//! HTTP/1.1 with JSON on a Unix socket; [`Operator`] is the one client of both ways, and the
//! command line its caller.

mod client;
mod operations;
mod reach;
mod socket;

pub use crate::store::{Compacted, Room};
pub use client::{Operator, OperatorError};
pub use operations::{CreateInvite, CreatedInvite, ListedInvite, RevokedInvites, ServerFacts};
pub use socket::{AdminError, Socket, serve};
