//! The write path: what apps ask for becomes deltas, rows, log entries and an outbox transaction,
//! all in one job of the committer.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidings_tables::{Clock as Stamps, Object, OpError, Patch, RowId, TableName, ops};
use tidings_wire::local::{LogPosition, Origin, Version};
use tidings_wire::{AppId, Stamp, limits};

use super::changes::{Changes, Stored, Touched};
use super::log;
use super::meta::{self, AppRecord};
use super::outbox::{self, OutboxTx, RowDelta};
use super::{Replica, Shared};
use crate::store::{CommitError, Durability, StoreError, Txn};

/// What an operation does to its row.
#[derive(Debug, Clone, PartialEq)]
pub enum Verb {
    /// Creates it; it must not exist.
    Insert(Object),
    /// Creates or replaces it.
    Put(Object),
    /// Changes columns of it; it must exist.
    Update(Patch),
    /// Deletes it; it must exist.
    Delete,
}

/// What has to hold of the row before an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// It exists.
    Exists,
    /// It exists and its last change is the one at this position.
    Version(LogPosition),
}

/// One operation on one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// The table.
    pub table: TableName,
    /// The row.
    pub id: RowId,
    /// What to do.
    pub verb: Verb,
    /// What has to hold.
    pub condition: Option<Condition>,
}

/// A transaction of an app.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteRequest {
    /// The operations, in order.
    pub operations: Vec<Operation>,
    /// Whether one that is refused takes back all.
    pub atomic: bool,
    /// Who asks.
    pub origin: Origin,
}

/// Most tables of an app: a manifest has room for as many, and for what else it says.
pub const TABLES: usize = limits::MANIFEST_LANES / 4 * 3;

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// The app's position after it.
    pub position: LogPosition,
    /// One result per operation.
    pub results: Vec<Result<Done, Refusal>>,
}

/// What an operation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The row.
    pub id: RowId,
    /// Whether the row came to be by it.
    pub created: bool,
    /// Its version after the transaction; none if it is deleted.
    pub version: Option<Version>,
}

/// Why an operation was refused. Nothing of it was stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The row does not fit the operation.
    #[error(transparent)]
    Operation(#[from] OpError),
    /// The row is not as the condition says.
    #[error("the row is at another version")]
    Condition {
        /// Its last change, if it exists.
        found: Option<LogPosition>,
    },
    /// The transaction would be larger than one push.
    #[error("a transaction may hold {max} bytes", max = limits::PUSH_BODY)]
    TooLarge,
    /// The app would have more tables than its manifests can name, and nothing of it could be
    /// sent any more.
    #[error("an app may have {TABLES} tables")]
    TooManyTables,
    /// No stamp is left.
    #[error(transparent)]
    Clock(#[from] tidings_tables::ClockExhausted),
}

/// Why a transaction was not stored.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// An operation of an atomic transaction was refused.
    #[error("operation {index} was refused: {refusal}")]
    Refused {
        /// Which, from 0.
        index: usize,
        /// Why.
        refusal: Refusal,
    },
    /// The store could not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A fault of this program.
    #[error("the write failed: {0}")]
    Fault(String),
}

impl From<CommitError<WriteError>> for WriteError {
    fn from(error: CommitError<WriteError>) -> Self {
        match error {
            CommitError::Job(error) => error,
            CommitError::Store(error) => Self::Store(error),
            CommitError::Panicked(what) => Self::Fault(what),
        }
    }
}

impl Replica {
    /// Stores a transaction of an app; it is durable when this returns.
    ///
    /// # Errors
    /// Nothing was stored then, except that after [`StoreError::Unknown`] nobody can say.
    pub async fn write(&self, app: &AppId, request: WriteRequest) -> Result<Written, WriteError> {
        let shared = Arc::clone(&self.shared);
        let after = Arc::clone(&self.shared);
        let (job_app, app) = (app.clone(), app.clone());
        let job = move |txn: &mut Txn<'_>| write(&shared, txn, &job_app, request);
        let after = move |(_, record): &(Written, Option<AppRecord>)| {
            if let Some(record) = record {
                after.publish(&app, record);
                after.outbox.send_modify(|count| *count = count.wrapping_add(1));
            }
        };
        let store = &self.shared.store;
        let (written, _) = store.write_then(Durability::Synced, job, after).await?;
        Ok(written)
    }
}

