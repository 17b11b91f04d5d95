//! The server's Ed25519 token key and what hangs on it: the server id, the key id of tokens, the
//! key of cursors. It lives in the store and travels with it.

use ed25519_dalek::{Signer as _, SigningKey};
use tidings_proof::{labels, server_id};
use tidings_wire::ServerId;

use crate::text;

/// The identity of a server.
pub struct Identity {
    key: SigningKey,
    public: [u8; 32],
    server: ServerId,
    kid: String,
    cursor_key: [u8; 32],
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Identity {
    /// The identity of a token key's secret half.
    pub fn new(secret: &[u8; 32]) -> Self {
        let key = SigningKey::from_bytes(secret);
        let public = key.verifying_key().to_bytes();
        let server = server_id(&public);
        let kid = server.to_string().chars().take(16).collect();
        let cursor_key = blake3::derive_key(labels::SERVER_CURSOR.as_str(), secret);
        Self { key, public, server, kid, cursor_key }
    }

    /// The server's id: BLAKE3 of the public half.
    pub fn server(&self) -> ServerId {
        self.server
    }

    /// The public half.
    pub fn public(&self) -> &[u8; 32] {
        &self.public
    }

    /// The public half as text.
    pub fn public_text(&self) -> String {
        text::encode(self.public)
    }

    /// The key id that tokens carry.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The key that authenticates cursors.
    pub fn cursor_key(&self) -> &[u8; 32] {
        &self.cursor_key
    }

    /// The secret half, for the token library.
    pub(crate) fn secret(&self) -> &[u8; 32] {
        self.key.as_bytes()
    }

    /// Signs.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.key.sign(message).to_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_key() {
        let identity = Identity::new(&[7; 32]);
        let shown = format!("{identity:?}");
        assert!(shown.contains(&identity.server().to_string()));
        assert!(!shown.contains("07, 07") && !shown.contains("0707"));
    }
}
