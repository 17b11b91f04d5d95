//! Bearer tokens: JWT with EdDSA (RFC 7519, RFC 8037), the algorithm fixed here and never chosen
//! by the token. `jsonwebtoken` does the encoding; its cryptography is [`PROVIDER`], on the same
//! `ed25519-dalek` as everything else, and knows one algorithm only.

use std::time::Duration;

use ed25519_dalek::{SigningKey, VerifyingKey};
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result as JwtResult};
use jsonwebtoken::signature::{Error as SignatureError, Signer, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use tidings_wire::{AccountId, DeviceId, ServerId};

use super::identity::Identity;
use crate::clock::Millis;

/// Longest token that is looked at, in bytes. Ours have about 500.
pub const MAX_LEN: usize = 2_048;

/// The media type in a token's header (RFC 8725, 3.11): no other JWT can pass for one of ours.
const TYPE: &str = "tidings+jwt";

/// Tolerance for the clocks of several server processes, on `nbf` only.
const SKEW: Duration = Duration::from_secs(60);

/// What a token says, in the registered claims of RFC 7519 and one of our own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    /// The server.
    aud: ServerId,
    /// The account.
    sub: AccountId,
    /// The device.
    dev: DeviceId,
    /// Unix seconds.
    iat: u64,
    nbf: u64,
    exp: u64,
}

/// What a verified token says; only [`Tokens::verify`] makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bearer {
    /// The account.
    pub account: AccountId,
    /// The device.
    pub device: DeviceId,
    /// The end of the token.
    pub expires: Millis,
}

/// Why a token does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// Anything else. One answer for all, so that nothing can be learned by trying.
    #[error("the token is not valid")]
    Invalid,
}

/// Issues and verifies tokens of one server.
pub struct Tokens {
    server: ServerId,
    header: Header,
    encoding: EncodingKey,
    decoding: DecodingKey,
    validation: Validation,
}

impl Tokens {
    /// Tokens of a server.
    pub fn new(identity: &Identity) -> Self {
        // Another copy of this library in the process may have been first; it installs the same.
        let _ = PROVIDER.install_default();
        let mut header = Header::new(Algorithm::EdDSA);
        header.typ = Some(TYPE.to_owned());
        header.kid = Some(identity.kid().to_owned());
        let mut validation = Validation::new(Algorithm::EdDSA);
        // Times and audience are checked below, against the caller's clock.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        Self {
            server: identity.server(),
            header,
            encoding: EncodingKey::from_ed_der(identity.secret()),
            decoding: DecodingKey::from_ed_der(identity.public()),
            validation,
        }
    }

    /// Issues a token and says when it ends: whole seconds, not before `now + life`.
    ///
    /// # Errors
    /// When the library cannot encode; it can.
    pub fn issue(
        &self,
        account: AccountId,
        device: DeviceId,
        now: Millis,
        life: Duration,
    ) -> JwtResult<(String, Millis)> {
        let exp = now.plus(life).0.div_ceil(1_000);
        let iat = now.0 / 1_000;
        let nbf = iat.saturating_sub(SKEW.as_secs());
        let claims = Claims { aud: self.server, sub: account, dev: device, iat, nbf, exp };
        let token = jsonwebtoken::encode(&self.header, &claims, &self.encoding)?;
        Ok((token, Millis(exp.saturating_mul(1_000))))
    }

    /// Verifies a token.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn verify(&self, token: &str, now: Millis) -> Result<Bearer, TokenError> {
        if token.len() > MAX_LEN {
            return Err(TokenError::Invalid);
        }
        let data = jsonwebtoken::decode::<Claims>(token, &self.decoding, &self.validation)
            .map_err(|_| TokenError::Invalid)?;
        // The header has to be exactly the one that is written here: no foreign type or key id,
        // no key of the token's own, no extension.
        if data.header != self.header {
            return Err(TokenError::Invalid);
        }
        let claims = data.claims;
        let expires = Millis(claims.exp.saturating_mul(1_000));
        let begun = claims.nbf.saturating_mul(1_000) <= now.0;
        let ordered = claims.nbf <= claims.iat && claims.iat <= claims.exp;
        if claims.aud != self.server || !begun || !ordered {
            return Err(TokenError::Invalid);
        }
        if expires <= now {
            return Err(TokenError::Expired);
        }
        Ok(Bearer { account: claims.sub, device: claims.dev, expires })
    }
}

/// The cryptography of tokens: Ed25519 and nothing else.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key| {
        only_eddsa(algorithm)?;
        let secret = key.as_bytes().try_into().map_err(|_| ErrorKind::InvalidKeyFormat)?;
        Ok(Box::new(EdSigner(SigningKey::from_bytes(secret))))
    },
    verifier_factory: |algorithm, key| {
        only_eddsa(algorithm)?;
        let public = key.try_get_as_bytes()?.try_into().map_err(|_| ErrorKind::InvalidKeyFormat)?;
        let key = VerifyingKey::from_bytes(public).map_err(|_| ErrorKind::InvalidKeyFormat)?;
        Ok(Box::new(EdVerifier(key)))
    },
    key_utils: KeyUtils::new_unimplemented(),
};

fn only_eddsa(algorithm: &Algorithm) -> JwtResult<()> {
    if *algorithm == Algorithm::EdDSA { Ok(()) } else { Err(ErrorKind::InvalidAlgorithm.into()) }
}

struct EdSigner(SigningKey);

impl Signer<Vec<u8>> for EdSigner {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, SignatureError> {
        Ok(Signer::<ed25519_dalek::Signature>::try_sign(&self.0, message)?.to_bytes().to_vec())
    }
}

impl JwtSigner for EdSigner {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

struct EdVerifier(VerifyingKey);

impl Verifier<Vec<u8>> for EdVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), SignatureError> {
        let signature = ed25519_dalek::Signature::from_slice(signature)?;
        self.0.verify_strict(message, &signature)
    }
}

impl JwtVerifier for EdVerifier {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

#[cfg(test)]
mod tests;
