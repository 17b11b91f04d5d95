//! Accounts, their device chain and their key ring, as JSON. Chain entries, wraps and sealed
//! secrets are base64url text without padding of the bytes that `tidings-proof` and
//! `tidings-crypto` define.

use serde::{Deserialize, Serialize};

use crate::ids::{AccountId, Epoch, ServerId};
use crate::sync::ChainHead;

/// `POST /api/accounts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateAccountRequest {
    /// The genesis entry.
    pub genesis: String,
    /// Its wraps of epoch 0: one per device in the genesis.
    pub wraps: Vec<String>,
    /// The invite code, where the server asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invite: Option<String>,
}

/// The answer to account creation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateAccountResponse {
    /// The account, as computed from the genesis.
    pub account_id: AccountId,
    /// The server that holds it now.
    pub server_id: ServerId,
}

/// Body of `DELETE /api/accounts/self`: a fresh challenge signed for `delete_account`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteAccountRequest {
    /// The challenge's nonce.
    pub nonce: String,
    /// The device's signature.
    pub signature: String,
}

/// Query of `GET /api/chain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainQuery {
    /// Which account (a device that was just added has no token yet).
    pub account_id: AccountId,
    /// First entry wanted.
    #[serde(default)]
    pub from: u64,
}

/// Entries of a chain, at most [`crate::limits::CHAIN_PAGE`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainResponse {
    /// The entries from the one asked for on.
    pub entries: Vec<String>,
    /// Head of the whole chain.
    pub head: ChainHead,
}

/// `POST /api/chain`: one entry with the wraps and sealed secret that it needs, in one
/// transaction. No token: the entry's signature is the authority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppendChainRequest {
    /// Which account.
    pub account_id: AccountId,
    /// The entry; its `prev` is the head that it follows (compare-and-set).
    pub entry: String,
    /// Wraps: of the new epoch to every active device, or of the newest epoch to the added one.
    #[serde(default)]
    pub wraps: Vec<String>,
    /// The earlier epoch's secret sealed under the new one, when the entry starts an epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<String>,
}

/// The answer to an append.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppendChainResponse {
    /// The new head.
    pub head: ChainHead,
}

/// The answer to `GET /api/keyring`: what the calling device may open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyringResponse {
    /// Every epoch of the account, rising.
    pub epochs: Vec<KeyringEpoch>,
}

/// One epoch in the key ring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyringEpoch {
    /// Its number.
    pub epoch: Epoch,
    /// Wrap of its secret to the calling device, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrap: Option<String>,
    /// The earlier epoch's secret sealed under this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<String>,
}
