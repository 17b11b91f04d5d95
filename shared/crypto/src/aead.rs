//! XChaCha20-Poly1305: seals as nonce and ciphertext, opens in one opaque way.

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use tidings_proof::blob::{NONCE_LEN, TAG_LEN};
use zeroize::Zeroizing;

use crate::derive::Key;
use crate::random::{self, CryptoRng};

/// Seals under a fresh random nonce: nonce, ciphertext, tag.
pub(crate) fn seal(key: &Key, data: &[u8], plaintext: &[u8], rng: &mut impl CryptoRng) -> Vec<u8> {
    let nonce: [u8; NONCE_LEN] = random::array(rng);
    // One allocation for all of it: growing would leave a copy of the plaintext behind.
    let mut sealed = Vec::with_capacity(plaintext.len() + TAG_LEN);
    sealed.extend_from_slice(plaintext);
    #[expect(clippy::expect_used, reason = "it fails only above 256 GiB")]
    XChaCha20Poly1305::new(key.as_slice().try_into().expect("32 bytes"))
        .encrypt_in_place(&XNonce::from(nonce), data, &mut sealed)
        .expect("a short plaintext");
    sealed.splice(0..0, nonce);
    sealed
}

/// Opens what [`seal`] made, if key, data and every bit are right.
pub(crate) fn open(key: &Key, data: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, ciphertext) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let mut plaintext = Zeroizing::new(ciphertext.to_vec());
    XChaCha20Poly1305::new(key.as_slice().try_into().ok()?)
        .decrypt_in_place(&XNonce::from(*nonce), data, &mut *plaintext)
        .ok()?;
    Some(plaintext)
}
