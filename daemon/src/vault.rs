//! The vault: this device's keys, the account's epoch secrets and the pinned device chain.
//!
//! Everything that needs a secret happens here. The secrets lie in the desktop's keychain or in a
//! file that only the person can read, as chosen when the account was set up; the chain, which is
//! public to the account, lies in the store. Nothing here talks to a server.

mod account;
mod body;
mod hardening;
mod keystore;
mod notice;
mod open;
mod seal;

pub use self::account::{AccountRecord, VaultError};
pub use self::body::{BodyProblem, pack_body, unpack_body};
pub use self::hardening::forbid_core_dumps;

pub use self::keystore::{Keystore, KeystoreError, KeystoreKind, Secrets};
pub use self::open::{NotOpened, OpenedBlob, Unlocked};
pub use self::seal::{FreshBlob, LaneWriter};

use std::sync::{Arc, PoisonError, RwLock};

use tidings_crypto::Keyring;
use tidings_proof::{Chain, SignedEntry};
use tokio::sync::Mutex;

use crate::store::{Durability, Store, StoreError};

/// The vault of one daemon. Cheap to clone; clones share it.
#[derive(Debug, Clone)]
pub struct Vault {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: Store,
    keystore: Keystore,
    /// One extension of the chain at a time.
    extending: Mutex<()>,
    /// Keys, chain and account of this moment; none without an account or while locked.
    unlocked: RwLock<Option<Arc<Unlocked>>>,
}

impl Vault {
    /// A vault over the store; `keystore` says where secrets can lie.
    pub fn new(store: Store, keystore: Keystore) -> Self {
        Self {
            shared: Arc::new(Shared {
                store,
                keystore,
                extending: Mutex::new(()),
                unlocked: RwLock::new(None),
            }),
        }
    }

    /// The account as stored; none before there is one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn account(&self) -> Result<Option<AccountRecord>, StoreError> {
        self.shared.store.read(account::read).await
    }

    /// Reads account, chain and secrets, and unlocks the vault with them. False without an
    /// account.
    ///
    /// # Errors
    /// The keychain is locked or its entry is gone, or what is stored is damaged.
    pub async fn unlock(&self) -> Result<bool, VaultError> {
        let stored = self.shared.store.read(|view| {
            let account = account::read(view)?;
            let entries = account::read_chain(view)?;
            Ok::<_, StoreError>(account.map(|account| (account, entries)))
        });
        let Some((record, entries)) = stored.await? else { return Ok(false) };
        let chain = Chain::fold(record.account, &entries).map_err(VaultError::Chain)?;
        let secrets = self.shared.keystore.load(record.keystore).await?;
        let secrets = secrets.ok_or(VaultError::SecretsMissing(record.keystore))?;
        let Secrets { keys, keyring } = secrets;
        if keys.id() != record.device || keyring.account() != record.account {
            return Err(VaultError::WrongSecrets(record.keystore));
        }
        self.set(Unlocked { record, keys, keyring, chain });
        Ok(true)
    }

    /// Keys, chain and account of this moment; none without an account or while locked.
    pub fn unlocked(&self) -> Option<Arc<Unlocked>> {
        self.shared.unlocked.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, unlocked: Unlocked) {
        *self.shared.unlocked.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Arc::new(unlocked));
    }

    /// Where secrets can lie.
    pub fn keystore(&self) -> &Keystore {
        &self.shared.keystore
    }

    /// Keeps a new account: first its secrets, then chain and record, then it is unlocked.
    ///
    /// # Errors
    /// The keychain or the store does not take it; then there is no account.
    pub async fn found(
        &self,
        record: AccountRecord,
        secrets: Secrets,
        entries: Vec<SignedEntry>,
    ) -> Result<(), VaultError> {
        let chain = Chain::fold(record.account, &entries).map_err(VaultError::Chain)?;
        self.shared.keystore.save(record.keystore, &secrets).await?;
        let stored = record.clone();
        let job = move |txn: &mut crate::store::Txn<'_>| {
            account::write(txn, &stored)?;
            account::write_chain(txn, &entries)
        };
        self.shared.store.write(Durability::Synced, job).await?;
        let Secrets { keys, keyring } = secrets;
        self.set(Unlocked { record, keys, keyring, chain });
        Ok(())
    }

    /// Notes that this device stands in the chain: linking is done.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn joined(&self, record: AccountRecord) -> Result<(), VaultError> {
        let stored = record.clone();
        let job = move |txn: &mut crate::store::Txn<'_>| account::write(txn, &stored);
        self.shared.store.write(Durability::Synced, job).await?;
        self.change(|unlocked| unlocked.record = record);
        Ok(())
    }

    /// Forgets an account that this device never came to stand in; one that it does stays.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn forget_joining(&self) -> Result<(), VaultError> {
        if self.account().await?.is_some_and(|record| record.joining) {
            self.shared.store.write(Durability::Synced, account::clear).await?;
            *self.shared.unlocked.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Ok(())
    }

    /// Takes new entries of the chain, each verified against the pinned one, durably. Entries that
    /// are in it already are passed over: two readers may bring the same.
    ///
    /// # Errors
    /// An entry does not fit: then nothing changes.
    pub async fn extend_chain(&self, entries: Vec<SignedEntry>) -> Result<Chain, VaultError> {
        let _one = self.shared.extending.lock().await;
        let current = self.unlocked().ok_or(VaultError::Locked)?;
        let mut chain = current.chain.clone();
        let mut new = Vec::with_capacity(entries.len());
        for entry in entries {
            if chain.hash_at(entry.entry.index) == Some(entry.entry.hash()) {
                continue;
            }
            chain.extend(&entry).map_err(VaultError::Chain)?;
            new.push(entry);
        }
        if new.is_empty() {
            return Ok(chain);
        }
        let new: Arc<[SignedEntry]> = new.into();
        let written = Arc::clone(&new);
        self.shared
            .store
            .write(Durability::Synced, move |txn| account::write_chain(txn, &written))
            .await?;
        self.change(|unlocked| unlocked.chain = chain.clone());
        notice::show(&new, current.record.device);
        Ok(chain)
    }

    /// Takes a key ring with more secrets than before, durably.
    ///
    /// # Errors
    /// The keychain does not take it: then nothing changes.
    pub async fn replace_keyring(&self, keyring: Keyring) -> Result<(), VaultError> {
        let current = self.unlocked().ok_or(VaultError::Locked)?;
        let secrets = Secrets { keys: Arc::clone(&current.keys), keyring: keyring.clone() };
        self.shared.keystore.save(current.record.keystore, &secrets).await?;
        self.change(|unlocked| unlocked.keyring = keyring);
        Ok(())
    }

    /// Changes the unlocked state in place of everyone's next look at it.
    fn change(&self, change: impl FnOnce(&mut Unlocked)) {
        let mut place = self.shared.unlocked.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = place.as_ref() {
            let mut next = current.as_ref().clone();
            change(&mut next);
            *place = Some(Arc::new(next));
        }
    }
}
