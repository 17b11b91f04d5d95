//! The replica: rows, log, outbox and what the sync side keeps, in one store.
//!
//! A local write is one job of the committer: stamped, merged, logged, queued for the server and
//! durable before it is answered. What arrives from other devices is merged the same way with
//! [`Replica::apply`]. The API reads it through views; it never sees the store.

mod apply;
pub(crate) mod changes;
mod heads;
pub mod keys;
pub mod log;
pub mod meta;
pub mod outbox;
pub mod query;
pub mod restamp;
mod row;
mod write;

use std::sync::{Arc, OnceLock};

use tidings_tables::{Delta, RowId, TableName};
use tidings_wire::local::LogPosition;
use tidings_wire::{AppId, Incarnation, Stamp};
use tokio::sync::watch;

pub use self::apply::{Applied, RemotePush};
pub use self::heads::Heads;
pub use self::log::{Entry, Event};
pub use self::meta::{AppRecord, ReplicaRecord, TableRecord};
pub use self::outbox::{OutboxTx, RowDelta};
pub use self::row::{Image, StoredRow};
pub use self::write::{
    Condition, Done, Operation, Refusal, Verb, WriteError, WriteRequest, Written,
};
use crate::clock::Clock;
use crate::status::Status;
use crate::store::{CommitError, Durability, Reader, Snapshot, Store, StoreError, Txn};

/// Called inside the transaction of every local write, after it was put into the outbox: the sync
/// side may freeze the outbox into a push there, so that an idle device pays one disk sync.
pub type FreezeHook = Arc<dyn Fn(&mut Txn<'_>, &AppId) -> Result<(), StoreError> + Send + Sync>;

/// The replica. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Replica {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    clock: Clock,
    status: Status,
    heads: Heads,
    freeze: OnceLock<FreezeHook>,
    log_limits: OnceLock<log::Limits>,
    outbox: watch::Sender<u64>,
}

