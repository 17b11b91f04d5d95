//! Wrapping epoch secrets: to a device by HPKE, under a later epoch by XChaCha20-Poly1305.
//!
//! HPKE is RFC 9180 in base mode with the X-Wing KEM (X25519 and ML-KEM-768), HKDF-SHA256 and
//! ChaCha20-Poly1305. Taking what opens into a key ring, against the chain's commitment, is
//! [`crate::keyring`]'s.

use hpke::aead::ChaCha20Poly1305;
use hpke::kdf::HkdfSha256;
use hpke::kem::XWing;
use hpke::{Deserializable, Kem, OpModeR, OpModeS, Serializable};
use tidings_proof::blob::{NONCE_LEN, TAG_LEN};
use tidings_proof::wrap::SECRET_LEN;
use tidings_proof::{DevicePublic, SealedEarlier, Wrap, labels};
use tidings_wire::{AccountId, DeviceId, Epoch};
use zeroize::Zeroizing;

use crate::keyring::EpochSecret;
use crate::keys::DeviceKeys;
use crate::random::CryptoRng;
use crate::{aead, derive};

/// Wraps a secret to a device; none when the device's X-Wing key is not one.
pub(crate) fn seal(
    account: AccountId,
    epoch: Epoch,
    secret: &EpochSecret,
    device: &DevicePublic,
    rng: &mut impl CryptoRng,
) -> Option<Wrap> {
    let id = device.id();
    let key = <XWing as Kem>::PublicKey::from_bytes(device.wrapping.as_slice()).ok()?;
    let (enc, ciphertext) = hpke::single_shot_seal_with_rng::<ChaCha20Poly1305, HkdfSha256, XWing>(
        &OpModeS::Base,
        &key,
        &labels::WRAP.start().finish(),
        secret.bytes(),
        &data(account, epoch, id, &secret.commit()),
        rng,
    )
    .ok()?;
    let mut wrap = Wrap {
        epoch,
        device: id,
        enc: Box::new([0; Wrap::ENC_LEN]),
        ciphertext: ciphertext.try_into().ok()?,
    };
    enc.write_exact(wrap.enc.as_mut_slice());
    Some(wrap)
}

/// Opens a wrap to this device.
pub(crate) fn open(
    account: AccountId,
    commit: &[u8; 32],
    keys: &DeviceKeys,
    wrap: &Wrap,
) -> Option<EpochSecret> {
    let enc = <XWing as Kem>::EncappedKey::from_bytes(wrap.enc.as_slice()).ok()?;
    let secret = hpke::single_shot_open::<ChaCha20Poly1305, HkdfSha256, XWing>(
        &OpModeR::Base,
        &keys.wrapping_key(),
        &enc,
        &labels::WRAP.start().finish(),
        &wrap.ciphertext,
        &data(account, wrap.epoch, keys.id(), commit),
    );
    let secret = Zeroizing::new(secret.ok()?);
    Some(EpochSecret::from_bytes(secret.as_slice().try_into().ok()?))
}

/// Associated data of a wrap: label, account, epoch, device, commitment.
fn data(account: AccountId, epoch: Epoch, device: DeviceId, commit: &[u8; 32]) -> Vec<u8> {
    let mut writer = labels::WRAP.start();
    writer.raw(&account.0).u32(epoch.0).raw(&device.0).raw(commit);
    writer.finish()
}

/// Seals the secret of an earlier epoch under that of a later one.
pub(crate) fn seal_earlier(
    account: AccountId,
    (epoch, secret): (Epoch, &EpochSecret),
    (seals, earlier): (Epoch, &EpochSecret),
    rng: &mut impl CryptoRng,
) -> Option<SealedEarlier> {
    let key = derive::key(secret.bytes(), labels::EARLIER_KEY);
    let sealed = aead::seal(&key, &earlier_data(account, epoch, seals), earlier.bytes(), rng);
    let (nonce, ciphertext) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let ciphertext: [u8; SECRET_LEN + TAG_LEN] = ciphertext.try_into().ok()?;
    Some(SealedEarlier { epoch, seals, nonce: *nonce, ciphertext })
}

/// Opens the secret of an earlier epoch.
pub(crate) fn open_earlier(
    account: AccountId,
    secret: &EpochSecret,
    sealed: &SealedEarlier,
) -> Option<EpochSecret> {
    let key = derive::key(secret.bytes(), labels::EARLIER_KEY);
    let data = earlier_data(account, sealed.epoch, sealed.seals);
    let bytes = [sealed.nonce.as_slice(), &sealed.ciphertext].concat();
    let earlier = aead::open(&key, &data, &bytes)?;
    Some(EpochSecret::from_bytes(earlier.as_slice().try_into().ok()?))
}

/// Associated data of a sealed earlier secret: label, account, epoch, sealed epoch.
fn earlier_data(account: AccountId, epoch: Epoch, seals: Epoch) -> Vec<u8> {
    let mut writer = labels::EARLIER_DATA.start();
    writer.raw(&account.0).u32(epoch.0).u32(seals.0);
    writer.finish()
}
