//! Key derivation: HKDF-SHA256 (RFC 5869) without salt, its info always beginning with a label.

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tidings_proof::labels::Label;
use tidings_wire::AppId;
use zeroize::Zeroizing;

/// A derived key; wiped when dropped.
pub(crate) type Key = Zeroizing<[u8; 32]>;

/// Derives a key for the purpose that the label names.
pub(crate) fn key(secret: &[u8], label: Label) -> Key {
    expand(secret, &label.start().finish())
}

/// Derives a key for one app.
pub(crate) fn app_key(secret: &[u8], label: Label, app: &AppId) -> Key {
    let mut info = label.start();
    info.app(app);
    expand(secret, info.as_bytes())
}

/// HMAC-SHA256 (RFC 2104).
pub(crate) fn mac(key: &Key, message: &[u8]) -> Zeroizing<[u8; 32]> {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_slice()).expect("a key of any length");
    mac.update(message);
    Zeroizing::new(mac.finalize().into_bytes().into())
}

fn expand(secret: &[u8], info: &[u8]) -> Key {
    let mut key = Zeroizing::new([0; 32]);
    #[expect(clippy::expect_used, reason = "HKDF-SHA256 gives up to 8160 bytes")]
    Hkdf::<Sha256>::new(None, secret).expand(info, key.as_mut_slice()).expect("32 bytes");
    key
}
