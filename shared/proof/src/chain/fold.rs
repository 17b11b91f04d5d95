//! Folding: every entry is checked whole, then applied; one that does not fit changes nothing.

use std::collections::BTreeMap;

use tidings_wire::sync::ManifestMark;
use tidings_wire::{AccountId, AppId, ChainIndex, DeviceId, Epoch, Hash, Incarnation, limits};

use crate::blob::hash_of;
use crate::chain::{Chain, ChainError, Device, EpochRecord, Revoked};
use crate::device::{DeviceKind, DevicePublic};
use crate::encoding::{DecodeError, FORMAT};
use crate::entry::{Cut, EntryBody, Floor, NewEpoch, SUITE, SignedEntry};
use crate::signature;

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
