//! Signing in: the server signs a challenge, the device signs the answer (docs/protocol.md,
//! "Signing in"). The server's id in the answer keeps a server from relaying it elsewhere.

use tidings_wire::auth::Action;
use tidings_wire::{AccountId, DeviceId, ServerId};

use crate::device::server_id;
use crate::labels;
use crate::signature::{self, Signature, VerifyError};

/// Length of a challenge's nonce, in bytes.
pub const CHALLENGE_LEN: usize = 32;

/// A challenge as a server gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Challenge {
    /// The server.
    pub server: ServerId,
    /// The account that asked.
    pub account: AccountId,
    /// The device that asked.
    pub device: DeviceId,
    /// The nonce.
    pub nonce: [u8; CHALLENGE_LEN],
}

impl Challenge {
    /// What the server's token key signs: label, server id, account, device, nonce.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let mut writer = labels::CHALLENGE.start();
        writer.raw(&self.server.0).raw(&self.account.0).raw(&self.device.0).raw(&self.nonce);
        writer.finish()
    }

    /// Checks that `token_key` is the server's and signed this.
    ///
    /// `self.server` must be the pinned id, never one out of the answer.
    ///
    /// # Errors
    /// [`VerifyError::BadSignature`], also when the key does not belong to the server's id.
    pub fn verify(&self, token_key: &[u8; 32], signature: &Signature) -> Result<(), VerifyError> {
        if server_id(token_key) != self.server {
            return Err(VerifyError::BadSignature);
        }
        signature::verify(token_key, &self.signed_bytes(), signature)
    }
}

/// What a device signs to answer a challenge: label, server id, action, nonce.
pub fn answer_bytes(server: ServerId, action: Action, nonce: &[u8; CHALLENGE_LEN]) -> Vec<u8> {
    let mut writer = labels::SIGN_IN.start();
    writer.raw(&server.0).short_text(action.as_str()).raw(nonce);
    writer.finish()
}

/// Checks a device's answer to a challenge.
///
/// # Errors
/// [`VerifyError::BadSignature`].
pub fn verify_answer(
    signing_key: &[u8; 32],
    server: ServerId,
    action: Action,
    nonce: &[u8; CHALLENGE_LEN],
    signature: &Signature,
) -> Result<(), VerifyError> {
    signature::verify(signing_key, &answer_bytes(server, action, nonce), signature)
}
