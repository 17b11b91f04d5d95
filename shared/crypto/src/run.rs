//! Sealing, opening and signing runs (docs/protocol.md, "Run").

use tidings_proof::run::{part_data, part_hash};
use tidings_proof::{Part, RunStatement, SignedRun, VerifiedRun};
use tidings_wire::{AppId, Epoch, TableTag, limits};
use zeroize::Zeroizing;

use crate::blob::{self, OpenError, SealError};
use crate::keyring::Keyring;
use crate::keys::DeviceKeys;
use crate::random::CryptoRng;

/// A sealed part with what a statement says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedPart {
    /// Nonce and ciphertext, to upload under the part's hash.
    pub bytes: Vec<u8>,
    /// Hash and size.
    pub part: Part,
}

/// Pads and seals one part of a run.
///
/// # Errors
/// [`SealError`].
pub fn seal_part(
    keyring: &Keyring,
    app: &AppId,
    tag: TableTag,
    epoch: Epoch,
    body: &[u8],
    rng: &mut impl CryptoRng,
) -> Result<SealedPart, SealError> {
    let data = part_data(keyring.account(), app, tag, epoch);
    let bytes = blob::seal(keyring, epoch, app, &data, body, rng)?;
    let size = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= limits::BLOB);
    let size = size.ok_or(SealError::TooLarge { limit: limits::BLOB })?;
    Ok(SealedPart { part: Part { hash: part_hash(&bytes), size }, bytes })
}

/// Opens the `number`th part (from 0) of a verified run.
///
/// # Errors
/// [`OpenError`], also when the bytes are not the part that the statement names.
pub fn open_part(
    keyring: &Keyring,
    run: &VerifiedRun,
    number: usize,
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let statement = run.statement();
    if statement.account != keyring.account() {
        return Err(OpenError);
    }
    let sealed = run.part(number, sealed).ok_or(OpenError)?;
    blob::open(keyring, statement.epoch, &statement.app, &statement.part_data(), sealed)
}

/// Signs a run's statement.
///
/// # Errors
/// [`SealError`] when it names another device or would be too large.
pub fn sign_run(keys: &DeviceKeys, statement: RunStatement) -> Result<SignedRun, SealError> {
    if statement.author.device != keys.id() {
        return Err(SealError::WrongDevice(statement.author.device));
    }
    let signature = keys.sign(&statement.signed_bytes());
    let signed = SignedRun { statement, signature };
    if signed.encode().len() > limits::RUN_STATEMENT {
        return Err(SealError::TooLarge { limit: limits::RUN_STATEMENT });
    }
    Ok(signed)
}
