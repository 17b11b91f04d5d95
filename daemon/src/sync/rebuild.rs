//! Rebuilding tables that hold more of an unlinked device than counts.
//!
//! A server that lied to whoever unlinked the device may have shown more of it here. What was
//! merged cannot be taken out again, so these tables are emptied and pulled anew from their
//! beginning, without what does not count. What was written here and not sent yet is kept.

use std::collections::BTreeSet;

use tidings_engine::RenewCause;
use tidings_kv::Scan;
use tidings_tables::{Row, RowId, TableName};
use tidings_wire::local::{LogPosition, Origin};
use tidings_wire::{AppId, TableTag};

use super::{Shared, records, renew};
use crate::replica::changes::{Changes, Stored};
use crate::replica::{keys, meta, outbox};
use crate::store::{CommitError, Durability, Reader, StoreError, Txn, damaged};
use crate::vault::Unlocked;

/// Rows that one transaction empties.
const PART_ROWS: usize = 1_000;
/// Changes of one table above which the log does not name the rows.
const BULK: usize = 1_000;

/// Empties the tables of these tags and has them pulled from the beginning.
///
/// # Errors
/// The store; doing it once more is harmless.
pub(super) async fn rebuild(
    shared: &Shared,
    unlocked: &Unlocked,
    app: &AppId,
    tags: &BTreeSet<TableTag>,
) -> Result<(), CommitError<StoreError>> {
    tracing::warn!(%app, tables = tags.len(), "tables held more of an unlinked computer than counts");
    let now = shared.clock.now();
    // A new incarnation first: what was pulled and not stored before does not count from here on,
    // and what this replica wrote is pulled again like everything else.
    renew::renew(&shared.replica, unlocked.record.device, RenewCause::Copied, false, now).await?;
    let name = app.clone();
    let tables = shared.replica.read(move |source| {
        let mut all = Vec::new();
        for (table, _) in meta::tables(source, &name)? {
            all.push(table);
        }
        Ok::<_, StoreError>(all)
    });
    let mine = |table: &TableName| {
        unlocked.tag(app, table.as_str()).is_some_and(|tag| tags.contains(&tag))
    };
    let tables: Vec<TableName> = tables.await?.into_iter().filter(|table| mine(table)).collect();
    for table in &tables {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let (name, table, from) = (app.clone(), table.clone(), after.take());
            let last = shared
                .replica
                .update(app, Durability::Synced, move |txn| {
                    empty(txn, &name, &table, from.as_deref(), now)
                })
                .await?;
            match last {
                Some(key) => after = Some(key),
                None => break,
            }
        }
    }
    let (name, tags) = (app.clone(), tags.clone());
    shared
        .replica
        .update(app, Durability::Synced, move |txn| {
            write_again(txn, &name, &tables, now)?;
            records::forget_lanes(txn, &name, &tags)
        })
        .await
}

/// Empties a part of a table; gives the last key if more follows.
fn empty(
    txn: &mut Txn<'_>,
    app: &AppId,
    table: &TableName,
    after: Option<&[u8]>,
    now_ms: i64,
) -> Result<Option<Vec<u8>>, StoreError> {
    let prefix = keys::table(app, table);
    let mut scan = Scan::prefix(&prefix, PART_ROWS);
    if let Some(after) = after {
        scan = scan.after(after);
    }
    let page = txn.range(keys::ROWS, &scan)?;
    let Some((last, _)) = page.last() else { return Ok(None) };
    let last = last.clone();
    let mut changes = Changes::default();
    for (key, _) in &page {
        let wrong = || damaged(keys::ROWS, key, "not a row's key");
        let id = keys::tail(key, &prefix).ok_or_else(wrong)?;
        let id = RowId::new(id).map_err(|_| wrong())?;
        changes.row(txn, app, table, &id)?.row.state = Row::default();
    }
    store(txn, app, &mut changes, now_ms)?;
    Ok(Some(last))
}

/// Writes what the outbox holds of emptied tables into them again.
fn write_again(
    txn: &mut Txn<'_>,
    app: &AppId,
    tables: &[TableName],
    now_ms: i64,
) -> Result<(), StoreError> {
    const BYTES: usize = 4 << 20;
    let mut position = LogPosition(0);
    loop {
        let transactions = outbox::after(txn, app, position, BYTES)?;
        let Some(last) = transactions.last() else { return Ok(()) };
        position = last.position;
        let mut changes = Changes::default();
        for tx in &transactions {
            for delta in tx.deltas.iter().filter(|delta| tables.contains(&delta.table)) {
                changes.row(txn, app, &delta.table, &delta.row)?.row.state.join(&delta.delta);
            }
        }
        store(txn, app, &mut changes, now_ms)?;
    }
}

fn store(
    txn: &mut Txn<'_>,
    app: &AppId,
    changes: &mut Changes,
    now_ms: i64,
) -> Result<(), StoreError> {
    let Some(mut record) = meta::app(txn, app)? else { return Ok(()) };
    let origin = Origin { client: Origin::REMOTE.to_owned(), mutation_id: None };
    changes.store(txn, app, &mut record, Stored { at: now_ms, origin, bulk_over: BULK })?;
    record.reserve();
    meta::put_app(txn, app, &record)
}
