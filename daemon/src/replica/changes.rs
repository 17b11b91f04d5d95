//! What one transaction does to rows: collected in memory, then written with its log entries.
//!
//! Local writes and pulled pushes go through here alike. An event is judged by what apps saw
//! before the transaction and what they see after it.

use std::collections::BTreeMap;

use tidings_tables::{RowId, TableName};
use tidings_wire::AppId;
use tidings_wire::local::{ChangeKind, LogPosition, Origin, Version};

use super::log::{self, Append, Event};
use super::meta::{self, AppRecord};
use super::{Image, Replica, StoredRow, keys};
use crate::store::{Reader, StoreError, Txn};

/// Rows that a transaction touches.
#[derive(Debug, Default)]
pub struct Changes {
    rows: Vec<Touched>,
    index: BTreeMap<(TableName, RowId), usize>,
}

/// A row that a transaction touches.
#[derive(Debug)]
pub struct Touched {
    /// Its table.
    pub table: TableName,
    /// Its id.
    pub id: RowId,
    /// What apps saw before the transaction.
    old: Option<Image>,
    /// Its state, changed as the transaction goes on.
    pub row: StoredRow,
    /// Whether the store held it before.
    known: bool,
}

impl Changes {
    /// The row as the transaction left it so far.
    pub fn row(
        &mut self,
        source: &impl Reader,
        app: &AppId,
        table: &TableName,
        id: &RowId,
    ) -> Result<&mut Touched, StoreError> {
        let key = (table.clone(), id.clone());
        let index = match self.index.get(&key) {
            Some(index) => *index,
            None => {
                let stored = Replica::row(source, app, table, id)?;
                let known = stored.is_some();
                let row = stored.unwrap_or_default();
                let old = row.image();
                let (table, id) = key.clone();
                self.rows.push(Touched { table, id, old, row, known });
                self.index.insert(key, self.rows.len() - 1);
                self.rows.len() - 1
            }
        };
        self.rows.get_mut(index).ok_or(StoreError::Closed)
    }

    /// Writes rows, log entries and counts of rows. The app's record is left to the caller.
    pub fn store(
        &mut self,
        txn: &mut Txn<'_>,
        app: &AppId,
        record: &mut AppRecord,
        how: Stored,
    ) -> Result<(), StoreError> {
        let mut per_table: BTreeMap<TableName, TableChange> = BTreeMap::new();
        let mut judged = Vec::with_capacity(self.rows.len());
        for touched in &self.rows {
            let new = touched.row.image();
            let change = per_table.entry(touched.table.clone()).or_default();
            change.rows += i64::from(new.is_some()) - i64::from(touched.old.is_some());
            let event = judge(&touched.id, touched.old.as_ref(), new);
            change.events += usize::from(event.is_some());
            judged.push(event);
        }

        let mut events = Vec::new();
        let mut next = record.head;
        for (touched, event) in self.rows.iter_mut().zip(judged) {
            let Some(mut event) = event else { continue };
            let Some(change) = per_table.get_mut(&touched.table) else { continue };
            if change.events > how.bulk_over {
                let position = *change.bulk.get_or_insert_with(|| {
                    events.push((touched.table.clone(), Event::Bulk));
                    next += 1;
                    LogPosition(next)
                });
                touched.row.changed = position;
                continue;
            }
            next += 1;
            touched.row.changed = LogPosition(next);
            if let Event::Row { new: Some(image), .. } = &mut event {
                image.changed = touched.row.changed;
            }
            events.push((touched.table.clone(), event));
        }
        log::append(txn, app, record, Append { at: how.at, origin: how.origin, events })?;
        let end = LogPosition(record.head);

        for touched in &mut self.rows {
            let row = &mut touched.row;
            // A row that nothing was written to is only looked at, never made.
            if !touched.known && row.state.is_empty() {
                continue;
            }
            row.named = end;
            txn.put(keys::ROWS, keys::row(app, &touched.table, &touched.id), row.encode())?;
            per_table.entry(touched.table.clone()).and_modify(|change| change.writes += 1);
        }
        for (table, change) in per_table {
            if change.writes > 0 {
                count_rows(txn, app, &table, change.rows)?;
            }
        }
        Ok(())
    }

    /// The version of a touched row as apps see it; none if they do not.
    pub fn version(&self, table: &TableName, id: &RowId) -> Option<Version> {
        let index = self.index.get(&(table.clone(), id.clone()))?;
        let row = &self.rows.get(*index)?.row;
        row.state.is_alive().then(|| Version { id: row.state.version(), position: row.changed })
    }
}

/// How a transaction is logged.
#[derive(Debug)]
pub struct Stored {
    /// When, in Unix milliseconds.
    pub at: i64,
    /// Who made it.
    pub origin: Origin,
    /// Rows of one table above which they are logged as one entry without names.
    pub bulk_over: usize,
}

#[derive(Debug, Default)]
struct TableChange {
    rows: i64,
    events: usize,
    writes: usize,
    bulk: Option<LogPosition>,
}

/// What apps are told of a row's change. A soft-deleted row counts as gone.
fn judge(id: &RowId, old: Option<&Image>, new: Option<Image>) -> Option<Event> {
    let old = old.filter(|image| !image.is_soft_deleted());
    let seen = new.as_ref().is_some_and(|image| !image.is_soft_deleted());
    let kind = match (old, seen) {
        (None, false) => return None,
        (None, true) => ChangeKind::Insert,
        (Some(_), false) => ChangeKind::Delete,
        (Some(old), true) => {
            let same = new
                .as_ref()
                .is_some_and(|new| new.version == old.version && new.columns == old.columns);
            if same {
                return None;
            }
            ChangeKind::Update
        }
    };
    let new = if seen { new } else { None };
    Some(Event::Row { kind, row: id.clone(), old: old.cloned(), new })
}

fn count_rows(
    txn: &mut Txn<'_>,
    app: &AppId,
    table: &TableName,
    change: i64,
) -> Result<(), StoreError> {
    let known = meta::table(txn, app, table)?;
    if known.is_some() && change == 0 {
        return Ok(());
    }
    let mut record = known.unwrap_or_default();
    record.rows = record.rows.saturating_add_signed(change);
    meta::put_table(txn, app, table, &record)
}
