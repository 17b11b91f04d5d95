//! The log of an app: every change that apps could see, written in the row's own transaction.
//!
//! Streams are cursors on it, so they can neither miss a change nor fill a queue. It is trimmed
//! by age, count and size.

use std::ops::Bound;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use tidings_kv::Scan;
use tidings_tables::cbor::{decode_object, encode_object};
use tidings_tables::{RowId, TableName};
use tidings_wire::local::{ChangeKind, LogPosition, Origin};
use tidings_wire::{AppId, Stamp};

use super::keys::LOG;
use super::meta::{self, AppRecord};
use super::{Image, keys};
use crate::store::{Reader, StoreError, Txn, damaged};

/// What an entry of the log says.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// One row changed.
    Row {
        /// What happened to it.
        kind: ChangeKind,
        /// Its id.
        row: RowId,
        /// What it was before; none for an insert.
        old: Option<Image>,
        /// What it is now; none for a delete.
        new: Option<Image>,
    },
    /// Many rows of the table changed that are not named.
    Bulk,
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its place.
    pub position: LogPosition,
    /// The first position of its transaction.
    pub tx: LogPosition,
    /// Whether the transaction ends with it.
    pub tx_last: bool,
    /// When it was stored here, in Unix milliseconds.
    pub at: i64,
    /// The table.
    pub table: TableName,
    /// Who made it.
    pub origin: Origin,
    /// What happened.
    pub event: Event,
}

#[derive(Encode, Decode)]
struct StoredImage {
    #[n(0)]
    version: Stamp,
    #[n(1)]
    changed: u64,
    #[n(2)]
    columns: ByteVec,
}

#[derive(Encode, Decode)]
struct StoredEntry {
    #[n(0)]
    tx: u64,
    #[n(1)]
    tx_last: bool,
    #[n(2)]
    at: i64,
    #[n(3)]
    table: String,
    /// 0 insert, 1 update, 2 delete, 3 bulk.
    #[n(4)]
    kind: u8,
    #[n(5)]
    row: Option<String>,
    #[n(6)]
    old: Option<StoredImage>,
    #[n(7)]
    new: Option<StoredImage>,
    #[n(8)]
    client: String,
    #[n(9)]
    mutation_id: Option<String>,
}

impl StoredImage {
    fn of(image: &Image) -> Self {
        Self {
            version: image.version,
            changed: image.changed.0,
            columns: encode_object(&image.columns).into(),
        }
    }

    fn read(self, key: &[u8]) -> Result<Image, StoreError> {
        let columns = decode_object(&self.columns).map_err(|error| damaged(LOG, key, error))?;
        Ok(Image { version: self.version, changed: LogPosition(self.changed), columns })
    }
}

impl Entry {
    fn encode(&self) -> Vec<u8> {
        let (kind, row, old, new) = match &self.event {
            Event::Bulk => (3, None, None, None),
            Event::Row { kind, row, old, new } => {
                (*kind as u8, Some(row.as_str().to_owned()), old.as_ref(), new.as_ref())
            }
        };
        meta::encode(&StoredEntry {
            tx: self.tx.0,
            tx_last: self.tx_last,
            at: self.at,
            table: self.table.as_str().to_owned(),
            kind,
            row,
            old: old.map(StoredImage::of),
            new: new.map(StoredImage::of),
            client: self.origin.client.clone(),
            mutation_id: self.origin.mutation_id.clone(),
        })
    }

    fn decode(key: &[u8], bytes: &[u8]) -> Result<Self, StoreError> {
        let wrong = |what: &str| damaged(LOG, key, what);
        let stored: StoredEntry = meta::decode(bytes, LOG, key)?;
        let event = match (ChangeKind::ALL.get(usize::from(stored.kind)), stored.row) {
            (Some(kind), Some(row)) => Event::Row {
                kind: *kind,
                row: RowId::new(row).map_err(|_| wrong("not a row id"))?,
                old: stored.old.map(|image| image.read(key)).transpose()?,
                new: stored.new.map(|image| image.read(key)).transpose()?,
            },
            (None, None) if stored.kind == 3 => Event::Bulk,
            _ => return Err(wrong("an entry of no known kind")),
        };
        Ok(Self {
            position: keys::position_of(key).ok_or_else(|| wrong("a key without position"))?,
            tx: LogPosition(stored.tx),
            tx_last: stored.tx_last,
            at: stored.at,
            table: TableName::new(stored.table).map_err(|_| wrong("not a table name"))?,
            origin: Origin { client: stored.client, mutation_id: stored.mutation_id },
            event,
        })
    }
}

