//! Why an entry of a device chain does not fit.

use tidings_wire::{ChainIndex, DeviceId, Epoch, limits};

use crate::encoding::DecodeError;

/// Why an entry does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// The bytes are malformed, or of a later release.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The chain is empty or does not start with a genesis.
    #[error("the chain does not start with a genesis")]
    NoGenesis,
    /// The entry, or the genesis, belongs to another account.
    #[error("it belongs to another account")]
    WrongAccount,
    /// The entry does not stand directly after the head.
    #[error("entry {found} does not follow the head {head}")]
    DoesNotFollow {
        /// The head's index.
        head: ChainIndex,
        /// The entry's.
        found: ChainIndex,
    },
    /// The signer is not an active device.
    #[error("signer {0} is not an active device")]
    BadSigner(DeviceId),
    /// The signature is not the signer's over this entry.
    #[error("the signature does not fit")]
    BadSignature,
    /// The added device did not sign that it joins.
    #[error("the added device did not sign that it joins")]
    BadCoSignature,
    /// The added device, or one of its keys, was in the chain before.
    #[error("device {0} or one of its keys was in the chain before")]
    DuplicateDevice(DeviceId),
    /// The added device's key is not usable.
    #[error("device {0} has a weak key")]
    WeakKey(DeviceId),
    /// The account has as many active devices as it may.
    #[error("the account has {} devices already", limits::DEVICES)]
    TooManyDevices,
    /// The first device must be a computer.
    #[error("the first device is not a computer")]
    GenesisNotComputer,
    /// The device that the entry is about is not active.
    #[error("device {0} is not active")]
    NotActive(DeviceId),
    /// Nobody is unlinked.
    #[error("no device is unlinked")]
    EmptyRevocation,
    /// A device cannot unlink itself: it would choose the secret that it must not know.
    #[error("a device cannot unlink itself")]
    RevokesSigner,
    /// A cut is of a device that stays, or the second one of a replica.
    #[error("a cut does not fit")]
    BadCut,
    /// The epoch is not the next, or seals one that is not earlier.
    #[error("epoch {0} does not fit")]
    BadEpoch(Epoch),
    /// The floor falls.
    #[error("the floor falls")]
    FloorFalls,
}

impl ChainError {
    /// Whether a later release could fold it: "needs a newer Tidings".
    pub fn needs_newer(&self) -> bool {
        matches!(self, Self::Decode(DecodeError::NeedsNewer { .. }))
    }
}
