//! Pairing: linking a new computer by a short code (docs/protocol.md, "Pairing").
//!
//! The new computer shows a [`PairingCode`]; the person types it on a linked one. Both talk
//! through a mailbox on the server, which learns nothing: SPAKE2 turns the code into a key, both
//! confirm it, everything after is sealed. One wrong guess ends it. [`Joiner`] and [`Inviter`] are
//! the two ends as state machines: messages in, messages out, in the order of their indexes.

mod channel;
mod code;
mod inviter;
mod joiner;
mod message;
mod pake;

pub use code::{CodeError, PairingCode};
pub use inviter::{Inviter, InviterEvent};
pub use joiner::{Joiner, JoinerEvent};
pub use message::{Answer, Linked, Offer, StopReason};
pub use pake::{Pake, PakeError, PakeIdentities, Role, SpakeEd25519};

use tidings_proof::DecodeError;

/// Why a pairing ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PairingError {
    /// The other side used another code, or somebody tried to sit between: the code is burned.
    #[error("the code was not the same on both computers; start again with a new one")]
    WrongCode,
    /// A message does not open: it was changed on the way.
    #[error("a pairing message was changed on its way")]
    Tampered,
    /// A message opens but is malformed, or of a later release.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A message came that has no place now.
    #[error("a pairing message came out of turn")]
    OutOfTurn,
    /// The offer speaks of another server than the code was made for.
    #[error("the other computer is linked to another server")]
    WrongServer,
    /// The new device did not sign that it joins this account here, or its keys do not fit.
    #[error("the new computer's answer does not fit the offer")]
    BadAnswer,
    /// The name is longer than [`crate::entries::NAME`] bytes.
    #[error("a device's name has at most {} bytes", crate::entries::NAME)]
    NameTooLong,
    /// The pairing has failed or ended before; a new code is needed.
    #[error("this pairing is over; start again with a new code")]
    Over,
}

/// The message to send after [`PairingError::WrongCode`], so that the other side need not wait.
pub fn refusal() -> Vec<u8> {
    message::Outer::Refused.encode()
}
