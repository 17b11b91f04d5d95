//! The account as the store keeps it: who we are, where the server is, the pinned device chain.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use tidings_crypto::{BuildError, KeyringError, SealError};
use tidings_proof::{ChainError, SignedEntry};
use tidings_wire::{AccountId, DeviceId, ServerId};

use crate::replica::keys;
use crate::store::{CommitError, Reader, Scan, StoreError, Txn, damaged};
use crate::vault::keystore::{KeystoreError, KeystoreKind};

/// This device's account.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct AccountRecord {
    /// The account.
    #[n(0)]
    pub account: AccountId,
    /// This device in it.
    #[n(1)]
    pub device: DeviceId,
    /// The server, pinned when it was first met.
    #[n(2)]
    pub server: ServerId,
    /// The server's address.
    #[n(3)]
    pub url: String,
    /// The one certificate authority that vouches for the server, as PEM; none for the system's.
    #[n(4)]
    pub authority: Option<ByteVec>,
    /// Where the secrets lie.
    #[n(5)]
    pub keystore: KeystoreKind,
    /// What this device called itself.
    #[n(6)]
    pub name: String,
    /// The new device is not known to stand in the chain yet: linking was cut off.
    #[n(7)]
    pub joining: bool,
}

/// What a person asked for that changes the chain, kept until it is done: a daemon that is cut off
/// in the middle goes on with it at its next start.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Intent {
    /// Unlink these devices.
    #[n(0)]
    Revoke {
        /// Which.
        #[n(0)]
        devices: Vec<DeviceId>,
    },
}

/// Why the vault cannot do something.
#[derive(Debug, Clone, thiserror::Error)]
pub enum VaultError {
    /// There is no account, or the keychain is locked.
    #[error("the keys are locked")]
    Locked,
    /// The keychain or key file.
    #[error(transparent)]
    Keystore(#[from] KeystoreError),
    /// The keystore holds nothing for this store.
    #[error("the keys of this device are not in the {0}")]
    SecretsMissing(KeystoreKind),
    /// The keystore holds the keys of another device.
    #[error("the keys in the {0} are those of another device")]
    WrongSecrets(KeystoreKind),
    /// The pinned chain says that this device was unlinked.
    #[error("this computer was unlinked from the account")]
    Revoked,
    /// The stored or offered chain does not verify.
    #[error("the device chain does not verify: {0}")]
    Chain(ChainError),
    /// A secret of an epoch does not fit.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// Something could not be sealed or signed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// An entry of the chain could not be made.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A fault of this program.
    #[error("the vault failed: {0}")]
    Fault(String),
}

impl From<CommitError<StoreError>> for VaultError {
    fn from(error: CommitError<StoreError>) -> Self {
        match error {
            CommitError::Job(error) | CommitError::Store(error) => Self::Store(error),
            CommitError::Panicked(what) => Self::Fault(what),
        }
    }
}

/// The record of the account, in the table of the vault.
const ACCOUNT: &[u8] = b"account";
/// The record of an account that this device was unlinked from, while it joins anew.
const FORMER: &[u8] = b"former";
/// What a person asked for and is not done.
const INTENT: &[u8] = b"intent";
/// What the chain's entries begin with; the index follows, big-endian.
const CHAIN: &[u8] = b"chain\0";

pub(super) fn read(source: &impl Reader) -> Result<Option<AccountRecord>, StoreError> {
    let Some(bytes) = source.get(keys::VAULT, ACCOUNT)? else { return Ok(None) };
    minicbor::decode(&bytes).map(Some).map_err(|error| damaged(keys::VAULT, ACCOUNT, error))
}

pub(super) fn write(txn: &mut Txn<'_>, record: &AccountRecord) -> Result<(), StoreError> {
    let bytes = minicbor::to_vec(record).map_err(|error| damaged(keys::VAULT, ACCOUNT, error))?;
    txn.put(keys::VAULT, ACCOUNT, bytes)
}

pub(super) fn read_intent(source: &impl Reader) -> Result<Option<Intent>, StoreError> {
    let Some(bytes) = source.get(keys::VAULT, INTENT)? else { return Ok(None) };
    minicbor::decode(&bytes).map(Some).map_err(|error| damaged(keys::VAULT, INTENT, error))
}

pub(super) fn write_intent(txn: &mut Txn<'_>, intent: Option<&Intent>) -> Result<(), StoreError> {
    let Some(intent) = intent else { return txn.delete(keys::VAULT, INTENT) };
    let bytes = minicbor::to_vec(intent).map_err(|error| damaged(keys::VAULT, INTENT, error))?;
    txn.put(keys::VAULT, INTENT, bytes)
}

/// Keeps the record of an account that this device was unlinked from, before another takes its
/// place.
pub(super) fn keep_former(txn: &mut Txn<'_>) -> Result<(), StoreError> {
    if read(txn)?.is_some_and(|record| !record.joining)
        && let Some(bytes) = txn.get(keys::VAULT, ACCOUNT)?
    {
        txn.put(keys::VAULT, FORMER, bytes.to_vec())?;
    }
    Ok(())
}

pub(super) fn forget_former(txn: &mut Txn<'_>) -> Result<(), StoreError> {
    txn.delete(keys::VAULT, FORMER)
}

/// Forgets account and chain, or goes back to the account that was there before.
pub(super) fn clear(txn: &mut Txn<'_>) -> Result<(), StoreError> {
    if let Some(former) = txn.get(keys::VAULT, FORMER)? {
        txn.put(keys::VAULT, ACCOUNT, former.to_vec())?;
        return forget_former(txn);
    }
    for entry in read_chain(txn)? {
        txn.delete(keys::VAULT, chain_key(&entry))?;
    }
    txn.delete(keys::VAULT, INTENT)?;
    txn.delete(keys::VAULT, ACCOUNT)
}

fn chain_key(entry: &SignedEntry) -> Vec<u8> {
    [CHAIN, &entry.entry.index.0.to_be_bytes()].concat()
}

pub(super) fn read_chain(source: &impl Reader) -> Result<Vec<SignedEntry>, StoreError> {
    const PAGE: usize = 256;
    let mut entries = Vec::new();
    let mut scan = Scan::prefix(CHAIN, PAGE);
    loop {
        let page = source.range(keys::VAULT, &scan)?;
        for (key, value) in &page {
            let entry =
                SignedEntry::decode(value).map_err(|error| damaged(keys::VAULT, key, error))?;
            entries.push(entry);
        }
        match page.last() {
            Some((key, _)) if page.len() >= PAGE => scan = scan.after(key),
            _ => return Ok(entries),
        }
    }
}

pub(super) fn write_chain(txn: &mut Txn<'_>, entries: &[SignedEntry]) -> Result<(), StoreError> {
    for entry in entries {
        txn.put(keys::VAULT, chain_key(entry), entry.encode())?;
    }
    Ok(())
}
