//! Answering a server's challenge.

use tidings_proof::signin::{Challenge, answer_bytes};
use tidings_proof::{Signature, VerifyError};
use tidings_wire::auth::Action;

use crate::keys::DeviceKeys;

/// Signs the answer to a challenge, after checking that the pinned server gave it to this device.
///
/// # Errors
/// [`VerifyError`] when it did not: then nothing is signed, as it may be another server's.
pub fn answer_challenge(
    keys: &DeviceKeys,
    challenge: &Challenge,
    token_key: &[u8; 32],
    signature: &Signature,
    action: Action,
) -> Result<Signature, VerifyError> {
    if challenge.device != keys.id() {
        return Err(VerifyError::UnknownDevice(challenge.device));
    }
    challenge.verify(token_key, signature)?;
    Ok(keys.sign(&answer_bytes(challenge.server, action, &challenge.nonce)))
}
