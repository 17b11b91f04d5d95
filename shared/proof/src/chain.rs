//! The device chain folded: who belongs to an account, and which epochs it has.
//!
//! One implementation for servers and clients (docs/protocol.md, "Device chain"). A [`Chain`] is
//! only ever made by checking every entry from the genesis on; it grows by [`Chain::extend`] and
//! never shrinks. An entry that does not fit changes nothing.

use std::collections::BTreeMap;

use tidings_wire::sync::{ChainHead, ManifestMark};
use tidings_wire::{AccountId, AppId, ChainIndex, DeviceId, Epoch, Hash, Incarnation, limits};

use crate::blob::hash_of;
use crate::device::{DeviceKind, DevicePublic};
use crate::encoding::{DecodeError, FORMAT};
use crate::entry::{Cut, EntryBody, Floor, NewEpoch, SUITE, SignedEntry};
use crate::lane::Replica;
use crate::signature::{self, VerifyError};

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

/// Why an entry does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// The bytes are malformed, or of a later release.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The chain is empty or does not start with a genesis.
    #[error("the chain does not start with a genesis")]
    NoGenesis,
    /// The entry, or the genesis, belongs to another account.
    #[error("it belongs to another account")]
    WrongAccount,
    /// The entry does not stand directly after the head.
    #[error("entry {found} does not follow the head {head}")]
    DoesNotFollow {
        /// The head's index.
        head: ChainIndex,
        /// The entry's.
        found: ChainIndex,
    },
    /// The signer is not an active device.
    #[error("signer {0} is not an active device")]
    BadSigner(DeviceId),
    /// The signature is not the signer's over this entry.
    #[error("the signature does not fit")]
    BadSignature,
    /// The added device did not sign that it joins.
    #[error("the added device did not sign that it joins")]
    BadCoSignature,
    /// The added device, or one of its keys, was in the chain before.
    #[error("device {0} or one of its keys was in the chain before")]
    DuplicateDevice(DeviceId),
    /// The added device's key is not usable.
    #[error("device {0} has a weak key")]
    WeakKey(DeviceId),
    /// The account has as many active devices as it may.
    #[error("the account has {} devices already", limits::DEVICES)]
    TooManyDevices,
    /// The first device must be a computer.
    #[error("the first device is not a computer")]
    GenesisNotComputer,
    /// The device that the entry is about is not active.
    #[error("device {0} is not active")]
    NotActive(DeviceId),
    /// Nobody is unlinked.
    #[error("no device is unlinked")]
    EmptyRevocation,
    /// A device cannot unlink itself: it would choose the secret that it must not know.
    #[error("a device cannot unlink itself")]
    RevokesSigner,
    /// A cut is of a device that stays, or the second one of a replica.
    #[error("a cut does not fit")]
    BadCut,
    /// The epoch is not the next, or seals one that is not earlier.
    #[error("epoch {0} does not fit")]
    BadEpoch(Epoch),
    /// The floor falls.
    #[error("the floor falls")]
    FloorFalls,
}

impl ChainError {
    /// Whether a later release could fold it: "needs a newer Tidings".
    pub fn needs_newer(&self) -> bool {
        matches!(self, Self::Decode(DecodeError::NeedsNewer { .. }))
    }
}

impl Chain {
    /// Starts with a genesis.
    ///
    /// # Errors
    /// [`ChainError`].
    pub fn begin(genesis: &SignedEntry) -> Result<Self, ChainError> {
        let entry = &genesis.entry;
        let EntryBody::Genesis { device, commit } = &entry.body else {
            return Err(ChainError::NoGenesis);
        };
        if entry.index != ChainIndex(0) || entry.prev != Hash::ZERO {
            return Err(ChainError::NoGenesis);
        }
        if entry.account != AccountId([0; 16]) {
            return Err(ChainError::WrongAccount);
        }
        let id = device.id();
        if entry.signer != id {
            return Err(ChainError::BadSigner(entry.signer));
        }
        if device.kind != DeviceKind::Computer {
            return Err(ChainError::GenesisNotComputer);
        }
        if !signature::is_usable_key(&device.signing) {
            return Err(ChainError::WeakKey(id));
        }
        let hash = check_signature(genesis, device)?;
        let record = EpochRecord { index: entry.index, commit: *commit, seals: None };
        Ok(Self {
            account: account_id(&hash),
            hashes: vec![hash],
            devices: BTreeMap::from([(id, Device::new(device.clone(), entry.index))]),
            epochs: BTreeMap::from([(Epoch(0), record)]),
            floor: Floor::FIRST,
        })
    }

