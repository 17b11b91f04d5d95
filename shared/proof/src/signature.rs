//! Ed25519 signatures (RFC 8032), checked only strictly, and why one did not count.

use std::fmt;

use ed25519_dalek::VerifyingKey;
use tidings_wire::{DeviceId, Epoch};

use crate::encoding::{DecodeError, Reader};

/// An Ed25519 signature, 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

impl Signature {
    /// Length in bytes.
    pub const LEN: usize = 64;

    /// Reads one.
    ///
    /// # Errors
    /// When the bytes end.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.array("a signature").map(Self)
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signature(")?;
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("..)")
    }
}

/// Why something that arrived does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The bytes are malformed, or of a later release.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// It belongs to another account.
    #[error("it belongs to another account")]
    WrongAccount,
    /// The signer is not in the device chain; reading the chain on may help.
    #[error("device {0} is not in the device chain")]
    UnknownDevice(DeviceId),
    /// The signer is a paper key, which writes no data.
    #[error("device {0} is a paper key and writes no data")]
    PaperKey(DeviceId),
    /// The signer was unlinked and nothing of it counts for this app and replica.
    #[error("device {0} was unlinked")]
    RevokedAuthor(DeviceId),
    /// The epoch is not in the device chain; reading the chain on may help.
    #[error("epoch {0} is not in the device chain")]
    UnknownEpoch(Epoch),
    /// The format is below the account's floor.
    #[error("format {0} is below the lowest that this account accepts")]
    BelowFloor(u8),
    /// The signature is not the signer's over these bytes.
    #[error("the signature does not fit")]
    BadSignature,
}

impl VerifyError {
    /// Whether a longer chain than the one at hand could change the verdict.
    pub fn needs_chain(&self) -> bool {
        matches!(self, Self::UnknownDevice(_) | Self::UnknownEpoch(_))
    }

    /// Whether a later release could read it.
    pub fn needs_newer(&self) -> bool {
        matches!(self, Self::Decode(DecodeError::NeedsNewer { .. }))
    }
}

/// Checks a signature strictly: no weak keys, no second encodings of one signature.
///
/// # Errors
/// [`VerifyError::BadSignature`].
pub fn verify(key: &[u8; 32], message: &[u8], signature: &Signature) -> Result<(), VerifyError> {
    let key = VerifyingKey::from_bytes(key).map_err(|_| VerifyError::BadSignature)?;
    key.verify_strict(message, &ed25519_dalek::Signature::from_bytes(&signature.0))
        .map_err(|_| VerifyError::BadSignature)
}

/// Whether these 32 bytes can be a device's signing key: on the curve and not of small order.
pub fn is_usable_key(key: &[u8; 32]) -> bool {
    VerifyingKey::from_bytes(key).is_ok_and(|key| !key.is_weak())
}
