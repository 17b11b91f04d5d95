//! Sealing and opening blobs (docs/protocol.md, "Blob").

use tidings_proof::{Blob, BlobHeader, VerifiedBlob};
use tidings_wire::{AppId, DeviceId, Epoch, Hash, limits};
use zeroize::Zeroizing;

use crate::keyring::Keyring;
use crate::keys::DeviceKeys;
use crate::random::CryptoRng;
use crate::{aead, padding};

/// Why something was not sealed or signed. Each is a mistake of the caller or a missing key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It names another account than the key ring's.
    #[error("it names another account")]
    WrongAccount,
    /// It names another device than the one that signs.
    #[error("it names device {0}, which is not this one")]
    WrongDevice(DeviceId),
    /// The epoch's secret is not held.
    #[error("the secret of epoch {0} is not here")]
    MissingEpoch(Epoch),
    /// It would be larger than its limit.
    #[error("it would be larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
}

/// Something did not open. There is one error for every reason, so that it tells nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sealed bytes do not open")]
pub struct OpenError;

/// A sealed blob with its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedBlob {
    /// The bytes to store and send; they never change again.
    pub bytes: Vec<u8>,
    /// The blob's hash: the lane's next `prev`.
    pub hash: Hash,
}

/// Pads, seals and signs a body at the place that the header names.
///
/// # Errors
/// [`SealError`].
pub fn seal_blob(
    keys: &DeviceKeys,
    keyring: &Keyring,
    header: &BlobHeader,
    body: &[u8],
    rng: &mut impl CryptoRng,
) -> Result<SealedBlob, SealError> {
    if header.account != keyring.account() {
        return Err(SealError::WrongAccount);
    }
    if header.lane.replica.device != keys.id() {
        return Err(SealError::WrongDevice(header.lane.replica.device));
    }
    let sealed = seal(keyring, header.epoch, &header.lane.app, &header.encode(), body, rng)?;
    let body_hash = tidings_proof::blob::hash_of(&sealed);
    let signed_bytes = header.signed_bytes(&body_hash);
    let bytes = Blob::join(header, &sealed, &keys.sign(&signed_bytes));
    if bytes.len() > limits::BLOB {
        return Err(SealError::TooLarge { limit: limits::BLOB });
    }
    Ok(SealedBlob { bytes, hash: tidings_proof::blob::hash_of(&signed_bytes) })
}

/// Opens a verified blob.
///
/// Whether the epoch's secret is held at all is told beforehand by [`Keyring::contains`].
///
/// # Errors
/// [`OpenError`].
pub fn open_blob(
    keyring: &Keyring,
    blob: &VerifiedBlob<'_>,
) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let header = blob.header();
    if header.account != keyring.account() {
        return Err(OpenError);
    }
    open(keyring, header.epoch, &header.lane.app, &header.encode(), blob.sealed())
}

/// Pads and seals under an app's key of an epoch.
pub(crate) fn seal(
    keyring: &Keyring,
    epoch: Epoch,
    app: &AppId,
    data: &[u8],
    body: &[u8],
    rng: &mut impl CryptoRng,
) -> Result<Vec<u8>, SealError> {
    let key = keyring.sealing_key(epoch, app).ok_or(SealError::MissingEpoch(epoch))?;
    let too_large = SealError::TooLarge { limit: limits::BLOB };
    if body.len() > limits::BLOB {
        return Err(too_large);
    }
    let padded = padding::pad(body).ok_or(too_large)?;
    Ok(aead::seal(&key, data, &padded, rng))
}

/// Opens and takes the padding off.
pub(crate) fn open(
    keyring: &Keyring,
    epoch: Epoch,
    app: &AppId,
    data: &[u8],
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let key = keyring.sealing_key(epoch, app).ok_or(OpenError)?;
    let padded = aead::open(&key, data, sealed).ok_or(OpenError)?;
    padding::unpad(padded).ok_or(OpenError)
}
