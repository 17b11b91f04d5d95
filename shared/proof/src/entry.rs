//! Entries of a device chain, as bytes (docs/protocol.md, "Device chain"). What they mean
//! together is [`crate::chain`]'s.

use std::collections::BTreeSet;

use tidings_wire::{AccountId, ChainIndex, DeviceId, Epoch, Hash, limits};

use crate::blob::hash_of;
use crate::device::DevicePublic;
use crate::encoding::{DecodeError, FORMAT, Reader, Writer};
use crate::labels;
use crate::manifest::{AppManifestHead, read_set};
use crate::signature::Signature;

/// Longest sealed name of a device, in bytes.
pub const SEALED_NAME: usize = 512;

/// One entry, its signature left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The account; zeros in the genesis, whose hash makes the account id.
    pub account: AccountId,
    /// Its place, from 0.
    pub index: ChainIndex,
    /// Hash of the entry before; zeros in the genesis.
    pub prev: Hash,
    /// What it does.
    pub body: EntryBody,
    /// Who says so: active before this entry (the genesis is signed by the device in it).
    pub signer: DeviceId,
}

/// What an entry does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryBody {
    /// Starts the account with its first device and epoch 0.
    Genesis {
        /// The first device.
        device: DevicePublic,
        /// Commitment to the secret of epoch 0.
        commit: [u8; 32],
    },
    /// Links a computer or a paper key.
    AddDevice {
        /// The device.
        device: DevicePublic,
        /// Its own signature over [`DevicePublic::co_signed_bytes`].
        co_signature: Signature,
    },
    /// Unlinks devices and starts an epoch that they cannot read.
    RevokeDevices {
        /// Which, at least one.
        devices: BTreeSet<DeviceId>,
        /// Their last manifests: nothing of theirs counts beyond.
        cuts: BTreeSet<Cut>,
        /// The epoch that starts.
        epoch: NewEpoch,
    },
    /// Starts an epoch.
    Rotate {
        /// The epoch that starts.
        epoch: NewEpoch,
    },
    /// Names a device.
    Name {
        /// Which.
        device: DeviceId,
        /// The sealed name, at most [`SEALED_NAME`] bytes.
        sealed: Vec<u8>,
    },
    /// Raises the lowest format and suite that the account accepts.
    SetFloor(Floor),
}

/// An unlinked device's last manifest in one app and replica.
pub type Cut = AppManifestHead;

/// An epoch that an entry starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEpoch {
    /// Its number: one above the newest before.
    pub epoch: Epoch,
    /// Commitment to its secret.
    pub commit: [u8; 32],
    /// The newest earlier epoch whose secret is sealed under it. Usually the one before; an older
    /// one where that secret was lost.
    pub seals: Epoch,
    /// Hash of that sealed secret ([`crate::wrap::SealedEarlier::hash`]).
    pub earlier: Hash,
}

/// The lowest format and cipher suite that an account accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// Lowest format of signed things.
    pub format: u8,
    /// Lowest cipher suite.
    pub suite: u8,
}

impl Floor {
    /// What every account begins with, and the most that this release knows.
    pub const FIRST: Self = Self { format: FORMAT, suite: SUITE };
}

/// The cipher suite of this release: XChaCha20-Poly1305, HPKE with X-Wing, HKDF-SHA256, Ed25519.
pub const SUITE: u8 = 1;

impl Entry {
    /// Appends the encoding, the signature left out: format, account, index, prev, kind, body
    /// after its length, signer.
    pub fn write(&self, writer: &mut Writer) {
        writer.u8(FORMAT).raw(&self.account.0).u64(self.index.0).raw(&self.prev.0);
        writer.u8(self.body.kind()).bytes(&self.body.encode()).raw(&self.signer.0);
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// When it is malformed, or of a later format or kind.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.format("chain entry format")?;
        let account = reader.account()?;
        let index = reader.chain_index()?;
        let prev = reader.hash()?;
        let kind = reader.u8("an entry's kind")?;
        let body = reader.bytes("an entry's body", limits::CHAIN_ENTRY)?;
        let body = EntryBody::decode(kind, body)?;
        let signer = reader.device()?;
        Ok(Self { account, index, prev, body, signer })
    }

    /// What is signed: label, entry.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let mut writer = labels::ENTRY.start();
        self.write(&mut writer);
        writer.finish()
    }

    /// The entry's hash: BLAKE3 of what is signed.
    pub fn hash(&self) -> Hash {
        hash_of(&self.signed_bytes())
    }
}

