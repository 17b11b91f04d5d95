//! Typed HTTP and Server-Sent Events clients, without any retry policy.
//!
//! [`remote`] speaks to a sync server, [`local`] to the daemon on its Unix socket, and
//! [`socket`] says where that socket and the daemon's data are, by one rule for every program.
//! Whether and when to try again is for the caller, who goes by [`ErrorKind`].

mod kind;
#[cfg(unix)]
pub mod local;
pub mod remote;
#[cfg(unix)]
pub mod socket;
#[cfg(test)]
mod testing;

pub use kind::ErrorKind;
