//! The password-authenticated key exchange behind a trait, so that it can be exchanged.

use std::fmt;

use spake2::{Ed25519Group, Identity, Password, Spake2};
use tidings_proof::labels::{self, Label};
use tidings_wire::{Nameplate, ServerId};
use zeroize::Zeroizing;

use crate::random::CryptoRng;

/// Which end of a pairing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The computer that joins; side A.
    New,
    /// The computer that is linked already; side B.
    Old,
}

/// The other side's message is not one of this exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key exchange failed")]
pub struct PakeError;

/// Who pairs, where: bound into the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PakeIdentities {
    /// Identity of the side that joins.
    pub new: Vec<u8>,
    /// Identity of the side that is linked.
    pub old: Vec<u8>,
}

impl PakeIdentities {
    /// Identities of a mailbox: label of the role, server id, nameplate.
    pub fn new(server: ServerId, nameplate: Nameplate) -> Self {
        let identity = |label: Label| {
            let mut writer = label.start();
            writer.raw(&server.0).u32(nameplate.0);
            writer.finish()
        };
        Self { new: identity(labels::PAIR_NEW), old: identity(labels::PAIR_OLD) }
    }
}

/// One run of a PAKE of one message each way. Unless both sides use one password and one pair of
/// identities, they end with different keys.
pub trait Pake: Sized {
    /// Starts, and gives the message for the other side.
    fn start(
        role: Role,
        password: &[u8],
        identities: &PakeIdentities,
        rng: &mut impl CryptoRng,
    ) -> (Self, Vec<u8>);

    /// Ends with the other side's message, and gives the key.
    ///
    /// # Errors
    /// [`PakeError`] when the message is not one of the other role.
    fn finish(self, message: &[u8]) -> Result<Zeroizing<Vec<u8>>, PakeError>;
}

/// SPAKE2 over Ed25519's group, as the `spake2` crate (and Magic Wormhole) has it.
pub struct SpakeEd25519(Spake2<Ed25519Group>);

impl Pake for SpakeEd25519 {
    fn start(
        role: Role,
        password: &[u8],
        identities: &PakeIdentities,
        rng: &mut impl CryptoRng,
    ) -> (Self, Vec<u8>) {
        let password = Password::new(password);
        let (new, old) = (Identity::new(&identities.new), Identity::new(&identities.old));
        let (state, message) = match role {
            Role::New => Spake2::start_a_with_rng(&password, &new, &old, rng),
            Role::Old => Spake2::start_b_with_rng(&password, &new, &old, rng),
        };
        (Self(state), message)
    }

    fn finish(self, message: &[u8]) -> Result<Zeroizing<Vec<u8>>, PakeError> {
        self.0.finish(message).map(Zeroizing::new).map_err(|_| PakeError)
    }
}

impl fmt::Debug for SpakeEd25519 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpakeEd25519(..)")
    }
}
