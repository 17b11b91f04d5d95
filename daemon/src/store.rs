//! The one seam between async code and the blocking store: writes are jobs for the committer,
//! reads run on the pool for blocking work over a view of one moment.

use std::path::Path;
use std::sync::Arc;

pub use tidings_kv::{CommitError, Durability, ErrorKind, Reader, Scan, Snapshot, StoreError, Txn};
use tidings_kv::{Damage, EngineKind, OpenCheck, Options};
use tokio::sync::{Semaphore, oneshot};

use crate::disk::Disk;
use crate::replica::keys;

/// An open store. Clones share it.
#[derive(Debug, Clone)]
pub struct Store {
    kv: tidings_kv::Store,
    disk: Disk,
    /// One permit for each place in the committer's queue: whoever finds it full waits here
    /// instead of being refused.
    queue: Arc<Semaphore>,
}

/// Owner of the store, in its marker.
const OWNER: &str = "tidings-daemon";
/// Version of what lies in the tables.
const LAYOUT: u32 = 1;
/// Memory for the engine's pages: a desktop has other things to do.
const CACHE: u64 = 32 << 20;
/// Writes that may wait for the committer.
const QUEUE: usize = 1_024;
/// A smaller file is not worth the reading.
const SPARSE_FROM: u64 = 64 << 20;
/// How many times larger than what lies in it a file may be.
const SPARSE: u64 = 4;

impl Store {
    /// Opens the store in a directory, or makes one. Blocks.
    ///
    /// # Errors
    /// See [`StoreError`]: held by another daemon, newer than this program, damaged.
    ///
    /// `on_failure` is called once a commit has failed half way, unless the disk turned read-only.
    pub fn open(
        dir: &Path,
        on_failure: impl Fn(&StoreError) + Send + Sync + 'static,
    ) -> Result<Self, StoreError> {
        let disk = Disk::of(dir);
        let failed = disk.clone();
        let on_failure = move |error: &StoreError| {
            // Reading goes on there, and a new start would not help.
            if !failed.turned_read_only() {
                on_failure(error);
            }
        };
        let store = Self::open_with(Some(dir), disk, EngineKind::Redb, on_failure)?;
        if let Err(error) = store.compact_if_sparse(SPARSE_FROM) {
            // It is only room: what is stored is safe either way.
            tracing::warn!(%error, "the store could not be made smaller");
        }
        Ok(store)
    }

