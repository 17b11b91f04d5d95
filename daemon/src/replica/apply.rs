//! What other devices wrote, merged into the replica: one transaction of the log per push, one
//! storage transaction for a whole page together with its cursor.

use std::sync::Arc;

use tidings_tables::Clock as Stamps;
use tidings_wire::AppId;
use tidings_wire::local::{LogPosition, Origin};

use super::changes::{Changes, Stored};
use super::log;
use super::meta::{self, AppRecord};
use super::{Replica, RowDelta};
use crate::store::{CommitError, Durability, StoreError, Txn};

/// Rows of one table in one push above which its log entry does not name them.
const BULK: usize = 1_000;

/// A push of another device, as far as it could be opened.
#[derive(Debug, Clone, PartialEq)]
pub struct RemotePush {
    /// What it wrote.
    pub deltas: Vec<RowDelta>,
    /// Whether it is a part of a run, whose rows are not named in the log.
    pub bulk: bool,
}

/// What became of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// The app's position after it.
    pub position: LogPosition,
}

impl Replica {
    /// Merges pushes in their order, and runs `also` (cursor, lanes, manifests) in the same
    /// transaction. Apps hear of it before the disk has it: a page that a power cut takes back is
    /// pulled again, and positions of the lost stretch are known as such. With
    /// [`Durability::Synced`] this returns once the disk has it, with [`Durability::Relaxed`]
    /// before; it is never stored in part.
    ///
    /// # Errors
    /// Nothing was stored then, except that after [`StoreError::Unknown`] nobody can say.
    pub async fn apply(
        &self,
        app: &AppId,
        pushes: Vec<RemotePush>,
        durability: Durability,
        also: impl FnOnce(&mut Txn<'_>) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<Applied, CommitError<StoreError>> {
        let asked = app.clone();
        let low = self
            .read(move |source| {
                Ok::<_, StoreError>(
                    meta::app(source, &asked)?.is_none_or(|record| record.is_reserve_low()),
                )
            })
            .await?;
        // Positions may be given only if they are reserved on the disk.
        let reserve = low && !pushes.is_empty();
        let first = if reserve { Durability::Synced } else { Durability::Relaxed };

        let at = self.shared.clock.now();
        let limits = self.shared.log_limits();
        let (job_app, app) = (app.clone(), app.clone());
        let job = move |txn: &mut Txn<'_>| {
            let record = merge(txn, &job_app, pushes, at, reserve, limits)?;
            also(txn)?;
            // `also` may have confirmed something of the outbox.
            let record = meta::app(txn, &job_app)?.or(record);
            let position = LogPosition(record.as_ref().map_or(0, |record| record.head));
            Ok((Applied { position }, record))
        };
        let shared = Arc::clone(&self.shared);
        let after = move |(_, record): &(Applied, Option<AppRecord>)| {
            if let Some(record) = record {
                shared.publish(&app, record);
            }
        };
        let (applied, _) = self.shared.store.write_then(first, job, after).await?;
        if durability > first {
            self.shared.store.write(durability, |_| Ok::<_, StoreError>(())).await?;
        }
        Ok(applied)
    }
}

fn merge(
    txn: &mut Txn<'_>,
    app: &AppId,
    pushes: Vec<RemotePush>,
    at: i64,
    reserve: bool,
    limits: log::Limits,
) -> Result<Option<AppRecord>, StoreError> {
    if pushes.is_empty() {
        return Ok(None);
    }
    let mut replica = Replica::identity(txn)?;
    let mut stamps = Stamps::new(replica.incarnation, replica.last_stamp);
    let mut record = meta::app(txn, app)?.unwrap_or_else(|| AppRecord::new(at));
    for push in pushes {
        let mut changes = Changes::default();
        let bulk_over = if push.bulk { 0 } else { BULK };
        for (index, RowDelta { table, row, delta }) in push.deltas.into_iter().enumerate() {
            stamps.observe(delta.version());
            replica.show(delta.version());
            changes.row(txn, app, &table, &row)?.row.state.take(delta);
            if index % BULK == BULK - 1 {
                changes.settle(bulk_over);
            }
        }
        let origin = Origin { client: Origin::REMOTE.to_owned(), mutation_id: None };
        changes.store(txn, app, &mut record, Stored { at, origin, bulk_over })?;
    }
    if reserve {
        record.reserve();
    }
    log::bound(txn, app, &mut record, limits)?;
    meta::put_app(txn, app, &record)?;
    replica.last_stamp = replica.last_stamp.max(stamps.last());
    meta::put_replica(txn, &replica)?;
    Ok(Some(record))
}
