//! A device's public half and the ids that are hashes of keys.

use tidings_wire::{AccountId, ChainIndex, DeviceId, ServerId};

use crate::encoding::{DecodeError, Reader, Writer};
use crate::labels;
use crate::signature::{self, Signature, VerifyError};

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceKind {
    /// A computer: writes data.
    Computer,
    /// A paper key: signs chain entries and opens wraps, writes no data.
    Paper,
}

impl DeviceKind {
    /// The byte that stands for it.
    pub const fn to_u8(self) -> u8 {
        match self {
            Self::Computer => 1,
            Self::Paper => 2,
        }
    }

    /// Reads the byte.
    ///
    /// # Errors
    /// [`DecodeError::NeedsNewer`] for an unknown kind.
    pub fn from_u8(byte: u8) -> Result<Self, DecodeError> {
        match byte {
            1 => Ok(Self::Computer),
            2 => Ok(Self::Paper),
            found => Err(DecodeError::NeedsNewer { what: "device kind", found }),
        }
    }
}

/// The public keys of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePublic {
    /// What the device is.
    pub kind: DeviceKind,
    /// Its Ed25519 key: verifies what it signs.
    pub signing: [u8; 32],
    /// Its X-Wing key (X25519 and ML-KEM-768): epoch secrets are wrapped to it.
    pub wrapping: Box<[u8; DevicePublic::WRAPPING_LEN]>,
}

impl DevicePublic {
    /// Length of an X-Wing public key, in bytes.
    pub const WRAPPING_LEN: usize = 1216;

    /// Length of the encoding, in bytes.
    pub const LEN: usize = 1 + 32 + Self::WRAPPING_LEN;

    /// The device's id: the first 16 bytes of BLAKE3 over both keys, in key derivation mode.
    pub fn id(&self) -> DeviceId {
        let mut hasher = blake3::Hasher::new_derive_key(labels::DEVICE_ID.as_str());
        hasher.update(&self.signing).update(self.wrapping.as_slice());
        DeviceId(first_16(&hasher.finalize()))
    }

    /// Appends the encoding: kind, Ed25519 key, X-Wing key.
    pub fn write(&self, writer: &mut Writer) {
        writer.u8(self.kind.to_u8()).raw(&self.signing).raw(self.wrapping.as_slice());
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// When it is short or of an unknown kind.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = DeviceKind::from_u8(reader.u8("a device kind")?)?;
        let signing = reader.array("a signing key")?;
        let wrapping = Box::new(reader.array("a wrapping key")?);
        Ok(Self { kind, signing, wrapping })
    }

    /// What this device signs to join `account` by the chain entry `index`.
    ///
    /// Without it a server could list somebody's paper key in an account of its own and make a
    /// recovering person join that.
    pub fn co_signed_bytes(&self, account: AccountId, index: ChainIndex) -> Vec<u8> {
        let mut writer = labels::CO_SIGNATURE.start();
        writer.raw(&account.0).u64(index.0).raw(&self.id().0);
        writer.finish()
    }

    /// Checks the co-signature of an `add_device` entry.
    ///
    /// # Errors
    /// [`VerifyError::BadSignature`].
    pub fn verify_co_signature(
        &self,
        account: AccountId,
        index: ChainIndex,
        co_signature: &Signature,
    ) -> Result<(), VerifyError> {
        signature::verify(&self.signing, &self.co_signed_bytes(account, index), co_signature)
    }
}

/// A server's id: BLAKE3 of its Ed25519 token key, in key derivation mode.
pub fn server_id(token_key: &[u8; 32]) -> ServerId {
    ServerId(blake3::derive_key(labels::SERVER_ID.as_str(), token_key))
}

/// The first half of a hash, as ids of 16 bytes are made.
pub(crate) fn first_16(hash: &blake3::Hash) -> [u8; 16] {
    let mut id = [0; 16];
    id.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
    id
}
