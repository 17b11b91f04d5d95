//! A second client in miniature: what docs/protocol.md says, written from the bytes up with the
//! published primitives alone. The vectors are opened by this too, so that a mistake which sealing
//! and opening share cannot hide.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use hpke::{Deserializable, Kem, OpModeR};
use sha2::Sha256;

/// A label as it stands before everything that is signed or derived.
pub fn label(purpose: &str) -> Vec<u8> {
    let text = format!("tidings/1/{purpose}");
    [&[text.len() as u8], text.as_bytes()].concat()
}

/// A short text: length as one byte, then it.
pub fn short(text: &str) -> Vec<u8> {
    [&[text.len() as u8], text.as_bytes()].concat()
}

pub fn derive(secret: &[u8], purpose: &str, rest: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    let info = [label(purpose).as_slice(), rest].concat();
    Hkdf::<Sha256>::new(None, secret).expand(&info, &mut key).unwrap();
    key
}

pub fn mac(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// Opens nonce and ciphertext.
pub fn open(key: &[u8; 32], data: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, msg) = sealed.split_at(24);
    let nonce = XNonce::try_from(nonce).unwrap();
    XChaCha20Poly1305::new(key.into()).decrypt(&nonce, Payload { msg, aad: data }).ok()
}

/// Takes off length and zeros.
pub fn unpad(padded: &[u8]) -> &[u8] {
    let len = u32::from_be_bytes(padded[..4].try_into().unwrap()) as usize;
    assert!(padded[4 + len..].iter().all(|byte| *byte == 0));
    &padded[4..4 + len]
}

/// The Padmé length of `len` bytes, in floats as the paper has it.
pub fn padme(len: usize) -> usize {
    let exponent = (len as f64).log2().floor();
    let kept = exponent.log2().floor() + 1.0;
    let unit = 2f64.powf(exponent - kept);
    ((len as f64 / unit).ceil() * unit) as usize
}

/// Opens what HPKE in base mode sealed to an X-Wing seed.
pub fn hpke_open(seed: &[u8], enc: &[u8], info: &[u8], data: &[u8], sealed: &[u8]) -> Vec<u8> {
    use hpke::kem::XWing;
    let key = <XWing as Kem>::PrivateKey::from_bytes(seed).unwrap();
    let enc = <XWing as Kem>::EncappedKey::from_bytes(enc).unwrap();
    hpke::single_shot_open::<hpke::aead::ChaCha20Poly1305, hpke::kdf::HkdfSha256, XWing>(
        &OpModeR::Base,
        &key,
        &enc,
        info,
        sealed,
        data,
    )
    .unwrap()
}

/// Checks an Ed25519 signature over a label and what follows.
pub fn signed(key: &[u8], purpose: &str, rest: &[u8], signature: &[u8]) -> bool {
    let key = ed25519_dalek::VerifyingKey::from_bytes(key.try_into().unwrap()).unwrap();
    let signature = ed25519_dalek::Signature::from_slice(signature).unwrap();
    key.verify_strict(&[label(purpose).as_slice(), rest].concat(), &signature).is_ok()
}