/// What one transaction adds to the log: `(table, event)` in the order of first touch.
pub struct Append {
    /// When, in Unix milliseconds.
    pub at: i64,
    /// Who.
    pub origin: Origin,
    /// What.
    pub events: Vec<(TableName, Event)>,
}

/// Appends one transaction, giving each entry its position, and at least one position even where
/// nothing is logged, so that every transaction has one of its own. The position of entry `i` is
/// `first + i`, where `first` is the position after the head as it was.
pub fn append(
    txn: &mut Txn<'_>,
    app: &AppId,
    record: &mut AppRecord,
    append: Append,
) -> Result<(), StoreError> {
    let tx = LogPosition(record.head + 1);
    let count = append.events.len();
    for (index, (table, event)) in append.events.into_iter().enumerate() {
        let entry = Entry {
            position: record.advance(),
            tx,
            tx_last: index + 1 == count,
            at: append.at,
            table,
            origin: append.origin.clone(),
            event,
        };
        let bytes = entry.encode();
        record.log_entries += 1;
        record.log_bytes += bytes.len() as u64;
        txn.put(LOG, keys::position(app, entry.position), bytes)?;
    }
    if count == 0 {
        record.advance();
    }
    Ok(())
}

/// Entries above `after`, in order, up to and including `head`: at most `rows` of them and about
/// `bytes` bytes.
pub fn read(
    source: &impl Reader,
    app: &AppId,
    after: LogPosition,
    head: LogPosition,
    rows: usize,
    bytes: usize,
) -> Result<Vec<Entry>, StoreError> {
    let scan = Scan::bounds(
        Bound::Excluded(keys::position(app, after)),
        Bound::Included(keys::position(app, head)),
        rows,
    )
    .bytes(bytes);
    let page = source.range(LOG, &scan)?;
    page.iter().map(|(key, value)| Entry::decode(key, value)).collect()
}

/// The position of the oldest entry kept.
pub fn oldest(source: &impl Reader, app: &AppId) -> Result<Option<LogPosition>, StoreError> {
    let page = source.range(LOG, &Scan::prefix(&keys::app(app), 1))?;
    Ok(page.first().and_then(|(key, _)| keys::position_of(key)))
}

/// How much of a log is kept at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Entries.
    pub entries: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 1_000_000, bytes: 256 << 20 }
    }
}

/// Takes away what is over the limits, oldest first, in the transaction that added to the log:
/// so it never grows past them, whatever is written. The caller stores the record.
pub fn bound(
    txn: &mut Txn<'_>,
    app: &AppId,
    record: &mut AppRecord,
    limits: Limits,
) -> Result<(), StoreError> {
    let over =
        |record: &AppRecord| record.log_entries > limits.entries || record.log_bytes > limits.bytes;
    while over(record) {
        if !trim_while(txn, app, record, |record, _| over(record))? {
            break;
        }
    }
    Ok(())
}

/// Takes away entries stored before `since` (Unix milliseconds), a part at a time; true if there
/// may be more.
pub fn trim(txn: &mut Txn<'_>, app: &AppId, since: i64) -> Result<bool, StoreError> {
    let Some(mut record) = meta::app(txn, app)? else { return Ok(false) };
    let floor = record.floor;
    let more = trim_while(txn, app, &mut record, |_, at| at < since)?;
    if record.floor != floor {
        meta::put_app(txn, app, &record)?;
    }
    Ok(more)
}

/// Takes away the oldest entries as long as `wanted`, a part at a time; true if all of the part
/// went and there may be more. A transaction is never kept in part.
fn trim_while(
    txn: &mut Txn<'_>,
    app: &AppId,
    record: &mut AppRecord,
    wanted: impl Fn(&AppRecord, i64) -> bool,
) -> Result<bool, StoreError> {
    const PART: usize = 1_000;
    const PART_BYTES: usize = 4 << 20;
    let page = txn.range(LOG, &Scan::prefix(&keys::app(app), PART).bytes(PART_BYTES))?;
    let mut within_tx = false;
    for (key, value) in &page {
        let entry: StoredEntry = meta::decode(value, LOG, key)?;
        if !within_tx && !wanted(record, entry.at) {
            return Ok(false);
        }
        within_tx = !entry.tx_last;
        txn.delete(LOG, key.clone())?;
        record.log_entries = record.log_entries.saturating_sub(1);
        record.log_bytes = record.log_bytes.saturating_sub(value.len() as u64);
        if let Some(position) = keys::position_of(key) {
            record.trim_to(position.0);
        }
    }
    Ok(!page.is_empty())
}
