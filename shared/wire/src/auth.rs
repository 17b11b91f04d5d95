//! Signing in: a challenge that the server signs, an answer that the device signs, a token.

use serde::{Deserialize, Serialize};

use crate::ids::{AccountId, DeviceId, ServerId};

/// `POST /api/auth/challenge`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChallengeRequest {
    /// The account to sign in to.
    pub account_id: AccountId,
    /// The device that signs in.
    pub device_id: DeviceId,
}

/// The challenge: valid once, for a minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChallengeResponse {
    /// The server; BLAKE3 of `token_key`.
    pub server_id: ServerId,
    /// The server's Ed25519 token key, base64url without padding.
    pub token_key: String,
    /// 32 random bytes, base64url without padding.
    pub nonce: String,
    /// The server's signature over (label, server id, account, device, nonce), base64url without
    /// padding.
    pub signature: String,
    /// The server's clock, Unix milliseconds.
    pub now_ms: u64,
}

/// `POST /api/auth/token`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// As in the challenge.
    pub account_id: AccountId,
    /// As in the challenge.
    pub device_id: DeviceId,
    /// As in the challenge.
    pub nonce: String,
    /// The device's signature over (label, server id, action, nonce), base64url without padding.
    pub signature: String,
}

/// What a device signs a challenge for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Getting a token.
    SignIn,
    /// Deleting the account with all its bytes.
    DeleteAccount,
}

impl Action {
    /// The text that is signed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SignIn => "sign_in",
            Self::DeleteAccount => "delete_account",
        }
    }
}

/// A bearer token (JWT, EdDSA).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenResponse {
    /// The token, for `Authorization: Bearer`.
    pub token: String,
    /// Its end, Unix milliseconds by the server's clock.
    pub expires_ms: u64,
    /// The server's clock, Unix milliseconds.
    pub now_ms: u64,
}

impl std::fmt::Debug for TokenResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenResponse")
            .field("expires_ms", &self.expires_ms)
            .finish_non_exhaustive()
    }
}