impl EntryBody {
    /// The byte that stands for the kind.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Genesis { .. } => 1,
            Self::AddDevice { .. } => 2,
            Self::RevokeDevices { .. } => 3,
            Self::Rotate { .. } => 4,
            Self::Name { .. } => 5,
            Self::SetFloor(_) => 6,
        }
    }

    /// The epoch that it starts after the first.
    pub const fn new_epoch(&self) -> Option<&NewEpoch> {
        match self {
            Self::RevokeDevices { epoch, .. } | Self::Rotate { epoch } => Some(epoch),
            _ => None,
        }
    }

    /// The encoding, without the kind.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        match self {
            Self::Genesis { device, commit } => {
                device.write(&mut writer);
                writer.raw(commit);
            }
            Self::AddDevice { device, co_signature } => {
                device.write(&mut writer);
                writer.raw(&co_signature.0);
            }
            Self::RevokeDevices { devices, cuts, epoch } => {
                writer.count(devices.len());
                for device in devices {
                    writer.raw(&device.0);
                }
                writer.count(cuts.len());
                for cut in cuts {
                    cut.write(&mut writer);
                }
                epoch.write(&mut writer);
            }
            Self::Rotate { epoch } => epoch.write(&mut writer),
            Self::Name { device, sealed } => {
                writer.raw(&device.0).bytes(sealed);
            }
            Self::SetFloor(floor) => {
                writer.u8(floor.format).u8(floor.suite);
            }
        }
        writer.finish()
    }

    /// Reads the encoding of a body of this kind.
    ///
    /// # Errors
    /// When it is malformed or of an unknown kind.
    pub fn decode(kind: u8, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let body = match kind {
            0 => return Err(DecodeError::Invalid("entry kind 0 does not exist")),
            1 => Self::Genesis {
                device: DevicePublic::read(&mut reader)?,
                commit: reader.array("a commitment")?,
            },
            2 => Self::AddDevice {
                device: DevicePublic::read(&mut reader)?,
                co_signature: Signature::read(&mut reader)?,
            },
            3 => {
                let devices =
                    read_set(&mut reader, "unlinked devices", DeviceId::LEN, Reader::device)?;
                let cuts =
                    read_set(&mut reader, "cuts", AppManifestHead::MIN_LEN, AppManifestHead::read)?;
                Self::RevokeDevices { devices, cuts, epoch: NewEpoch::read(&mut reader)? }
            }
            4 => Self::Rotate { epoch: NewEpoch::read(&mut reader)? },
            5 => Self::Name {
                device: reader.device()?,
                sealed: reader.bytes("a sealed name", SEALED_NAME)?.to_vec(),
            },
            6 => Self::SetFloor(Floor {
                format: reader.u8("a format")?,
                suite: reader.u8("a suite")?,
            }),
            found => return Err(DecodeError::NeedsNewer { what: "chain entry kind", found }),
        };
        reader.finish()?;
        Ok(body)
    }
}

impl NewEpoch {
    /// Appends the encoding: epoch, commit, sealed epoch, hash of the sealed secret.
    fn write(&self, writer: &mut Writer) {
        writer.u32(self.epoch.0).raw(&self.commit).u32(self.seals.0).raw(&self.earlier.0);
    }

    /// Reads an encoding.
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let epoch = reader.epoch()?;
        let commit = reader.array("a commitment")?;
        let (seals, earlier) = (reader.epoch()?, reader.hash()?);
        Ok(Self { epoch, commit, seals, earlier })
    }
}

/// An entry with its signature: taken apart, not yet believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedEntry {
    /// What it says.
    pub entry: Entry,
    /// The signer's signature.
    pub signature: Signature,
}

impl SignedEntry {
    /// The encoding: entry, signature.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        self.entry.write(&mut writer);
        writer.raw(&self.signature.0);
        writer.finish()
    }

    /// Length of the encoding, in bytes.
    pub fn encoded_len(&self) -> usize {
        self.encode().len()
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// When it is malformed, larger than [`limits::CHAIN_ENTRY`], or of a later format or kind.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::bounded(bytes, "a chain entry", limits::CHAIN_ENTRY)?;
        let entry = Entry::read(&mut reader)?;
        let signature = Signature::read(&mut reader)?;
        reader.finish()?;
        Ok(Self { entry, signature })
    }
}
