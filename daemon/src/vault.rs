//! The vault: this device's keys, the account's epoch secrets and the pinned device chain.
//!
//! Everything that needs a secret happens here. The secrets lie in the desktop's keychain or in a
//! file that only the person can read, as chosen when the account was set up; the chain, which is
//! public to the account, lies in the store. Nothing here talks to a server.

mod account;
mod anchors;
mod body;
mod hardening;
mod keystore;
mod notice;
mod open;
mod seal;

pub use self::account::{AccountRecord, Intent, VaultError};
pub use self::anchors::{Anchor, Anchored, Anchors};
pub use self::body::{BodyProblem, pack_body, unpack_body};
pub use self::hardening::forbid_core_dumps;

pub use self::keystore::{Keystore, KeystoreError, KeystoreKind, Secrets};
pub use self::open::{NotOpened, OpenedBlob, Unlocked};
pub use self::seal::{FreshBlob, LaneWriter};

use std::sync::{Arc, PoisonError, RwLock};

use tidings_crypto::{EpochSecret, Keyring};
use tidings_proof::{Chain, Replica, SignedEntry};
use tidings_wire::{AppId, DeviceId, Epoch};
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
    /// One change of what the keystore holds at a time.
    saving: Mutex<()>,
    /// What the keystore holds beyond the key ring: secrets of epochs that were about to be
    /// started. They count once the chain has the entry.
    prepared: RwLock<Option<Keyring>>,
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
                saving: Mutex::new(()),
                prepared: RwLock::new(None),
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
    /// The keychain is locked or its entry is gone, or what is stored is damaged;
    /// [`VaultError::Revoked`] once the chain says that this device was unlinked: then its secrets
    /// are taken away.
    pub async fn unlock(&self) -> Result<bool, VaultError> {
        let stored = self.shared.store.read(|view| {
            let account = account::read(view)?;
            let entries = account::read_chain(view)?;
            let anchors = anchors::read(view)?;
            Ok::<_, StoreError>(account.map(|account| (account, entries, anchors)))
        });
        let Some((record, entries, anchors)) = stored.await? else { return Ok(false) };
        let chain = Chain::fold(record.account, &entries).map_err(VaultError::Chain)?;
        if !record.joining && is_revoked(&chain, record.device) {
            self.wipe(&record).await?;
            return Err(VaultError::Revoked);
        }
        let secrets = self.shared.keystore.load(record.keystore).await?;
        let secrets = secrets.ok_or(VaultError::SecretsMissing(record.keystore))?;
        let Secrets { keys, keyring: stored } = secrets;
        if keys.id() != record.device || stored.account() != record.account {
            return Err(VaultError::WrongSecrets(record.keystore));
        }
        let mut keyring = Keyring::new(record.account);
        keyring.adopt(&chain, &stored);
        self.prepare_from(stored);
        self.set(Unlocked { record, keys, keyring, chain, anchors: Arc::new(anchors) });
        Ok(true)
    }

    /// Whether the stored chain says that this device was unlinked.
    ///
    /// # Errors
    /// The store cannot be read, or the chain does not verify.
    pub async fn is_retired(&self) -> Result<bool, VaultError> {
        let stored = self.shared.store.read(|view| {
            let account = account::read(view)?;
            let entries = account::read_chain(view)?;
            Ok::<_, StoreError>(account.map(|account| (account, entries)))
        });
        let Some((record, entries)) = stored.await? else { return Ok(false) };
        let chain = Chain::fold(record.account, &entries).map_err(VaultError::Chain)?;
        Ok(!record.joining && is_revoked(&chain, record.device))
    }

    /// Takes this device's secrets away, if the pinned chain says that it was unlinked; true if it
    /// does. The server's word alone does nothing here.
    ///
    /// # Errors
    /// The keychain does not let go of them now.
    pub async fn retire(&self) -> Result<bool, VaultError> {
        let Some(current) = self.unlocked() else { return Ok(false) };
        if current.record.joining || !is_revoked(&current.chain, current.record.device) {
            return Ok(false);
        }
        self.wipe(&current.record).await?;
        Ok(true)
    }

    async fn wipe(&self, record: &AccountRecord) -> Result<(), VaultError> {
        let _one = self.shared.saving.lock().await;
        self.lock();
        self.shared.keystore.wipe(record.keystore).await?;
        tracing::warn!("this computer was unlinked; its keys were taken away");
        Ok(())
    }

    /// Forgets in memory what was unlocked.
    fn lock(&self) {
        *self.shared.unlocked.write().unwrap_or_else(PoisonError::into_inner) = None;
        *self.shared.prepared.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn prepare_from(&self, stored: Keyring) {
        *self.shared.prepared.write().unwrap_or_else(PoisonError::into_inner) = Some(stored);
    }

    fn prepared(&self) -> Option<Keyring> {
        self.shared.prepared.read().unwrap_or_else(PoisonError::into_inner).clone()
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
            account::keep_former(txn)?;
            account::write(txn, &stored)?;
            account::write_chain(txn, &entries)
        };
        self.shared.store.write(Durability::Synced, job).await?;
        let Secrets { keys, keyring } = secrets;
        self.prepare_from(keyring.clone());
        self.set(Unlocked { record, keys, keyring, chain, anchors: Arc::default() });
        Ok(())
    }

    /// Notes that this device stands in the chain: linking is done.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn joined(&self, record: AccountRecord) -> Result<(), VaultError> {
        let stored = record.clone();
        let job = move |txn: &mut crate::store::Txn<'_>| {
            account::forget_former(txn)?;
            account::write(txn, &stored)
        };
        self.shared.store.write(Durability::Synced, job).await?;
        self.change(|unlocked| unlocked.record = record);
        Ok(())
    }

    /// Forgets an account that this device never came to stand in; one that it does stays, and one
    /// that it was unlinked from before is as it was.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn forget_joining(&self) -> Result<(), VaultError> {
        if self.account().await?.is_some_and(|record| record.joining) {
            self.shared.store.write(Durability::Synced, account::clear).await?;
            self.lock();
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
        let prepared = self.prepared();
        self.change(|unlocked| {
            unlocked.chain = chain.clone();
            if let Some(prepared) = &prepared {
                unlocked.keyring.adopt(&unlocked.chain, prepared);
            }
        });
        notice::show(&new, current.record.device);
        Ok(chain)
    }

    /// Takes a key ring with more secrets than before, durably.
    ///
    /// # Errors
    /// The keychain does not take it: then nothing changes.
    pub async fn replace_keyring(&self, keyring: Keyring) -> Result<(), VaultError> {
        let _one = self.shared.saving.lock().await;
        self.save(&keyring).await?;
        self.change(|unlocked| unlocked.keyring = keyring);
        Ok(())
    }

    /// Keeps the secret of an epoch, durably, before the entry that starts it is sent: whatever
    /// becomes of the answer, or of this process, what is sealed in that epoch can be opened.
    /// `chain` is the chain with the entry.
    ///
    /// # Errors
    /// The keychain does not take it: then the entry must not be sent.
    pub async fn prepare(
        &self,
        chain: &Chain,
        epoch: Epoch,
        secret: EpochSecret,
    ) -> Result<(), VaultError> {
        let _one = self.shared.saving.lock().await;
        let current = self.unlocked().ok_or(VaultError::Locked)?;
        let mut keyring = current.keyring.clone();
        keyring.insert(chain, epoch, secret)?;
        self.save(&keyring).await
    }

    /// Saves a key ring, with what was prepared and is not in it.
    async fn save(&self, keyring: &Keyring) -> Result<(), VaultError> {
        let current = self.unlocked().ok_or(VaultError::Locked)?;
        let stored = match self.prepared() {
            Some(prepared) => prepared.joined(keyring),
            None => keyring.clone(),
        };
        let secrets = Secrets { keys: Arc::clone(&current.keys), keyring: stored };
        self.shared.keystore.save(current.record.keystore, &secrets).await?;
        self.prepare_from(secrets.keyring);
        Ok(())
    }

    /// Takes what counts of an unlinked device's replica, durably.
    ///
    /// # Errors
    /// The store does not take it: then nothing changes.
    pub async fn anchor(
        &self,
        app: AppId,
        replica: Replica,
        lanes: Anchored,
    ) -> Result<(), VaultError> {
        let (name, stored) = (app.clone(), lanes.clone());
        let job =
            move |txn: &mut crate::store::Txn<'_>| anchors::write(txn, &name, replica, &stored);
        self.shared.store.write(Durability::Synced, job).await?;
        self.change(|unlocked| {
            let mut anchors = unlocked.anchors.as_ref().clone();
            anchors.insert(app, replica, lanes);
            unlocked.anchors = Arc::new(anchors);
        });
        Ok(())
    }

    /// What a person asked for and is not done yet, for the next start.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn intent(&self) -> Result<Option<Intent>, StoreError> {
        self.shared.store.read(account::read_intent).await
    }

    /// Notes durably what a person asked for, or that it is done.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn intend(&self, intent: Option<Intent>) -> Result<(), VaultError> {
        let job =
            move |txn: &mut crate::store::Txn<'_>| account::write_intent(txn, intent.as_ref());
        Ok(self.shared.store.write(Durability::Synced, job).await?)
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

/// Whether a device stands in the chain as unlinked.
fn is_revoked(chain: &Chain, device: DeviceId) -> bool {
    chain.devices().get(&device).is_some_and(|device| !device.is_active())
}
