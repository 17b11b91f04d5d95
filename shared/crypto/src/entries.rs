//! Making entries of the device chain, with the wraps and secrets that they bring along.
//!
//! Every builder applies its entry to a copy of the chain and gives that back, so that what it
//! made is known to fold before it is sent.

use std::collections::BTreeSet;

use tidings_proof::entry::SEALED_NAME;
use tidings_proof::{
    Chain, ChainError, Cut, DevicePublic, Entry, EntryBody, Floor, NewEpoch, SealedEarlier,
    Signature, SignedEntry, Wrap, labels,
};
use tidings_wire::{AccountId, ChainIndex, DeviceId, Epoch, Hash};

use crate::keyring::{EpochSecret, Keyring};
use crate::keys::DeviceKeys;
use crate::random::CryptoRng;
use crate::{aead, wrap};

/// Longest name of a device, in bytes.
pub const NAME: usize = 128;

/// An entry ready to be posted, in one request with everything that it needs.
#[derive(Debug, Clone)]
pub struct NewEntry {
    /// The entry.
    pub entry: SignedEntry,
    /// The wraps to post with it.
    pub wraps: Vec<Wrap>,
    /// The sealed earlier secret to post with it.
    pub earlier: Option<SealedEarlier>,
    /// The secret of the epoch that it starts: to be stored before the entry is sent.
    pub secret: Option<(Epoch, EpochSecret)>,
    /// The chain with the entry applied.
    pub chain: Chain,
}

/// Why an entry could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// It would not fold.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The key ring holds no secret that the entry needs.
    #[error("the secret of epoch {0} is not here")]
    MissingEpoch(Epoch),
    /// The device's X-Wing key is not one, so that nothing can be wrapped to it.
    #[error("device {0} has a damaged key")]
    BadKey(DeviceId),
    /// The name is longer than [`NAME`] bytes.
    #[error("a device's name has at most {NAME} bytes")]
    NameTooLong,
}

/// Starts an account with this device. The key ring to go on with holds `secret` alone.
///
/// # Errors
/// [`BuildError`].
pub fn genesis(keys: &DeviceKeys, rng: &mut impl CryptoRng) -> Result<NewEntry, BuildError> {
    let secret = EpochSecret::generate(rng);
    let device = keys.public().clone();
    let entry = Entry {
        account: AccountId([0; 16]),
        index: ChainIndex(0),
        prev: Hash::ZERO,
        body: EntryBody::Genesis { device: device.clone(), commit: secret.commit() },
        signer: keys.id(),
    };
    let entry = sign(keys, entry);
    let chain = Chain::begin(&entry)?;
    let wraps = vec![wrap_to(&chain, Epoch(0), &secret, &device, rng)?];
    Ok(NewEntry { entry, wraps, earlier: None, secret: Some((Epoch(0), secret)), chain })
}

/// Links a device that co-signed for [`Chain::next_index`].
///
/// # Errors
/// [`BuildError`].
pub fn add_device(
    keys: &DeviceKeys,
    chain: &Chain,
    keyring: &Keyring,
    device: &DevicePublic,
    co_signature: Signature,
    rng: &mut impl CryptoRng,
) -> Result<NewEntry, BuildError> {
    let body = EntryBody::AddDevice { device: device.clone(), co_signature };
    let mut new = append(keys, chain, body)?;
    let epoch = chain.newest_epoch();
    let secret = keyring.secret(epoch).ok_or(BuildError::MissingEpoch(epoch))?;
    new.wraps = vec![wrap_to(chain, epoch, secret, device, rng)?];
    Ok(new)
}

/// Unlinks devices and starts an epoch that they cannot read.
///
/// # Errors
/// [`BuildError`].
pub fn revoke_devices(
    keys: &DeviceKeys,
    chain: &Chain,
    keyring: &Keyring,
    devices: BTreeSet<DeviceId>,
    cuts: BTreeSet<Cut>,
    rng: &mut impl CryptoRng,
) -> Result<NewEntry, BuildError> {
    start_epoch(keys, chain, keyring, rng, |epoch| EntryBody::RevokeDevices {
        devices,
        cuts,
        epoch,
    })
}

/// Starts an epoch. It seals the newest earlier secret that the key ring holds.
///
/// # Errors
/// [`BuildError`].
pub fn rotate(
    keys: &DeviceKeys,
    chain: &Chain,
    keyring: &Keyring,
    rng: &mut impl CryptoRng,
) -> Result<NewEntry, BuildError> {
    start_epoch(keys, chain, keyring, rng, |epoch| EntryBody::Rotate { epoch })
}

