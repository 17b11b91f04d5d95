//! The outbox of an app: own transactions that the server has not confirmed, in their order.
//!
//! The sync side freezes a prefix of it into a push; entries stay until the server's answer, so
//! that a push which is refused for good can be frozen anew.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use tidings_kv::Scan;
use tidings_tables::{Delta, RowId, TableName};
use tidings_wire::AppId;
use tidings_wire::local::LogPosition;

use super::{keys, meta};
use crate::store::{Reader, StoreError, Txn, damaged};

/// One local transaction on its way to the server.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxTx {
    /// Its last position in the log, which names it here.
    pub position: LogPosition,
    /// When it was written, in Unix milliseconds of this computer's clock.
    pub at: i64,
    /// What it wrote, in order; a row may occur more than once.
    pub deltas: Vec<RowDelta>,
}

/// What one operation wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct RowDelta {
    /// The table.
    pub table: TableName,
    /// The row.
    pub row: RowId,
    /// What was written to it.
    pub delta: Delta,
}

impl RowDelta {
    /// Its size as it counts against the largest transaction, in bytes.
    pub fn size(&self) -> usize {
        self.table.as_str().len() + self.row.as_str().len() + self.delta.encode().len()
    }
}

#[derive(Encode, Decode)]
struct StoredTx {
    #[n(0)]
    at: i64,
    #[n(1)]
    deltas: Vec<StoredDelta>,
}

#[derive(Encode, Decode)]
struct StoredDelta {
    #[n(0)]
    table: String,
    #[n(1)]
    row: String,
    #[n(2)]
    delta: ByteVec,
}

impl OutboxTx {
    fn encode(&self) -> Vec<u8> {
        let deltas = self.deltas.iter().map(|delta| StoredDelta {
            table: delta.table.as_str().to_owned(),
            row: delta.row.as_str().to_owned(),
            delta: delta.delta.encode().into(),
        });
        meta::encode(&StoredTx { at: self.at, deltas: deltas.collect() })
    }

    fn decode(key: &[u8], bytes: &[u8]) -> Result<Self, StoreError> {
        let wrong = |what: String| damaged(keys::OUTBOX, key, what);
        let stored: StoredTx = meta::decode(bytes, keys::OUTBOX, key)?;
        let delta = |stored: StoredDelta| {
            Ok(RowDelta {
                table: TableName::new(stored.table).map_err(|error| wrong(error.to_string()))?,
                row: RowId::new(stored.row).map_err(|error| wrong(error.to_string()))?,
                delta: Delta::decode(&stored.delta).map_err(|error| wrong(error.to_string()))?,
            })
        };
        Ok(Self {
            position: keys::position_of(key)
                .ok_or_else(|| wrong("a key without position".to_owned()))?,
            at: stored.at,
            deltas: stored.deltas.into_iter().map(delta).collect::<Result<_, StoreError>>()?,
        })
    }
}

/// Puts a transaction at the end, or in place of the one with its position. The caller counts it
/// in the app's record.
pub fn put(txn: &mut Txn<'_>, app: &AppId, tx: &OutboxTx) -> Result<(), StoreError> {
    txn.put(keys::OUTBOX, keys::position(app, tx.position), tx.encode())
}

/// The oldest transactions, whole, of about `max_bytes` together; at least one if there is one.
pub fn prefix(
    source: &impl Reader,
    app: &AppId,
    max_bytes: usize,
) -> Result<Vec<OutboxTx>, StoreError> {
    after(source, app, LogPosition(0), max_bytes)
}

/// The oldest transactions above a position, whole, of about `max_bytes` together; at least one
/// if there is one. For walking the whole outbox.
pub fn after(
    source: &impl Reader,
    app: &AppId,
    position: LogPosition,
    max_bytes: usize,
) -> Result<Vec<OutboxTx>, StoreError> {
    const PAGE: usize = 1_000;
    let mut transactions = Vec::new();
    let mut left = max_bytes;
    let mut scan = Scan::prefix(&keys::app(app), PAGE).after(&keys::position(app, position));
    loop {
        // One row more than fits is read at most: a page ends with the row that passes the size.
        let page = source.range(keys::OUTBOX, &scan.clone().bytes(left))?;
        let full = page.len() >= PAGE;
        for (key, value) in &page {
            let size = key.len() + value.len();
            if size > left && !transactions.is_empty() {
                return Ok(transactions);
            }
            left = left.saturating_sub(size);
            transactions.push(OutboxTx::decode(key, value)?);
        }
        match page.last() {
            Some((key, _)) if full && left > 0 => scan = scan.after(key),
            _ => return Ok(transactions),
        }
    }
}

/// Removes every transaction up to and including a position: the server has them. The app's
/// `pushed` rises with it.
pub fn remove_through(
    txn: &mut Txn<'_>,
    app: &AppId,
    position: LogPosition,
) -> Result<(), StoreError> {
    const PAGE: usize = 1_000;
    let Some(mut record) = meta::app(txn, app)? else { return Ok(()) };
    let mut end = keys::position(app, position);
    end.push(0);
    loop {
        let scan = Scan::between(&keys::app(app), &end, PAGE);
        let page = txn.range(keys::OUTBOX, &scan)?;
        for (key, _) in &page {
            txn.delete(keys::OUTBOX, key.clone())?;
            record.pending = record.pending.saturating_sub(1);
        }
        if page.len() < PAGE {
            break;
        }
    }
    record.pushed = record.pushed.max(position.0);
    meta::put_app(txn, app, &record)
}