impl Replica {
    /// Takes over an open store: makes the replica's record in a fresh one, and after an unclean
    /// stop goes on above the positions that may have been given. Blocks.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn open(
        store: Store,
        clock: Clock,
        status: Status,
    ) -> Result<Self, CommitError<StoreError>> {
        let incarnation = random_incarnation()?;
        let records = store.write_blocking(move |txn| {
            if meta::replica(txn)?.is_none() {
                let record = ReplicaRecord { incarnation, last_stamp: Stamp::ZERO, shown: None };
                meta::put_replica(txn, &record)?;
            }
            let mut records = meta::apps(txn)?;
            for (app, record) in &mut records {
                let head = record.head;
                record.skip_reserve();
                if record.head != head {
                    meta::put_app(txn, app, record)?;
                }
            }
            Ok(records)
        })?;
        let replica = Self {
            shared: Arc::new(Shared {
                store,
                clock,
                status,
                heads: Heads::default(),
                freeze: OnceLock::new(),
                log_limits: OnceLock::new(),
                outbox: watch::Sender::new(0),
            }),
        };
        for (app, record) in &records {
            replica.shared.publish(app, record);
        }
        Ok(replica)
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Sets what freezes the outbox. The first call counts.
    pub fn set_freeze_hook(&self, hook: FreezeHook) {
        let _ = self.shared.freeze.set(hook);
    }

    /// Sets how much the log of each app keeps. The first call counts.
    pub fn limit_logs(&self, limits: log::Limits) {
        let _ = self.shared.log_limits.set(limits);
    }

    /// Changes whenever a local write was put into some app's outbox.
    pub fn outbox_changed(&self) -> watch::Receiver<u64> {
        self.shared.outbox.subscribe()
    }

    /// The head of an app's log, to wait on. Zero while the app does not exist.
    pub fn head(&self, app: &AppId) -> watch::Receiver<LogPosition> {
        self.shared.heads.follow(app)
    }

    /// Reads from a view of this moment.
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
        self.shared.store.read(read).await
    }

    /// Runs a job of the sync side that concerns one app: after its commit the app's status,
    /// head and followers are up to date.
    ///
    /// # Errors
    /// What the job answered, or why it could not be committed.
    pub async fn update<R, E>(
        &self,
        app: &AppId,
        durability: Durability,
        job: impl FnOnce(&mut Txn<'_>) -> Result<R, E> + Send + 'static,
    ) -> Result<R, CommitError<E>>
    where
        R: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (shared, published) = (Arc::clone(&self.shared), app.clone());
        let app = app.clone();
        let job = move |txn: &mut Txn<'_>| {
            let answer = job(txn)?;
            Ok((answer, meta::app(txn, &app)?))
        };
        let after = move |(_, record): &(R, Option<AppRecord>)| {
            if let Some(record) = record {
                shared.publish(&published, record);
            }
        };
        let (answer, _) = self.shared.store.write_then(durability, job, after).await?;
        Ok(answer)
    }

    /// Who this replica is and the last stamp that it gave or saw.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn identity(source: &impl Reader) -> Result<ReplicaRecord, StoreError> {
        meta::replica(source)?.ok_or_else(|| {
            crate::store::damaged(keys::META, keys::REPLICA, "the replica's record is missing")
        })
    }

    /// Gives the replica a new incarnation, because its lanes do not fit the server's. Outbox and
    /// stamps stay.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn new_incarnation(txn: &mut Txn<'_>) -> Result<Incarnation, StoreError> {
        let mut record = Self::identity(txn)?;
        record.incarnation = random_incarnation()?;
        meta::put_replica(txn, &record)?;
        Ok(record.incarnation)
    }

    /// The apps that have data here.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn apps(source: &impl Reader) -> Result<Vec<(AppId, AppRecord)>, StoreError> {
        meta::apps(source)
    }

    /// One row.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn row(
        source: &impl Reader,
        app: &AppId,
        table: &TableName,
        row: &RowId,
    ) -> Result<Option<StoredRow>, StoreError> {
        let key = keys::row(app, table, row);
        let bytes = source.get(keys::ROWS, &key)?;
        bytes.map(|bytes| StoredRow::decode(&bytes, keys::ROWS, &key)).transpose()
    }

    /// Merges into a row what a push says of it, which changes nothing that is shown: only what the
    /// row remembers of what it replaced.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn remember(
        txn: &mut Txn<'_>,
        app: &AppId,
        table: &TableName,
        row: &RowId,
        delta: &Delta,
    ) -> Result<(), StoreError> {
        let Some(mut stored) = Self::row(txn, app, table, row)? else { return Ok(()) };
        if stored.state.join(delta) {
            txn.put(keys::ROWS, keys::row(app, table, row), stored.encode())?;
        }
        Ok(())
    }

    /// Notes what an app declares about a table, as JSON; makes app and table where they are
    /// new.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn declare(
        &self,
        app: &AppId,
        table: &TableName,
        declared: String,
    ) -> Result<(), StoreError> {
        let at = self.shared.clock.now();
        let (job_app, table) = (app.clone(), table.clone());
        let job = move |txn: &mut Txn<'_>| {
            if meta::app(txn, &job_app)?.is_none() {
                meta::put_app(txn, &job_app, &AppRecord::new(at))?;
            }
            let mut record = meta::table(txn, &job_app, &table)?.unwrap_or_default();
            record.declared = Some(declared);
            meta::put_table(txn, &job_app, &table, &record)
        };
        self.update(app, Durability::Synced, job).await.map_err(|error| match error {
            CommitError::Job(error) | CommitError::Store(error) => error,
            CommitError::Panicked(what) => StoreError::Unreadable { reason: what.into() },
        })
    }

    /// Takes away what an app's log holds from before a time, in Unix milliseconds; a part at a
    /// time: true if there may be more.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn trim(&self, app: &AppId, since: i64) -> Result<bool, CommitError<StoreError>> {
        let trimmed = app.clone();
        // A trim that is lost in a power cut is done again.
        self.update(app, Durability::Relaxed, move |txn| log::trim(txn, &trimmed, since)).await
    }

    /// Gives back what was reserved and closes the store. Blocks.
    ///
    /// # Errors
    /// Something could not be written; what was acknowledged is safe.
    pub fn close(&self) -> Result<(), CommitError<StoreError>> {
        let released = self.shared.store.write_blocking(|txn| {
            for (app, mut record) in meta::apps(txn)? {
                record.reserve = record.head;
                meta::put_app(txn, &app, &record)?;
            }
            Ok(())
        });
        self.shared.store.close()?;
        released
    }
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replica").field("store", &self.shared.store.id()).finish_non_exhaustive()
    }
}

impl Shared {
    fn log_limits(&self) -> log::Limits {
        self.log_limits.get().copied().unwrap_or_default()
    }

    /// Tells followers and status where an app stands. Runs on the committer's thread, in the
    /// order of commits.
    fn publish(&self, app: &AppId, record: &AppRecord) {
        let position = LogPosition(record.head);
        self.heads.raise(app, position);
        // With nothing on its way everything up to the head is confirmed.
        let pushed = if record.pending == 0 { record.head } else { record.pushed };
        self.status.change_app(app, |status| {
            status.position = position;
            status.pushed = LogPosition(pushed);
            status.pending = record.pending;
        });
    }
}

fn random_incarnation() -> Result<Incarnation, StoreError> {
    let mut bytes = [0; Incarnation::LEN];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Unreadable {
        reason: format!("the system has no random bytes: {error}").into(),
    })?;
    Ok(Incarnation(bytes))
}

#[cfg(test)]
mod tests;
