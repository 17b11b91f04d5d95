//! The embedded store: everything of the server in one ordered key-value store (sled, redb, or
//! memory), through `tidings-kv`, which makes acknowledgements true.
//!
//! Writes are jobs that run one after another ([`KvStore::write`]); reads run beside them on
//! blocking threads. `keys` and `records` are the layout, the other files one concern each.

mod account;
mod chain;
mod compact;
mod invite;
mod keys;
mod manifest;
mod open;
mod page;
mod pull;
mod push;
mod records;
mod remove;
mod usage;
mod walk;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tidings_kv::{CommitError, Durability, Store as Kv, StoreError, Txn};
use tidings_wire::sync::{AppHead, ChainHead, DevicePull};
use tidings_wire::{AccountId, AppId, DeviceId, Hash};
use tokio::sync::oneshot;

pub use self::open::{OnFailure, OpenError, Start};
use super::{
    AccountRow, ChainAppend, ChainPage, Compacted, EpochRow, HeadersPage, HeadersRead, Invite,
    NewAccount, NewManifest, Page, Pull, Push, PushLimits, Pushed, Refusal, Reply, Room, Store,
    StoreFault, Usage,
};
use crate::clock::Millis;
use crate::cursor::Timeline;

/// The tables. Keys begin with the account, numbers are big-endian; see `keys`.
pub(crate) mod table {
    pub(crate) const META: &str = "server";
    pub(crate) const ACCOUNTS: &str = "accounts";
    pub(crate) const CHAIN: &str = "chain";
    pub(crate) const KEYRING: &str = "keyring";
    pub(crate) const APPS: &str = "apps";
    pub(crate) const LOG: &str = "log";
    pub(crate) const TAGS: &str = "tags";
    pub(crate) const LANES: &str = "lanes";
    pub(crate) const MANIFEST_HEADS: &str = "manifest_heads";
    pub(crate) const MANIFESTS: &str = "manifests";
    pub(crate) const USAGE: &str = "usage";
    pub(crate) const PULLS: &str = "pulls";
    pub(crate) const INVITES: &str = "invites";

    /// All of them.
    pub(crate) const ALL: &[&str] = &[
        META,
        ACCOUNTS,
        CHAIN,
        KEYRING,
        APPS,
        LOG,
        TAGS,
        LANES,
        MANIFEST_HEADS,
        MANIFESTS,
        USAGE,
        PULLS,
        INVITES,
    ];

    /// Those whose rows belong to one account, the account's own row left out.
    pub(crate) const OF_ACCOUNT: &[&str] =
        &[CHAIN, KEYRING, APPS, LOG, TAGS, LANES, MANIFEST_HEADS, MANIFESTS, USAGE, PULLS];
}

/// The embedded store.
pub struct KvStore {
    kv: Kv,
    token_key: [u8; 32],
    timeline: Timeline,
    /// How far replicas were noted to have pulled, to write only news.
    noted: Mutex<HashMap<(AccountId, AppId, tidings_proof::Replica), DevicePull>>,
    /// The last write found the disk full.
    full: AtomicBool,
}

impl std::fmt::Debug for KvStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KvStore").field("kv", &self.kv).finish_non_exhaustive()
    }
}

impl KvStore {
    /// Runs a job on the committer and waits until it is durable.
    async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Txn<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (sender, receiver) = oneshot::channel();
        self.kv.submit(Durability::Synced, job, move |result| {
            // Whoever asked may be gone; what was written is written.
            let _ = sender.send(result);
        });
        let result = match receiver.await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(CommitError::Job(refusal))) => return Err(refusal),
            Ok(Err(CommitError::Panicked(what))) => Err(StoreFault::Unavailable(what)),
            Ok(Err(CommitError::Store(error))) => Err(error.into()),
            Err(_) => Err(StoreFault::Unavailable("the store is closed".to_owned())),
        };
        self.full.store(matches!(result, Err(StoreFault::Full)), Ordering::Relaxed);
        Ok(result?)
    }

    /// Runs a read on a blocking thread.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Kv) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let kv = self.kv.clone();
        match tokio::task::spawn_blocking(move || read(&kv)).await {
            Ok(result) => result,
            Err(error) => Err(StoreFault::Unavailable(error.to_string()).into()),
        }
    }
}

