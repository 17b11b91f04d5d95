//! Epoch secrets as they lie on a server: wrapped to devices, sealed under later epochs.
//!
//! Only their shape, and which of them an entry of the chain must bring along, is known here;
//! `tidings-crypto` makes and opens them (docs/protocol.md, "Epochs").

use std::collections::BTreeSet;

use tidings_wire::{DeviceId, Epoch, Hash};

use crate::blob::{NONCE_LEN, TAG_LEN, hash_of};
use crate::chain::Chain;
use crate::encoding::{DecodeError, FORMAT, Reader};
use crate::entry::EntryBody;
use crate::labels;

/// Length of an epoch secret, in bytes.
pub const SECRET_LEN: usize = 32;

/// An epoch secret wrapped to one device by HPKE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrap {
    /// Which epoch's secret.
    pub epoch: Epoch,
    /// To whom.
    pub device: DeviceId,
    /// The encapsulated X-Wing key.
    pub enc: Box<[u8; Wrap::ENC_LEN]>,
    /// The sealed secret with its tag.
    pub ciphertext: [u8; SECRET_LEN + TAG_LEN],
}

impl Wrap {
    /// Length of an encapsulated X-Wing key, in bytes.
    pub const ENC_LEN: usize = 1120;

    /// Length of the encoding, in bytes.
    pub const LEN: usize = 1 + 4 + DeviceId::LEN + Self::ENC_LEN + SECRET_LEN + TAG_LEN;

    /// The encoding: format, epoch, device, encapsulated key, ciphertext.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = crate::Writer::new();
        writer.u8(FORMAT).u32(self.epoch.0).raw(&self.device.0);
        writer.raw(self.enc.as_slice()).raw(&self.ciphertext);
        writer.finish()
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// When it is malformed or of a later format.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        reader.format("wrap format")?;
        let wrap = Self {
            epoch: reader.epoch()?,
            device: reader.device()?,
            enc: Box::new(reader.array("an encapsulated key")?),
            ciphertext: reader.array("a wrapped secret")?,
        };
        reader.finish()?;
        Ok(wrap)
    }
}

/// The secret of an earlier epoch, sealed under a later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedEarlier {
    /// The epoch whose secret seals it.
    pub epoch: Epoch,
    /// The epoch whose secret is inside.
    pub seals: Epoch,
    /// The nonce.
    pub nonce: [u8; NONCE_LEN],
    /// The sealed secret with its tag.
    pub ciphertext: [u8; SECRET_LEN + TAG_LEN],
}

impl SealedEarlier {
    /// Length of the encoding, in bytes.
    pub const LEN: usize = 1 + 4 + 4 + NONCE_LEN + SECRET_LEN + TAG_LEN;

    /// The encoding: format, epoch, sealed epoch, nonce, ciphertext.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = crate::Writer::new();
        self.write(&mut writer);
        writer.finish()
    }

    fn write(&self, writer: &mut crate::Writer) {
        writer.u8(FORMAT).u32(self.epoch.0).u32(self.seals.0);
        writer.raw(&self.nonce).raw(&self.ciphertext);
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// When it is malformed or of a later format.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        reader.format("sealed secret format")?;
        let sealed = Self {
            epoch: reader.epoch()?,
            seals: reader.epoch()?,
            nonce: reader.array("a nonce")?,
            ciphertext: reader.array("a sealed secret")?,
        };
        reader.finish()?;
        Ok(sealed)
    }

    /// What the entry that starts the epoch names: BLAKE3 of label and encoding.
    pub fn hash(&self) -> Hash {
        let mut writer = labels::EARLIER_HASH.start();
        self.write(&mut writer);
        hash_of(writer.as_bytes())
    }
}

/// What an entry brings along is not what it must.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WrapsError {
    /// A device has no wrap.
    #[error("device {0} has no wrap")]
    Missing(DeviceId),
    /// A wrap is of another epoch, to a device that needs none, or the second one to a device.
    #[error("the wrap of epoch {0} to device {1} does not belong here")]
    Stray(Epoch, DeviceId),
    /// The sealed earlier secret is missing, is not the one that the entry names, or is too much.
    #[error("the sealed earlier secret does not fit the entry")]
    Earlier,
}

/// Checks that an entry comes with exactly the wraps and the sealed secret that it needs.
///
/// `chain` is the chain with the entry applied. An entry that starts an epoch needs a wrap for
/// every active device and the earlier secret, one that adds a device a wrap of the newest epoch
/// to it, every other one nothing.
///
/// # Errors
/// [`WrapsError`].
pub fn check_wraps(
    chain: &Chain,
    body: &EntryBody,
    wraps: &[Wrap],
    earlier: Option<&SealedEarlier>,
) -> Result<(), WrapsError> {
    let mut needed: BTreeSet<DeviceId> = match body {
        EntryBody::Genesis { device, .. } | EntryBody::AddDevice { device, .. } => {
            BTreeSet::from([device.id()])
        }
        EntryBody::RevokeDevices { .. } | EntryBody::Rotate { .. } => {
            chain.active().map(|(id, _)| id).collect()
        }
        EntryBody::Name { .. } | EntryBody::SetFloor(_) => BTreeSet::new(),
    };
    for wrap in wraps {
        if wrap.epoch != chain.newest_epoch() || !needed.remove(&wrap.device) {
            return Err(WrapsError::Stray(wrap.epoch, wrap.device));
        }
    }
    if let Some(device) = needed.first() {
        return Err(WrapsError::Missing(*device));
    }
    let fits = match (body.new_epoch(), earlier) {
        (None, None) => true,
        (Some(new), Some(earlier)) => {
            earlier.epoch == new.epoch
                && earlier.seals == new.seals
                && earlier.hash() == new.earlier
        }
        _ => false,
    };
    if fits { Ok(()) } else { Err(WrapsError::Earlier) }
}
