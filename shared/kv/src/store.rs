//! An open store: reads from any thread, writes through the committer.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, mpsc},
};

use crate::{
    CheckReport, CommitError, Compaction, Durability, EngineKind, Found, Generation, Reader,
    Rewrite, Row, Scan, Snapshot, StoreError, StoreId, Txn, check,
    committer::{Committer, Job, Keeper},
    lock::Lock,
    marker::Marker,
    records::{Records, guarded},
};

/// A durable, ordered key-value store with a small fixed set of tables.
///
/// Clones share it. Reads ([`Reader`], [`Store::view`]) come from any thread and see only what is
/// durable, or was committed as relaxed. Writes are jobs: closures that read and write a [`Txn`],
/// run one after another on the committer's thread, share commits, and are acknowledged after the
/// sync. A job must not wait for another job. [`Store::close`] ends it in order; dropping the last
/// clone does the same without saying what went wrong.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

/// What an opened store is made of.
pub(crate) struct Parts {
    pub(crate) dir: Option<PathBuf>,
    pub(crate) records: Arc<Records>,
    pub(crate) keeper: Arc<Mutex<Keeper>>,
    pub(crate) committer: Committer,
    pub(crate) lock: Mutex<Option<Lock>>,
    pub(crate) clean: bool,
    pub(crate) engine: EngineKind,
}

struct Inner {
    parts: Parts,
    /// Whether the store was closed.
    closed: Mutex<bool>,
}

impl Store {
    pub(crate) fn new(parts: Parts) -> Self {
        Self { inner: Arc::new(Inner { parts, closed: Mutex::new(false) }) }
    }