    /// Folds a whole chain of a known account.
    ///
    /// # Errors
    /// [`ChainError`]: the chain counts whole or not at all.
    pub fn fold<'a>(
        account: AccountId,
        entries: impl IntoIterator<Item = &'a SignedEntry>,
    ) -> Result<Self, ChainError> {
        let mut entries = entries.into_iter();
        let mut chain = Self::begin(entries.next().ok_or(ChainError::NoGenesis)?)?;
        if chain.account != account {
            return Err(ChainError::WrongAccount);
        }
        entries.try_for_each(|entry| chain.extend(entry))?;
        Ok(chain)
    }

    /// Appends one entry after checking everything about it.
    ///
    /// # Errors
    /// [`ChainError`]; the chain is then as before.
    pub fn extend(&mut self, signed: &SignedEntry) -> Result<(), ChainError> {
        let entry = &signed.entry;
        let head = self.head();
        if entry.account != self.account {
            return Err(ChainError::WrongAccount);
        }
        if head.index.0.checked_add(1) != Some(entry.index.0) || entry.prev != head.hash {
            return Err(ChainError::DoesNotFollow { head: head.index, found: entry.index });
        }
        let signer = self.devices.get(&entry.signer).filter(|device| device.is_active());
        let signer = signer.ok_or(ChainError::BadSigner(entry.signer))?;
        let hash = check_signature(signed, &signer.public)?;
        self.check_body(signed)?;
        self.apply(entry.index, &entry.body);
        self.hashes.push(hash);
        Ok(())
    }

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

    /// Checks what an entry wants to do, given that it stands in the right place.
    fn check_body(&self, signed: &SignedEntry) -> Result<(), ChainError> {
        let entry = &signed.entry;
        match &entry.body {
            EntryBody::Genesis { .. } => Err(ChainError::NoGenesis),
            EntryBody::AddDevice { device, co_signature } => {
                self.check_added(device)?;
                device
                    .verify_co_signature(self.account, entry.index, co_signature)
                    .map_err(|_| ChainError::BadCoSignature)
            }
            EntryBody::RevokeDevices { devices, cuts, epoch } => {
                if devices.is_empty() {
                    return Err(ChainError::EmptyRevocation);
                }
                if devices.contains(&entry.signer) {
                    return Err(ChainError::RevokesSigner);
                }
                if let Some(id) = devices.iter().find(|id| !self.is_active(**id)) {
                    return Err(ChainError::NotActive(*id));
                }
                let mut before: Option<&Cut> = None;
                for cut in cuts {
                    let again = before.is_some_and(|before| {
                        before.app == cut.app && before.replica == cut.replica
                    });
                    if again || !devices.contains(&cut.replica.device) {
                        return Err(ChainError::BadCut);
                    }
                    before = Some(cut);
                }
                self.check_epoch(epoch)
            }
            EntryBody::Rotate { epoch } => self.check_epoch(epoch),
            EntryBody::Name { device, .. } => {
                if self.is_active(*device) {
                    Ok(())
                } else {
                    Err(ChainError::NotActive(*device))
                }
            }
            EntryBody::SetFloor(floor) => self.check_floor(*floor),
        }
    }

    fn check_added(&self, device: &DevicePublic) -> Result<(), ChainError> {
        let id = device.id();
        let known = self.devices.iter().any(|(known_id, known)| {
            *known_id == id
                || known.public.signing == device.signing
                || known.public.wrapping == device.wrapping
        });
        if known {
            return Err(ChainError::DuplicateDevice(id));
        }
        if !signature::is_usable_key(&device.signing) {
            return Err(ChainError::WeakKey(id));
        }
        if self.active().count() >= limits::DEVICES {
            return Err(ChainError::TooManyDevices);
        }
        Ok(())
    }

    fn check_epoch(&self, new: &NewEpoch) -> Result<(), ChainError> {
        let next = self.newest_epoch().0.checked_add(1);
        if next == Some(new.epoch.0) && self.has_epoch(new.seals) {
            Ok(())
        } else {
            Err(ChainError::BadEpoch(new.epoch))
        }
    }

    fn check_floor(&self, floor: Floor) -> Result<(), ChainError> {
        if floor.format < self.floor.format || floor.suite < self.floor.suite {
            return Err(ChainError::FloorFalls);
        }
        let newer = |what, found, known| {
            if found > known { Err(DecodeError::NeedsNewer { what, found }) } else { Ok(()) }
        };
        newer("lowest format", floor.format, FORMAT)?;
        newer("lowest cipher suite", floor.suite, SUITE)?;
        Ok(())
    }

    /// Does what a checked entry says.
    fn apply(&mut self, index: ChainIndex, body: &EntryBody) {
        match body {
            EntryBody::Genesis { .. } => {}
            EntryBody::AddDevice { device, .. } => {
                self.devices.insert(device.id(), Device::new(device.clone(), index));
            }
            EntryBody::RevokeDevices { devices, cuts, epoch } => {
                for id in devices {
                    if let Some(device) = self.devices.get_mut(id) {
                        device.revoked = Some(Revoked { index, cuts: cuts_of(*id, cuts) });
                    }
                }
                self.start_epoch(index, epoch);
            }
            EntryBody::Rotate { epoch } => self.start_epoch(index, epoch),
            EntryBody::Name { device, sealed } => {
                if let Some(device) = self.devices.get_mut(device) {
                    device.name = Some(sealed.clone());
                }
            }
            EntryBody::SetFloor(floor) => self.floor = *floor,
        }
    }

    fn start_epoch(&mut self, index: ChainIndex, new: &NewEpoch) {
        let seals = Some((new.seals, new.earlier));
        self.epochs.insert(new.epoch, EpochRecord { index, commit: new.commit, seals });
    }
}