/// The job. The app's record comes back if anything was stored.
fn write(
    shared: &Shared,
    txn: &mut Txn<'_>,
    app: &AppId,
    request: WriteRequest,
) -> Result<(Written, Option<AppRecord>), WriteError> {
    let at = shared.clock.now();
    let mut replica = Replica::identity(txn)?;
    let mut stamps = Stamps::new(replica.incarnation, replica.last_stamp);
    let known = meta::app(txn, app)?;
    let mut position = LogPosition(known.as_ref().map_or(0, |record| record.head));
    let mut record = known.unwrap_or_else(|| AppRecord::new(at));

    let mut changes = Changes::default();
    let mut tables = Tables::default();
    let mut deltas = Vec::new();
    let mut bytes = 0;
    let physical = shared.clock.physical();
    let mut outcomes = Vec::with_capacity(request.operations.len());
    for (index, operation) in request.operations.into_iter().enumerate() {
        let (table, id) = (operation.table.clone(), operation.id.clone());
        let room = tables.admit(txn, app, &table)?;
        let touched = changes.row(txn, app, &table, &id)?;
        let stamped = stamps.next(physical).map_err(Refusal::from);
        let performed = stamped
            .and_then(|stamp| room.then_some(stamp).ok_or(Refusal::TooManyTables))
            .and_then(|stamp| perform(touched, operation, stamp, &mut bytes));
        match performed {
            Ok(Performed { created, delta }) => {
                deltas.extend(delta);
                outcomes.push(Ok((table, id, created)));
            }
            Err(refusal) if request.atomic => return Err(WriteError::Refused { index, refusal }),
            Err(refusal) => outcomes.push(Err(refusal)),
        }
    }

    let stored = !deltas.is_empty();
    if stored {
        // A local transaction names each of its rows.
        changes.store(
            txn,
            app,
            &mut record,
            Stored { at, origin: request.origin, bulk_over: usize::MAX },
        )?;
        position = LogPosition(record.head);
        outbox::put(txn, app, &OutboxTx { position, at, deltas })?;
        record.pending += 1;
        record.reserve();
        log::bound(txn, app, &mut record, shared.log_limits())?;
        meta::put_app(txn, app, &record)?;
        replica.last_stamp = stamps.last();
        meta::put_replica(txn, &replica)?;
        if let Some(freeze) = shared.freeze.get() {
            freeze(txn, app)?;
            // Freezing may have counted something there.
            record = meta::app(txn, app)?.unwrap_or(record);
        }
    }
    let results = outcomes
        .into_iter()
        .map(|outcome| {
            outcome.map(|(table, id, created)| {
                let version = changes.version(&table, &id);
                Done { id, created, version }
            })
        })
        .collect();
    let written = Written { position, results };
    Ok((written, stored.then_some(record)))
}

/// The tables that a transaction writes to.
#[derive(Default)]
struct Tables {
    admitted: BTreeSet<TableName>,
    /// How many more there may be; read with the first new one.
    left: Option<usize>,
}

impl Tables {
    /// Whether the app has the table, or may have one more.
    fn admit(&mut self, txn: &Txn<'_>, app: &AppId, table: &TableName) -> Result<bool, StoreError> {
        if self.admitted.contains(table) {
            return Ok(true);
        }
        if meta::table(txn, app, table)?.is_none() {
            let left = match self.left {
                Some(left) => left,
                None => TABLES.saturating_sub(meta::tables(txn, app)?.len()),
            };
            self.left = Some(left.saturating_sub(1));
            if left == 0 {
                return Ok(false);
            }
        }
        self.admitted.insert(table.clone());
        Ok(true)
    }
}

struct Performed {
    created: bool,
    /// None where nothing was asked for.
    delta: Option<RowDelta>,
}

/// Performs one operation on its row. `bytes` is the size of the transaction so far.
fn perform(
    touched: &mut Touched,
    operation: Operation,
    stamp: Stamp,
    bytes: &mut usize,
) -> Result<Performed, Refusal> {
    let state = &touched.row.state;
    let existed = state.is_alive();
    let found = existed.then_some(touched.row.changed);
    let holds = match operation.condition {
        None => true,
        Some(Condition::Exists) => existed,
        Some(Condition::Version(wanted)) => found == Some(wanted),
    };
    if !holds {
        return Err(Refusal::Condition { found });
    }
    let written = match operation.verb {
        Verb::Insert(columns) => ops::insert(state, columns, stamp),
        Verb::Put(columns) => ops::put(state, columns, stamp),
        Verb::Update(patch) => ops::update(state, &patch, stamp),
        Verb::Delete => ops::delete(state, stamp),
    }?;
    if written.delta.is_empty() {
        return Ok(Performed { created: false, delta: None });
    }
    let delta = RowDelta { table: operation.table, row: operation.id, delta: written.delta };
    *bytes += delta.size();
    if *bytes > limits::PUSH_BODY {
        return Err(Refusal::TooLarge);
    }
    let created = !existed && written.row.is_alive();
    touched.row.state = written.row;
    Ok(Performed { created, delta: Some(delta) })
}
