//! A device's secret keys: made on the device, never leaving it.

use std::fmt;

use ed25519_dalek::{Signer, SigningKey};
use hpke::kem::XWing;
use hpke::{Deserializable, Kem, Serializable};
use tidings_proof::encoding::FORMAT;
use tidings_proof::{DecodeError, DeviceKind, DevicePublic, Reader, Signature, Writer};
use tidings_wire::{AccountId, ChainIndex, DeviceId};
use zeroize::Zeroizing;

use crate::random::{self, CryptoRng};

/// The secret half of a device: its Ed25519 and X-Wing keys. Wiped when dropped.
pub struct DeviceKeys {
    signing: SigningKey,
    wrapping: Zeroizing<[u8; 32]>,
    public: DevicePublic,
    id: DeviceId,
}

/// Bytes that are not a device's exported keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stored device keys are damaged: {0}")]
pub struct ImportError(#[from] DecodeError);

impl DeviceKeys {
    /// Makes the keys of a new computer.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        let signing = Zeroizing::new(random::array(rng));
        let wrapping = Zeroizing::new(random::array(rng));
        Self::from_seeds(DeviceKind::Computer, &signing, wrapping)
    }

    /// The keys that belong to two seeds (RFC 8032, and the X-Wing draft's decapsulation key).
    pub(crate) fn from_seeds(
        kind: DeviceKind,
        signing: &[u8; 32],
        wrapping: Zeroizing<[u8; 32]>,
    ) -> Self {
        let signing = SigningKey::from_bytes(signing);
        let mut wrapping_public = Box::new([0; DevicePublic::WRAPPING_LEN]);
        XWing::sk_to_pk(&private_key(&wrapping)).write_exact(wrapping_public.as_mut_slice());
        let public = DevicePublic {
            kind,
            signing: signing.verifying_key().to_bytes(),
            wrapping: wrapping_public,
        };
        Self { signing, wrapping, id: public.id(), public }
    }

    /// The bytes to keep in the keychain: format, kind, both seeds.
    pub fn export(&self) -> Zeroizing<Vec<u8>> {
        let mut writer = Writer::with_capacity(66);
        writer.u8(FORMAT).u8(self.public.kind.to_u8());
        writer.raw(self.signing.as_bytes()).raw(self.wrapping.as_slice());
        Zeroizing::new(writer.finish())
    }

    /// Reads what [`DeviceKeys::export`] wrote.
    ///
    /// # Errors
    /// [`ImportError`].
    pub fn import(bytes: &[u8]) -> Result<Self, ImportError> {
        let mut reader = Reader::new(bytes);
        reader.format("device key format")?;
        let kind = DeviceKind::from_u8(reader.u8("a device kind")?)?;
        let signing = Zeroizing::new(reader.array("a signing seed")?);
        let wrapping = Zeroizing::new(reader.array("a wrapping seed")?);
        reader.finish()?;
        Ok(Self::from_seeds(kind, &signing, wrapping))
    }

    /// The public half.
    pub fn public(&self) -> &DevicePublic {
        &self.public
    }

    /// The device's id.
    pub fn id(&self) -> DeviceId {
        self.id
    }

    /// Signs that this device joins an account by the entry at `index`.
    pub fn co_sign(&self, account: AccountId, index: ChainIndex) -> Signature {
        self.sign(&self.public.co_signed_bytes(account, index))
    }

    /// Signs bytes that begin with a label.
    pub(crate) fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.signing.sign(message).to_bytes())
    }

    /// The X-Wing key, expanded.
    pub(crate) fn wrapping_key(&self) -> <XWing as Kem>::PrivateKey {
        private_key(&self.wrapping)
    }
}

fn private_key(seed: &[u8; 32]) -> <XWing as Kem>::PrivateKey {
    #[expect(clippy::expect_used, reason = "every 32 bytes are an X-Wing decapsulation key")]
    <XWing as Kem>::PrivateKey::from_bytes(seed).expect("32 bytes")
}

impl fmt::Debug for DeviceKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceKeys")
            .field("kind", &self.public.kind)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