    /// Runs a write job and waits until it is durable. Must not be called from inside a job.
    ///
    /// # Errors
    /// What the job answered, or why it could not be committed; then nothing of it is stored,
    /// except that after [`StoreError::Unknown`] nobody can say.
    pub fn run<R, E>(
        &self,
        job: impl FnOnce(&mut Txn<'_>) -> Result<R, E> + Send + 'static,
    ) -> Result<R, CommitError<E>>
    where
        R: Send + 'static,
        E: Send + 'static,
    {
        self.run_as(Durability::Synced, job)
    }

    /// [`Store::run`] with a choice of durability. A relaxed job may still be synced, with others.
    ///
    /// # Errors
    /// As [`Store::run`].
    pub fn run_as<R, E>(
        &self,
        durability: Durability,
        job: impl FnOnce(&mut Txn<'_>) -> Result<R, E> + Send + 'static,
    ) -> Result<R, CommitError<E>>
    where
        R: Send + 'static,
        E: Send + 'static,
    {
        let committer = &self.inner.parts.committer;
        if committer.is_current() {
            return Err(CommitError::Store(StoreError::Busy));
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        let ack = move |result| {
            // The receiver is gone only if this thread is.
            let _ = sender.send(result);
        };
        committer.enqueue((durability, Box::new(Job::new(job, ack))))?;
        receiver.recv().unwrap_or(Err(CommitError::Store(StoreError::Closed)))
    }

    /// Hands a write job over without waiting. `ack` is called exactly once, after the sync, on
    /// the committer's thread, so it must be quick; if the job cannot be taken ([`StoreError::Busy`]
    /// when the queue is full, [`StoreError::Closed`]), it is called at once, on this thread.
    pub fn submit<R, E>(
        &self,
        durability: Durability,
        job: impl FnOnce(&mut Txn<'_>) -> Result<R, E> + Send + 'static,
        ack: impl FnOnce(Result<R, CommitError<E>>) + Send + 'static,
    ) where
        R: Send + 'static,
        E: Send + 'static,
    {
        let job = Box::new(Job::new(job, ack));
        if let Err(((_, job), error)) = self.inner.parts.committer.offer((durability, job)) {
            job.acknowledge(Err(error));
        }
    }

    /// A consistent view of this moment; none if the engine has no such thing (sled).
    ///
    /// # Errors
    /// The engine could not read.
    pub fn view(&self) -> Result<Option<Snapshot>, StoreError> {
        Snapshot::take(&self.inner.parts.records)
    }

    /// One page of rows, with damaged records in their places instead of an error.
    ///
    /// # Errors
    /// The table is unknown or the engine could not read.
    pub fn survey(&self, table: &str, scan: &Scan) -> Result<Vec<Found>, StoreError> {
        self.inner.parts.records.survey(table, scan)
    }

    /// Bytes that the data takes on disk.
    ///
    /// # Errors
    /// The files could not be looked at.
    pub fn disk_size(&self) -> Result<u64, StoreError> {
        self.inner.parts.records.engine.disk_size()
    }

    /// Bytes of all keys and values in the store, as it keeps them, if the engine keeps count
    /// (sled): what [`Store::disk_size`] is to be compared with.
    ///
    /// # Errors
    /// The store is closed.
    pub fn live_size(&self) -> Result<Option<u64>, StoreError> {
        self.inner.parts.records.engine.live_size()
    }

    /// Gives space back to the file system, where the engine can, and waits until that is done.
    ///
    /// On sled this is a rewrite of everything that is live into a fresh directory. Reads and
    /// writes go on meanwhile, and [`Store::rewrite`] says how far it is; it takes as much room
    /// again as the result, and memory for a second cache. sled's stores also begin it by
    /// themselves ([`Options::rewrite_ratio`](crate::Options::rewrite_ratio)). On redb commits
    /// and reads wait, and no view may be open.
    ///
    /// # Errors
    /// [`StoreError::StorageFull`] if there is too little room, or whatever else the engine
    /// failed at; what is stored is safe, and only after [`StoreError::Unknown`] the store takes
    /// no more writes. It is [`StoreError::Busy`] inside a job, and on redb while somebody reads.
    pub fn compact(&self) -> Result<Compaction, StoreError> {
        let committer = &self.inner.parts.committer;
        if committer.is_current() {
            return Err(StoreError::Busy);
        }
        committer.compact()
    }

    /// How far a rewrite under way has come; none if there is none.
    pub fn rewrite(&self) -> Option<Rewrite> {
        self.inner.parts.records.engine.rewrite()
    }

    /// Reads and verifies everything.
    ///
    /// # Errors
    /// The engine's own structures are damaged or could not be read. Damaged records are not an
    /// error but in the report.
    pub fn check(&self) -> Result<CheckReport, StoreError> {
        check::check(&self.inner.parts.records)
    }

    /// Name of the store for its whole life.
    pub fn id(&self) -> StoreId {
        self.marker(|marker| marker.store)
    }

    /// Name of the present life of the store.
    pub fn generation(&self) -> Generation {
        self.marker(|marker| marker.generation)
    }

    /// Begins a new life, as after a restore; durable on return.
    ///
    /// # Errors
    /// The marker could not be written.
    pub fn renew_generation(&self) -> Result<Generation, StoreError> {
        let generation = Generation::random()?;
        self.change(|keeper| keeper.set_generation(generation))?;
        Ok(generation)
    }

    /// Version of the table layout that the store has, which may be older than the one in the
    /// options: then the owner migrates and calls [`Store::set_layout`] last.
    pub fn layout(&self) -> u32 {
        self.marker(|marker| marker.layout)
    }

    /// Notes that the tables have this layout now; durable on return.
    ///
    /// # Errors
    /// The marker could not be written.
    pub fn set_layout(&self, layout: u32) -> Result<(), StoreError> {
        self.change(|keeper| keeper.set_layout(layout))
    }

    /// Whether the store had been closed in order (or was made) before it was opened now.
    pub fn was_clean(&self) -> bool {
        self.inner.parts.clean
    }

    /// The failed commit that stopped the store, if one did.
    pub fn failure(&self) -> Option<StoreError> {
        self.inner.parts.committer.failure()
    }

    /// The engine's kind.
    pub fn engine(&self) -> EngineKind {
        self.inner.parts.engine
    }

    /// The store's directory; none in memory.
    pub fn dir(&self) -> Option<&Path> {
        self.inner.parts.dir.as_deref()
    }

    /// Finishes the jobs that were taken, closes the engine, marks the store clean and lets go of
    /// the lock. Later calls on any clone answer [`StoreError::Closed`]. Must not be called from
    /// inside a job.
    ///
    /// # Errors
    /// Something could not be written, or a commit had failed before; what was acknowledged as
    /// synced is safe.
    pub fn close(&self) -> Result<(), StoreError> {
        self.inner.close()
    }

    fn marker<T>(&self, read: impl FnOnce(&Marker) -> T) -> T {
        self.keeper(|keeper| read(keeper.marker()))
    }

    /// Changes the marker, which belongs to whoever holds the lock.
    fn change(
        &self,
        work: impl FnOnce(&mut Keeper) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let closed = self.inner.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if *closed {
            return Err(StoreError::Closed);
        }
        self.keeper(work)
    }

    fn keeper<T>(&self, work: impl FnOnce(&mut Keeper) -> T) -> T {
        work(&mut self.inner.parts.keeper.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inner {
    fn close(&self) -> Result<(), StoreError> {
        let Parts { records, keeper, committer, lock, .. } = &self.parts;
        if committer.is_current() {
            return Err(StoreError::Busy);
        }
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *closed, true) {
            return Ok(());
        }
        committer.drain();
        let ended = guarded(|| records.engine.close());
        let ended = match committer.failure() {
            Some(failure) => Err(failure),
            None => {
                ended.and_then(|()| keeper.lock().unwrap_or_else(PoisonError::into_inner).clean())
            }
        };
        // Last: nobody else may open the files before they are let go of.
        drop(lock.lock().unwrap_or_else(PoisonError::into_inner).take());
        ended
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "the store was not closed in order");
        }
    }
}

impl Reader for Store {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.parts.records.get(table, key)
    }

    fn range(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        self.inner.parts.records.range(table, scan)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("engine", &self.inner.parts.engine)
            .field("dir", &self.inner.parts.dir)
            .finish_non_exhaustive()
    }
}
