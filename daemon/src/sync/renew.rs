//! Taking a new incarnation, because this replica's lanes do not fit the server's.
//!
//! Frozen pushes and cursors of all apps go; outboxes and stamps stay. The lanes of the old
//! incarnation become lanes like those of others, known up to what the server took, so that what a
//! copy of this replica wrote in them is pulled. Where the server lost data, every row held here
//! goes into the outbox again: merging makes that harmless, and nothing has to be asked of a server
//! that just showed that it forgets.

use tidings_engine::{LaneKey, LaneState, RenewCause};
use tidings_kv::Scan;
use tidings_proof::Replica as ReplicaId;
use tidings_tables::{RowId, TableName};
use tidings_wire::{AppId, DeviceId};

use super::records;
use crate::replica::outbox::{self, OutboxTx};
use crate::replica::{Replica, RowDelta, StoredRow, keys, meta};
use crate::store::{CommitError, Durability, Reader, StoreError, Txn, damaged};

/// Takes the new incarnation; the old one was `device`'s.
///
/// # Errors
/// Nothing changed then, or only some rows are queued again; doing it once more is harmless.
pub(super) async fn renew(
    replica: &Replica,
    device: DeviceId,
    cause: RenewCause,
    refill: bool,
    now_ms: i64,
) -> Result<(), CommitError<StoreError>> {
    let apps = replica
        .store()
        .write(Durability::Synced, move |txn| {
            let old = Replica::identity(txn)?.incarnation;
            let old = ReplicaId { device, incarnation: old };
            let mut apps = records::apps(txn)?;
            apps.extend(Replica::apps(txn)?.into_iter().map(|(app, _)| app));
            for app in &apps {
                retire(txn, app, old, cause, refill)?;
            }
            Replica::new_incarnation(txn)?;
            Ok::<_, StoreError>(apps)
        })
        .await?;
    if refill {
        for app in apps {
            requeue(replica, &app, now_ms).await?;
        }
    }
    Ok(())
}

/// Ends the old incarnation in one app.
fn retire(
    txn: &mut Txn<'_>,
    app: &AppId,
    old: ReplicaId,
    cause: RenewCause,
    refill: bool,
) -> Result<(), StoreError> {
    for (tag, lane) in records::own_lanes(txn, app)? {
        if lane.acked.seq.0 > 0 {
            let key = LaneKey { replica: old, tag };
            records::put_lane(txn, app, &key, &LaneState::at(lane.acked))?;
        }
    }
    records::clear_own_lanes(txn, app)?;
    records::clear_frozen(txn, app)?;
    let mut record = records::record(txn, app)?;
    (record.cursor, record.start) = (None, None);
    record.refill = refill;
    if refill {
        // What a server dropped without admitting it is no excuse for what it shows of others.
        if cause != RenewCause::Dropped {
            // The loss is dealt with here: the store's life that the next page names is taken.
            record.generation = None;
            record.lost.extend(records::manifests(txn, app)?.into_keys());
        }
        record.lost.insert(old);
    }
    records::put_record(txn, app, &record)
}

/// Puts every row of an app into the outbox, a part at a time, then notes that it is done.
async fn requeue(
    replica: &Replica,
    app: &AppId,
    now_ms: i64,
) -> Result<(), CommitError<StoreError>> {
    let mut scan = Scan::prefix(&keys::app(app), PART_ROWS).bytes(PART_BYTES);
    loop {
        let (name, part) = (app.clone(), scan.clone());
        let last = replica
            .update(app, Durability::Synced, move |txn| requeue_part(txn, &name, &part, now_ms))
            .await?;
        match last {
            Some(key) => scan = scan.after(&key),
            None => return Ok(()),
        }
    }
}

/// Rows and bytes that one transaction of a refill takes.
const PART_ROWS: usize = 1_000;
const PART_BYTES: usize = 1 << 20;

fn requeue_part(
    txn: &mut Txn<'_>,
    app: &AppId,
    scan: &Scan,
    now_ms: i64,
) -> Result<Option<Vec<u8>>, StoreError> {
    let page = txn.range(keys::ROWS, scan)?;
    let Some(mut record) = meta::app(txn, app)? else { return Ok(None) };
    let Some((last, _)) = page.last() else {
        let mut pulled = records::record(txn, app)?;
        pulled.refill = false;
        records::put_record(txn, app, &pulled)?;
        return Ok(None);
    };
    let last = last.clone();
    let mut deltas = Vec::with_capacity(page.len());
    for (key, value) in &page {
        let (table, row) = row_of(app, key)?;
        let delta = StoredRow::decode(value, keys::ROWS, key)?.state;
        deltas.push(RowDelta { table, row, delta });
    }
    // A position of its own in the log, where no entry stands: nothing that is shown changed.
    let position = record.advance();
    record.pending = record.pending.saturating_add(1);
    record.reserve();
    meta::put_app(txn, app, &record)?;
    outbox::put(txn, app, &OutboxTx { position, at: now_ms, deltas })?;
    Ok(Some(last))
}

fn row_of(app: &AppId, key: &[u8]) -> Result<(TableName, RowId), StoreError> {
    let wrong = || damaged(keys::ROWS, key, "not a row's key");
    let rest = keys::tail(key, &keys::app(app)).ok_or_else(wrong)?;
    let (table, row) = rest.split_once('\0').ok_or_else(wrong)?;
    let table = TableName::new(table).map_err(|_| wrong())?;
    Ok((table, RowId::new(row).map_err(|_| wrong())?))
}