impl Store for KvStore {
    fn token_key(&self) -> &[u8; 32] {
        &self.token_key
    }

    fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    fn create_account(&self, new: NewAccount) -> Reply<'_, ()> {
        Box::pin(self.write(move |txn| account::create(txn, &new)))
    }

    fn delete_account(&self, account: AccountId) -> Reply<'_, ()> {
        Box::pin(self.remove_account(account))
    }

    fn account(&self, account: AccountId) -> Reply<'_, AccountRow> {
        Box::pin(self.read(move |kv| account::row(kv, account)))
    }

    fn chain(&self, account: AccountId, from: u64, limit: usize) -> Reply<'_, ChainPage> {
        Box::pin(self.read(move |kv| chain::page(kv, account, from, limit)))
    }

    fn append_chain(&self, append: ChainAppend) -> Reply<'_, ()> {
        Box::pin(self.write(move |txn| chain::append(txn, &append)))
    }

    fn keyring(&self, account: AccountId, device: DeviceId) -> Reply<'_, Vec<EpochRow>> {
        Box::pin(self.read(move |kv| chain::keyring(kv, account, device)))
    }

    fn push(&self, push: Push) -> Reply<'_, Pushed> {
        Box::pin(self.push_blobs(push))
    }

    fn pull(&self, pull: Pull) -> Reply<'_, Page> {
        Box::pin(self.pull_page(pull))
    }

    fn headers(&self, headers: HeadersRead) -> Reply<'_, HeadersPage> {
        Box::pin(self.read(move |kv| walk::headers(kv, &headers)))
    }

    fn manifests(&self, account: AccountId, device: DeviceId) -> Reply<'_, Vec<Vec<u8>>> {
        Box::pin(self.read(move |kv| manifest::of_device(kv, account, device)))
    }

    fn put_manifests(
        &self,
        account: AccountId,
        chain: ChainHead,
        manifests: Vec<NewManifest>,
        limits: PushLimits,
    ) -> Reply<'_, usize> {
        Box::pin(self.write(move |txn| manifest::put_back(txn, account, chain, &manifests, limits)))
    }

    fn apps(&self, account: AccountId) -> Reply<'_, Vec<AppHead>> {
        Box::pin(self.read(move |kv| usage::apps(kv, account)))
    }

    fn usage(&self, account: AccountId) -> Reply<'_, Usage> {
        Box::pin(self.read(move |kv| usage::of(kv, account)))
    }

    fn note_pull(&self, account: AccountId, pull: DevicePull) {
        self.note(account, pull);
    }

    fn add_invite(&self, code: Hash, invite: Invite) -> Reply<'_, ()> {
        Box::pin(self.write(move |txn| invite::add(txn, code, &invite)))
    }

    fn invites(&self, now: Millis) -> Reply<'_, Vec<(Hash, Invite)>> {
        Box::pin(self.read(move |kv| invite::list(kv, now)))
    }

    fn revoke_invites(&self, prefix: Vec<u8>) -> Reply<'_, usize> {
        Box::pin(self.write(move |txn| invite::revoke(txn, &prefix)))
    }

    fn compact(&self) -> Reply<'_, Compacted> {
        Box::pin(self.read(compact::compact))
    }

    fn room(&self) -> Reply<'_, Room> {
        Box::pin(self.read(compact::room))
    }

    fn ready(&self) -> Reply<'_, ()> {
        // Monitors see a full disk from the first write that it refused to the next that it took.
        let full = self.full.load(Ordering::Relaxed);
        Box::pin(self.read(
            move |kv| {
                if full { Err(StoreFault::Full.into()) } else { open::ready(kv) }
            },
        ))
    }

    fn close(&self) -> Reply<'_, ()> {
        Box::pin(self.read(|kv| Ok(kv.close()?)))
    }
}

impl From<StoreError> for StoreFault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::StorageFull { .. } => Self::Full,
            StoreError::Busy => Self::Busy,
            StoreError::Damaged(damage) => Self::Damaged(damage.to_string()),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Fault(error.into())
    }
}
