//! The pairing mailbox: two slots under a short number, for ten minutes, without a token.
//!
//! The messages are opaque here; `tidings-crypto` defines what is in them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{Nameplate, ParseIdError, ServerId};

/// The answer to `POST /api/pair`: a fresh mailbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenMailboxResponse {
    /// Its number, the first part of the pairing code.
    pub nameplate: Nameplate,
    /// Which server it is on.
    pub server_id: ServerId,
    /// The server's token key, base64url without padding; its BLAKE3 is the server id.
    pub token_key: String,
    /// When it goes, Unix milliseconds by the server's clock.
    pub expires_ms: u64,
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The computer that joins.
    New,
    /// The computer that is linked already.
    Old,
}

impl Side {
    /// The path segment.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Old => "old",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Side {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        match text {
            "new" => Ok(Self::New),
            "old" => Ok(Self::Old),
            _ => Err(ParseIdError::new("a side", "`new` or `old`")),
        }
    }
}

/// `PUT /api/pair/{nameplate}/{side}`: the side's next message. Repeating the same message under
/// the same index is answered as the first time; another one is 409 `pair.taken`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutMailboxRequest {
    /// Number of the message on its side, from 0, without holes.
    pub index: u32,
    /// The message, base64url without padding; at most
    /// [`crate::limits::MAILBOX_MESSAGE`] bytes before the encoding.
    pub message: String,
}

/// Query of `GET /api/pair/{nameplate}/{side}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadMailboxQuery {
    /// First message wanted.
    #[serde(default)]
    pub from: u32,
    /// Seconds to wait for it, at most 30; 0 answers at once.
    #[serde(default)]
    pub wait: u32,
}

/// The messages that a side has written so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadMailboxResponse {
    /// From the index asked for on, base64url without padding.
    pub messages: Vec<String>,
    /// The server's identity, which both codes are bound to.
    pub server_id: ServerId,
    /// The server's token key, base64url without padding.
    pub token_key: String,
}
