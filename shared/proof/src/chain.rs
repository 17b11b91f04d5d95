//! The device chain folded: who belongs to an account, and which epochs it has.
//!
//! One implementation for servers and clients (docs/protocol.md, "Device chain"). A [`Chain`] is
//! only ever made by checking every entry from the genesis on; it grows by [`Chain::extend`] and
//! never shrinks. An entry that does not fit changes nothing.

mod error;
mod fold;

pub use error::ChainError;
pub use fold::account_id;

use std::collections::BTreeMap;

use tidings_wire::sync::{ChainHead, ManifestMark};
use tidings_wire::{AccountId, AppId, ChainIndex, DeviceId, Epoch, Hash, Incarnation};

use crate::device::{DeviceKind, DevicePublic};
use crate::entry::Floor;
use crate::lane::Replica;
use crate::signature::VerifyError;

/// An account's verified device chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    account: AccountId,
    hashes: Vec<Hash>,
    devices: BTreeMap<DeviceId, Device>,
    epochs: BTreeMap<Epoch, EpochRecord>,
    floor: Floor,
}

/// A device of the account, active or unlinked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its public keys.
    pub public: DevicePublic,
    /// The entry that added it.
    pub added: ChainIndex,
    /// Its sealed name, if somebody gave it one.
    pub name: Option<Vec<u8>>,
    /// Set when it was unlinked.
    pub revoked: Option<Revoked>,
}

impl Device {
    /// Whether it was not unlinked.
    pub fn is_active(&self) -> bool {
        self.revoked.is_none()
    }
}

/// How a device was unlinked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoked {
    /// The entry that did it.
    pub index: ChainIndex,
    /// Its last manifests; nothing beyond them counts, nor anything of a replica not named.
    pub cuts: BTreeMap<(AppId, Incarnation), ManifestMark>,
}

/// An epoch as the chain knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochRecord {
    /// The entry that started it.
    pub index: ChainIndex,
    /// Commitment to its secret.
    pub commit: [u8; 32],
    /// Which earlier secret is sealed under it, and that sealed secret's hash; none for epoch 0.
    pub seals: Option<(Epoch, Hash)>,
}

/// Whether what a device wrote counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The device is active.
    Active,
    /// The device was unlinked: what it wrote counts up to this manifest.
    Cut(ManifestMark),
}

/// How another chain, or its head, relates to ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// The same.
    Same,
    /// It is a beginning of ours.
    Earlier,
    /// It goes on where ours ends; of a head alone: it is further than we have read.
    Later,
    /// It differs from ours: `chain_fork`.
    Fork,
}

impl Chain {
    /// The account.
    pub fn account(&self) -> AccountId {
        self.account
    }

    /// The last entry.
    pub fn head(&self) -> ChainHead {
        // A chain has its genesis at least, so that the fallbacks are never taken.
        let index = self.hashes.len().saturating_sub(1);
        ChainHead {
            index: ChainIndex(u64::try_from(index).unwrap_or(u64::MAX)),
            hash: self.hashes.last().copied().unwrap_or(Hash::ZERO),
        }
    }

    /// Where the next entry will stand.
    pub fn next_index(&self) -> ChainIndex {
        ChainIndex(self.head().index.0.saturating_add(1))
    }

    /// Hash of an entry.
    pub fn hash_at(&self, index: ChainIndex) -> Option<Hash> {
        self.hashes.get(usize::try_from(index.0).ok()?).copied()
    }

    /// Every device that ever was in the chain.
    pub fn devices(&self) -> &BTreeMap<DeviceId, Device> {
        &self.devices
    }

    /// The devices that were not unlinked, paper keys too: each needs a wrap of a new epoch.
    pub fn active(&self) -> impl Iterator<Item = (DeviceId, &Device)> {
        self.devices
            .iter()
            .filter(|(_, device)| device.is_active())
            .map(|(id, device)| (*id, device))
    }

    /// A device, active or not.
    ///
    /// # Errors
    /// [`VerifyError::UnknownDevice`].
    pub fn device(&self, id: DeviceId) -> Result<&Device, VerifyError> {
        self.devices.get(&id).ok_or(VerifyError::UnknownDevice(id))
    }

    /// Whether a device is in the chain and was not unlinked.
    pub fn is_active(&self, id: DeviceId) -> bool {
        self.devices.get(&id).is_some_and(Device::is_active)
    }

    /// Whether what this replica writes in this app counts.
    ///
    /// # Errors
    /// [`VerifyError`] when nothing of it does.
    pub fn author(
        &self,
        account: AccountId,
        app: &AppId,
        replica: Replica,
    ) -> Result<Standing, VerifyError> {
        if account != self.account {
            return Err(VerifyError::WrongAccount);
        }
        let device = self.device(replica.device)?;
        if device.public.kind == DeviceKind::Paper {
            return Err(VerifyError::PaperKey(replica.device));
        }
        let Some(revoked) = &device.revoked else { return Ok(Standing::Active) };
        let cut = revoked.cuts.get(&(app.clone(), replica.incarnation));
        cut.map(|mark| Standing::Cut(*mark)).ok_or(VerifyError::RevokedAuthor(replica.device))
    }

    /// Every epoch, rising; never empty.
    pub fn epochs(&self) -> &BTreeMap<Epoch, EpochRecord> {
        &self.epochs
    }

    /// Whether an epoch was started.
    pub fn has_epoch(&self, epoch: Epoch) -> bool {
        self.epochs.contains_key(&epoch)
    }

    /// The newest epoch: what is sealed now is sealed in it.
    pub fn newest_epoch(&self) -> Epoch {
        self.epochs.last_key_value().map_or(Epoch(0), |(epoch, _)| *epoch)
    }

    /// The lowest format and suite accepted.
    pub fn floor(&self) -> Floor {
        self.floor
    }

    /// How a head that somebody names relates to this chain.
    pub fn relation(&self, head: ChainHead) -> Relation {
        match self.hash_at(head.index) {
            None => Relation::Later,
            Some(hash) if hash != head.hash => Relation::Fork,
            Some(_) if head.index == self.head().index => Relation::Same,
            Some(_) => Relation::Earlier,
        }
    }

    /// How another verified chain relates to this one.
    pub fn compare(&self, other: &Self) -> Relation {
        match self.relation(other.head()) {
            Relation::Later if other.relation(self.head()) == Relation::Fork => Relation::Fork,
            relation => relation,
        }
    }
}