impl Device {
    fn new(public: DevicePublic, added: ChainIndex) -> Self {
        Self { public, added, name: None, revoked: None }
    }
}

/// The account id: the first 16 bytes of the genesis entry's hash.
pub fn account_id(genesis: &Hash) -> AccountId {
    let mut id = [0; 16];
    id.iter_mut().zip(genesis.0).for_each(|(to, from)| *to = from);
    AccountId(id)
}

/// Checks size and signature of an entry, and gives its hash.
fn check_signature(signed: &SignedEntry, signer: &DevicePublic) -> Result<Hash, ChainError> {
    let bytes = signed.entry.signed_bytes();
    if signed.encoded_len() > limits::CHAIN_ENTRY {
        let (what, limit) = ("a chain entry", limits::CHAIN_ENTRY);
        return Err(DecodeError::TooLong { what, limit }.into());
    }
    signature::verify(&signer.signing, &bytes, &signed.signature)
        .map_err(|_| ChainError::BadSignature)?;
    Ok(hash_of(&bytes))
}

/// The cuts of one device.
fn cuts_of<'a>(
    device: DeviceId,
    cuts: impl IntoIterator<Item = &'a Cut>,
) -> BTreeMap<(AppId, Incarnation), ManifestMark> {
    cuts.into_iter()
        .filter(|cut| cut.replica.device == device)
        .map(|cut| {
            let mark = ManifestMark { n: cut.n, hash: cut.hash };
            ((cut.app.clone(), cut.replica.incarnation), mark)
        })
        .collect()
}
