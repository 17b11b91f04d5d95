//! The published vectors of what this stands on, so that a dependency cannot change under it.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use ed25519_dalek::{Signature, Signer, SigningKey};
use hpke::kem::{X25519HkdfSha256, XWing};
use hpke::{Deserializable, Kem, OpModeR, Serializable};
use serde_json::Value;
use tidings_crypto::PaperKey;
use tidings_crypto::pairing::{Pake, PakeIdentities, Role, SpakeEd25519};

use crate::support::*;

/// The vectors of one publication.
fn published(text: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(text).unwrap();
    assert!(file["source"].is_string());
    file["vectors"].as_array().unwrap().clone()
}

fn bytes(vector: &Value, field: &str) -> Vec<u8> {
    unhex(vector[field].as_str().unwrap_or_else(|| panic!("no {field}")))
}

#[test]
fn ed25519_is_that_of_rfc_8032() {
    for vector in published(include_str!("vectors/published/rfc8032.json")) {
        let key = SigningKey::from_bytes(&bytes(&vector, "secret").try_into().unwrap());
        let message = bytes(&vector, "message");
        assert_eq!(key.verifying_key().to_bytes().to_vec(), bytes(&vector, "public"));
        let signature = Signature::from_slice(&bytes(&vector, "signature")).unwrap();
        assert_eq!(key.sign(&message), signature);
        key.verifying_key().verify_strict(&message, &signature).unwrap();
    }
}

#[test]
fn signatures_count_strictly() {
    for vector in published(include_str!("vectors/published/ed25519_strict.json")) {
        let key = bytes(&vector, "public").try_into().unwrap();
        let signature = tidings_proof::Signature(bytes(&vector, "signature").try_into().unwrap());
        let verified =
            tidings_proof::signature::verify(&key, &bytes(&vector, "message"), &signature);
        assert_eq!(verified.is_ok(), vector["counts"].as_bool().unwrap(), "{vector}");
    }
}

#[test]
fn blake3_is_that_of_its_authors() {
    let text = include_str!("vectors/published/blake3.json");
    let file: Value = serde_json::from_str(text).unwrap();
    let context = file["context"].as_str().unwrap();
    for vector in published(text) {
        let len = vector["input_len"].as_u64().unwrap();
        let input: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        assert_eq!(blake3::hash(&input).as_bytes().to_vec(), bytes(&vector, "hash"));
        assert_eq!(blake3::derive_key(context, &input).to_vec(), bytes(&vector, "derive_key"));
    }
}

#[test]
fn xchacha20_poly1305_is_that_of_the_draft() {
    for vector in published(include_str!("vectors/published/xchacha20poly1305.json")) {
        let cipher = XChaCha20Poly1305::new_from_slice(&bytes(&vector, "key")).unwrap();
        let nonce = XNonce::try_from(bytes(&vector, "nonce").as_slice()).unwrap();
        let (plaintext, data) = (bytes(&vector, "plaintext"), bytes(&vector, "data"));
        let sealed = [bytes(&vector, "ciphertext"), bytes(&vector, "tag")].concat();
        let payload = Payload { msg: &plaintext, aad: &data };
        assert_eq!(cipher.encrypt(&nonce, payload).unwrap(), sealed);
        let payload = Payload { msg: &sealed, aad: &data };
        assert_eq!(cipher.decrypt(&nonce, payload).unwrap(), plaintext);
    }
}

#[test]
fn hpke_is_that_of_rfc_9180() {
    // A.2.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305, base mode.
    for vector in published(include_str!("vectors/published/rfc9180.json")) {
        // The library clamps the scalar as it derives it, the RFC when it is used.
        let (_, derived) = X25519HkdfSha256::derive_keypair(&bytes(&vector, "ikmR"));
        assert_eq!(derived.to_bytes().to_vec(), bytes(&vector, "pkRm"));
        let secret = <X25519HkdfSha256 as Kem>::PrivateKey::from_bytes(&bytes(&vector, "skRm"));
        let secret = secret.unwrap();
        assert_eq!(X25519HkdfSha256::sk_to_pk(&secret), derived);
        let enc = <X25519HkdfSha256 as Kem>::EncappedKey::from_bytes(&bytes(&vector, "enc"));
        let opened = hpke::single_shot_open::<
            hpke::aead::ChaCha20Poly1305,
            hpke::kdf::HkdfSha256,
            X25519HkdfSha256,
        >(
            &OpModeR::Base,
            &secret,
            &enc.unwrap(),
            &bytes(&vector, "info"),
            &bytes(&vector, "ct"),
            &bytes(&vector, "aad"),
        );
        assert_eq!(opened.unwrap(), bytes(&vector, "pt"));
    }
}