    /// A store that is gone with its last clone; for tests.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn memory() -> Result<Self, StoreError> {
        Self::open_with(None, Disk::of(Path::new("")), EngineKind::Memory, |_| {})
    }

    /// Gives room back to the file system where the file is larger than `from` bytes and more than
    /// four times what lies in it. True if it did.
    fn compact_if_sparse(&self, from: u64) -> Result<bool, StoreError> {
        let size = self.kv.disk_size()?;
        if size <= from || size / SPARSE <= self.kv.check()?.bytes {
            return Ok(false);
        }
        self.kv.compact()?;
        let after = self.kv.disk_size()?;
        tracing::info!(before = size, after, "the store was made smaller");
        Ok(after < size)
    }

    fn open_with(
        dir: Option<&Path>,
        disk: Disk,
        engine: EngineKind,
        on_failure: impl Fn(&StoreError) + Send + Sync + 'static,
    ) -> Result<Self, StoreError> {
        let mut options = Options::new(engine, OWNER, keys::TABLES);
        options.layout = LAYOUT;
        options.check = OpenCheck::Full;
        options.cache = CACHE;
        options.queue = QUEUE;
        options.on_failure = Some(Arc::new(on_failure));
        let kv = match dir {
            Some(dir) => tidings_kv::Store::open(dir, options)?,
            None => tidings_kv::Store::in_memory(options)?,
        };
        Ok(Self { kv, disk, queue: Arc::new(Semaphore::new(QUEUE)) })
    }

    /// Runs a job on the committer and waits for its commit. The job is run even if the caller
    /// stops waiting.
    ///
    /// # Errors
    /// What the job answered, or why it could not be committed.
    pub async fn write<R, E>(
        &self,
        durability: Durability,
        job: impl FnOnce(&mut Txn<'_>) -> Result<R, E> + Send + 'static,
    ) -> Result<R, CommitError<E>>
    where
        R: Send + 'static,
        E: Send + 'static,
    {
        self.write_then(durability, job, |_| ()).await
    }

    /// As [`Store::write`]; `after` runs on the committer's thread once the commit is done, before
    /// anything of a later commit, so it must be quick. It is left out if the job failed.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub async fn write_then<R, E>(
        &self,
        durability: Durability,
        job: impl FnOnce(&mut Txn<'_>) -> Result<R, E> + Send + 'static,
        after: impl FnOnce(&R) + Send + 'static,
    ) -> Result<R, CommitError<E>>
    where
        R: Send + 'static,
        E: Send + 'static,
    {
        let Ok(place) = Arc::clone(&self.queue).acquire_owned().await else {
            return Err(CommitError::Store(StoreError::Closed));
        };
        let (sender, receiver) = oneshot::channel();
        let disk = self.disk.clone();
        self.kv.submit(durability, job, move |result| {
            drop(place);
            if matches!(result, Err(CommitError::Store(StoreError::StorageFull { .. }))) {
                disk.is_full();
            }
            if let Ok(answer) = &result {
                after(answer);
            }
            // Nobody waits any more: the job is done all the same.
            let _ = sender.send(result);
        });
        receiver.await.unwrap_or(Err(CommitError::Store(StoreError::Closed)))
    }

    /// Reads from a view of this moment, away from the async threads.
    ///
    /// # Errors
    /// What the reading code answered, or that the store cannot be read.
    pub async fn read<R, E>(
        &self,
        read: impl FnOnce(&Snapshot) -> Result<R, E> + Send + 'static,
    ) -> Result<R, E>
    where
        R: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let store = self.clone();
        let task = tokio::task::spawn_blocking(move || store.read_blocking(read));
        match task.await {
            Ok(result) => result,
            Err(error) => Err(unreadable(error.to_string()).into()),
        }
    }

    /// As [`Store::read`], on this thread; for start and tests.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn read_blocking<R, E: From<StoreError>>(
        &self,
        read: impl FnOnce(&Snapshot) -> Result<R, E>,
    ) -> Result<R, E> {
        match self.kv.view()? {
            Some(snapshot) => read(&snapshot),
            None => Err(unreadable("the engine has no views").into()),
        }
    }

    /// As [`Store::write`], on this thread and durable; for start and tests.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn write_blocking<R, E>(
        &self,
        job: impl FnOnce(&mut Txn<'_>) -> Result<R, E> + Send + 'static,
    ) -> Result<R, CommitError<E>>
    where
        R: Send + 'static,
        E: Send + 'static,
    {
        self.kv.run(job)
    }

    /// Whether a write goes through: of what is there already, so that nothing is different.
    pub async fn try_write(&self) -> bool {
        let again = |txn: &mut Txn<'_>| {
            if let Some(value) = txn.get(keys::META, keys::REPLICA)? {
                txn.put(keys::META, keys::REPLICA, value)?;
            }
            Ok::<_, StoreError>(())
        };
        self.write(Durability::Synced, again).await.is_ok()
    }

    /// The disk that it lies on.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Names the store for its whole life.
    pub fn id(&self) -> String {
        self.kv.id().to_string()
    }

    /// Whether the store was closed in order before it was opened now.
    pub fn was_clean(&self) -> bool {
        self.kv.was_clean()
    }

    /// The failed commit that stopped the store, if one did.
    pub fn failure(&self) -> Option<StoreError> {
        self.kv.failure()
    }

    /// Finishes what was taken and lets go of the files and the lock. Blocks.
    ///
    /// # Errors
    /// Something could not be written; what was acknowledged is safe.
    pub fn close(&self) -> Result<(), StoreError> {
        self.queue.close();
        self.kv.close()
    }
}

fn unreadable(reason: impl Into<Arc<str>>) -> StoreError {
    StoreError::Unreadable { reason: reason.into() }
}

/// That a record is not what this program writes.
pub fn damaged(table: &str, key: &[u8], what: impl ToString) -> StoreError {
    let place = format!("{table} {}", key.escape_ascii());
    StoreError::Damaged(Damage { place, what: what.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_file_is_made_smaller_and_keeps_what_lies_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), |_| {}).unwrap();
        let key = |n: u32| n.to_be_bytes().to_vec();
        let fill = store.write_blocking(move |txn| {
            (0..400).try_for_each(|n| txn.put(keys::ROWS, key(n), vec![7; 32 << 10]))
        });
        fill.unwrap();
        let empty = store
            .write_blocking(move |txn| (1..400).try_for_each(|n| txn.delete(keys::ROWS, key(n))));
        empty.unwrap();
        let before = store.kv.disk_size().unwrap();
        assert!(!store.compact_if_sparse(before).unwrap(), "small enough");
        assert!(store.compact_if_sparse(0).unwrap());
        assert!(store.kv.disk_size().unwrap() < before / 4);
        let kept = store.read_blocking(|source| source.get(keys::ROWS, &key(0))).unwrap();
        assert_eq!(kept.map(|value| value.len()), Some(32 << 10));
        assert_eq!(store.read_blocking(|source| source.get(keys::ROWS, &key(1))).unwrap(), None);
        store.close().unwrap();
    }
}