/// Names a device.
///
/// # Errors
/// [`BuildError`].
pub fn name_device(
    keys: &DeviceKeys,
    chain: &Chain,
    keyring: &Keyring,
    device: DeviceId,
    name: &str,
    rng: &mut impl CryptoRng,
) -> Result<NewEntry, BuildError> {
    if name.len() > NAME {
        return Err(BuildError::NameTooLong);
    }
    let epoch = chain.newest_epoch();
    let key = keyring.name_key(epoch).ok_or(BuildError::MissingEpoch(epoch))?;
    let mut sealed = epoch.0.to_be_bytes().to_vec();
    sealed.extend(aead::seal(&key, &name_data(chain.account(), device), name.as_bytes(), rng));
    append(keys, chain, EntryBody::Name { device, sealed })
}

/// Opens a sealed name; none when the epoch's secret is not held or it does not open.
pub fn open_name(keyring: &Keyring, device: DeviceId, sealed: &[u8]) -> Option<String> {
    let (epoch, sealed) = sealed.split_first_chunk()?;
    let key = keyring.name_key(Epoch(u32::from_be_bytes(*epoch)))?;
    let name = aead::open(&key, &name_data(keyring.account(), device), sealed)?;
    String::from_utf8(name.to_vec()).ok()
}

/// Raises the lowest format and suite that the account accepts.
///
/// # Errors
/// [`BuildError`].
pub fn set_floor(keys: &DeviceKeys, chain: &Chain, floor: Floor) -> Result<NewEntry, BuildError> {
    append(keys, chain, EntryBody::SetFloor(floor))
}

fn start_epoch(
    keys: &DeviceKeys,
    chain: &Chain,
    keyring: &Keyring,
    rng: &mut impl CryptoRng,
    body: impl FnOnce(NewEpoch) -> EntryBody,
) -> Result<NewEntry, BuildError> {
    let newest = chain.newest_epoch();
    let epoch = Epoch(newest.0.saturating_add(1));
    let secret = EpochSecret::generate(rng);
    let seals = keyring.newest().ok_or(BuildError::MissingEpoch(newest))?;
    let held = keyring.secret(seals).ok_or(BuildError::MissingEpoch(seals))?;
    let earlier = wrap::seal_earlier(chain.account(), (epoch, &secret), (seals, held), rng)
        .ok_or(BuildError::MissingEpoch(seals))?;
    let start = NewEpoch { epoch, commit: secret.commit(), seals, earlier: earlier.hash() };
    let mut new = append(keys, chain, body(start))?;
    new.wraps = new
        .chain
        .active()
        .map(|(_, device)| wrap_to(chain, epoch, &secret, &device.public, rng))
        .collect::<Result<_, _>>()?;
    new.earlier = Some(earlier);
    new.secret = Some((epoch, secret));
    Ok(new)
}

fn wrap_to(
    chain: &Chain,
    epoch: Epoch,
    secret: &EpochSecret,
    device: &DevicePublic,
    rng: &mut impl CryptoRng,
) -> Result<Wrap, BuildError> {
    wrap::seal(chain.account(), epoch, secret, device, rng)
        .ok_or_else(|| BuildError::BadKey(device.id()))
}

fn append(keys: &DeviceKeys, chain: &Chain, body: EntryBody) -> Result<NewEntry, BuildError> {
    let entry = Entry {
        account: chain.account(),
        index: chain.next_index(),
        prev: chain.head().hash,
        body,
        signer: keys.id(),
    };
    let entry = sign(keys, entry);
    let mut chain = chain.clone();
    chain.extend(&entry)?;
    Ok(NewEntry { entry, wraps: Vec::new(), earlier: None, secret: None, chain })
}

fn sign(keys: &DeviceKeys, entry: Entry) -> SignedEntry {
    let signature = keys.sign(&entry.signed_bytes());
    SignedEntry { entry, signature }
}

/// Associated data of a sealed name: label, account, device.
fn name_data(account: AccountId, device: DeviceId) -> Vec<u8> {
    let mut writer = labels::NAME_DATA.start();
    writer.raw(&account.0).raw(&device.0);
    writer.finish()
}

const _: () = assert!(NAME + 4 + 24 + 16 <= SEALED_NAME);