#[test]
fn x_wing_is_that_of_the_draft() {
    for vector in published(include_str!("vectors/published/xwing.json")) {
        let secret = <XWing as Kem>::PrivateKey::from_bytes(&bytes(&vector, "sk")).unwrap();
        assert_eq!(XWing::sk_to_pk(&secret).to_bytes().to_vec(), bytes(&vector, "pk"));
        let public = <XWing as Kem>::PublicKey::from_bytes(&bytes(&vector, "pk")).unwrap();
        let mut fixed = FixedRng(bytes(&vector, "eseed"));
        let (shared, enc) = XWing::encap_with_rng(&public, None, &mut fixed).unwrap();
        assert_eq!(enc.to_bytes().to_vec(), bytes(&vector, "ct"));
        assert_eq!(shared.0.to_vec(), bytes(&vector, "ss"));
        let opened = XWing::decap(&secret, None, &enc).unwrap();
        assert_eq!(opened.0.to_vec(), bytes(&vector, "ss"));
    }
}

#[test]
fn spake2_is_that_of_magic_wormhole() {
    for vector in published(include_str!("vectors/published/spake2.json")) {
        let identities =
            PakeIdentities { new: bytes(&vector, "identity_a"), old: bytes(&vector, "identity_b") };
        let start = |role, scalar| {
            let mut fixed = FixedRng(bytes(&vector, scalar));
            SpakeEd25519::start(role, &bytes(&vector, "password"), &identities, &mut fixed)
        };
        let (a, message_a) = start(Role::New, "scalar_a");
        let (b, message_b) = start(Role::Old, "scalar_b");
        assert_eq!(message_a, bytes(&vector, "message_a"));
        assert_eq!(message_b, bytes(&vector, "message_b"));
        assert_eq!(a.finish(&message_b).unwrap().to_vec(), bytes(&vector, "key"));
        assert_eq!(b.finish(&message_a).unwrap().to_vec(), bytes(&vector, "key"));
    }
}

#[test]
fn x25519_is_that_of_rfc_7748() {
    for vector in published(include_str!("vectors/published/rfc7748.json")) {
        let scalar: [u8; 32] = bytes(&vector, "scalar").try_into().unwrap();
        let point: [u8; 32] = bytes(&vector, "u").try_into().unwrap();
        assert_eq!(x25519_dalek::x25519(scalar, point).to_vec(), bytes(&vector, "output"));
    }
}

#[test]
fn words_are_those_of_bip39() {
    for vector in published(include_str!("vectors/published/bip39.json")) {
        let words = vector["words"].as_str().unwrap();
        let mnemonic = bip39::Mnemonic::parse_in_normalized(bip39::Language::English, words);
        let mnemonic = mnemonic.unwrap();
        assert_eq!(mnemonic.to_entropy(), bytes(&vector, "entropy"));
        let passphrase = vector["passphrase"].as_str().unwrap();
        assert_eq!(mnemonic.to_seed_normalized(passphrase).to_vec(), bytes(&vector, "seed"));
        PaperKey::parse(words).unwrap();
    }
}

/// Gives the bytes that it was made of.
struct FixedRng(Vec<u8>);

impl getrandom::rand_core::TryRng for FixedRng {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        panic!("only bytes are drawn")
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        panic!("only bytes are drawn")
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        let rest = self.0.split_off(bytes.len());
        bytes.copy_from_slice(&self.0);
        self.0 = rest;
        Ok(())
    }
}

impl getrandom::rand_core::TryCryptoRng for FixedRng {}
