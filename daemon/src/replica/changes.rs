//! What one transaction does to rows: collected in memory, then written with its log entries.
//!
//! Local writes and pulled pushes go through here alike. An event is judged by what apps saw
//! before the transaction and what they see after it.

use std::collections::BTreeMap;

use tidings_tables::{Row, RowId, TableName};
use tidings_wire::local::{ChangeKind, LogPosition, Origin, Version};
use tidings_wire::{AppId, Stamp};

use super::log::{self, Append, Event};
use super::meta::{self, AppRecord};
use super::{Image, Replica, StoredRow, keys};
use crate::store::{Reader, StoreError, Txn};

/// Rows that a transaction touches.
#[derive(Debug, Default)]
pub struct Changes {
    rows: Vec<Touched>,
    index: BTreeMap<TableName, BTreeMap<RowId, usize>>,
    /// Rows that are not settled.
    open: Vec<usize>,
    tables: BTreeMap<TableName, TableChange>,
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
    /// Its state, changed as the transaction goes on; empty once it is settled.
    pub row: StoredRow,
    /// Whether the store held it before.
    known: bool,
    settled: Option<Settled>,
}

/// A row as it is stored, which takes a fifth of the room that its state takes.
#[derive(Debug)]
struct Settled {
    /// The encoding, before it is known where the row stands in the log.
    bytes: Vec<u8>,
    version: Stamp,
    alive: bool,
    event: Option<Event>,
}

#[derive(Debug, Default)]
struct TableChange {
    rows: i64,
    events: usize,
    writes: usize,
    bulk: Option<LogPosition>,
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
        let index = match self.place(table, id) {
            Some(index) => index,
            None => {
                let stored = Replica::row(source, app, table, id)?;
                let known = stored.is_some();
                let row = stored.unwrap_or_default();
                let old = row.image();
                let (table, id) = (table.clone(), id.clone());
                let index = self.rows.len();
                self.index.entry(table.clone()).or_default().insert(id.clone(), index);
                self.rows.push(Touched { table, id, old, row, known, settled: None });
                self.open.push(index);
                index
            }
        };
        let touched = self.rows.get_mut(index).ok_or(StoreError::Closed)?;
        if let Some(settled) = touched.settled.take() {
            let change = self.tables.entry(table.clone()).or_default();
            change.count(touched.old.is_some(), &settled, -1);
            if !settled.bytes.is_empty() {
                touched.row =
                    StoredRow::decode(&settled.bytes, keys::ROWS, id.as_str().as_bytes())?;
            }
            self.open.push(index);
        }
        Ok(touched)
    }

    fn place(&self, table: &TableName, id: &RowId) -> Option<usize> {
        self.index.get(table)?.get(id).copied()
    }

    /// Turns what was touched into what is stored and told, which takes less room. More may be
    /// touched afterwards, the same rows again, too.
    pub fn settle(&mut self, bulk_over: usize) {
        for index in self.open.drain(..) {
            let Some(touched) = self.rows.get_mut(index) else { continue };
            let change = self.tables.entry(touched.table.clone()).or_default();
            let settled = touched.settle(change.events >= bulk_over);
            change.count(touched.old.is_some(), &settled, 1);
            touched.settled = Some(settled);
        }
    }

    /// Writes rows, log entries and counts of rows. The app's record is left to the caller.
    pub fn store(
        &mut self,
        txn: &mut Txn<'_>,
        app: &AppId,
        record: &mut AppRecord,
        how: Stored,
    ) -> Result<(), StoreError> {
        self.settle(how.bulk_over);
        let mut events = Vec::new();
        let mut next = record.head;
        for touched in &mut self.rows {
            let event = touched.settled.as_mut().and_then(|settled| settled.event.take());
            let Some(mut event) = event else { continue };
            let Some(change) = self.tables.get_mut(&touched.table) else { continue };
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
            touched.row.named = end;
            let Some(settled) = &mut touched.settled else { continue };
            let mut bytes = std::mem::take(&mut settled.bytes);
            if bytes.is_empty() {
                continue;
            }
            touched.row.place(&mut bytes);
            txn.put(keys::ROWS, keys::row(app, &touched.table, &touched.id), bytes)?;
            if let Some(change) = self.tables.get_mut(&touched.table) {
                change.writes += 1;
            }
        }
        for (table, change) in &self.tables {
            if change.writes > 0 {
                count_rows(txn, app, table, change.rows)?;
            }
        }
        Ok(())
    }

    /// The version of a touched row as apps see it; none if they do not.
    pub fn version(&self, table: &TableName, id: &RowId) -> Option<Version> {
        let touched = self.rows.get(self.place(table, id)?)?;
        let state = &touched.row.state;
        let (alive, id) = match &touched.settled {
            Some(settled) => (settled.alive, settled.version),
            None => (state.is_alive(), state.version()),
        };
        alive.then_some(Version { id, position: touched.row.changed })
    }
}

impl Touched {
    /// `many`: the transaction changes so many rows of the table that none is named.
    fn settle(&mut self, many: bool) -> Settled {
        let state = &self.row.state;
        let (version, alive) = (state.version(), state.is_alive());
        let event = if many && self.old.is_none() {
            let seen = alive && !state.is_soft_deleted();
            seen.then_some(Event::Bulk)
        } else {
            judge(&self.id, self.old.as_ref(), self.row.image())
        };
        // A row that nothing was written to is only looked at, never made.
        let made = self.known || !state.is_empty();
        let bytes = if made { self.row.encode() } else { Vec::new() };
        self.row.state = Row::default();
        Settled { bytes, version, alive, event }
    }
}

impl TableChange {
    /// Counts a settled row in, or out again with -1.
    fn count(&mut self, was_shown: bool, settled: &Settled, by: i64) {
        self.rows += by * (i64::from(settled.alive) - i64::from(was_shown));
        if settled.event.is_some() {
            self.events = if by < 0 { self.events.saturating_sub(1) } else { self.events + 1 };
        }
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
