//! The cleartext body of a blob: deltas of one table, sorted by row id.
//!
//! `[1, table, [* [row id, row]]]` in CBOR, at most [`limits::BLOB_BODY`] bytes; one delta alone
//! may have [`limits::BLOB_BODY_SINGLE`]. The decoder takes only what [`Body::encode`] writes.

use std::collections::BTreeMap;

use minicbor::{Decoder, Encoder};
use tidings_wire::limits;

use crate::cbor::{DecodeError, Encoded, append, canonical, end, read_array, read_str, to_bytes};
use crate::names::{RowId, TableName};
use crate::row::{Delta, Row};
use crate::split::split;

/// An opened body.
#[derive(Debug, Clone, PartialEq)]
pub struct Body {
    /// The table; the reader checks that it has the tag under which the blob travelled.
    pub table: TableName,
    /// Row ids, rising, each with what was written to the row.
    pub deltas: Vec<(RowId, Delta)>,
}

/// A body ready to be sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedBody {
    /// The CBOR, not yet compressed.
    pub bytes: Vec<u8>,
    /// The rows in it, rising.
    pub rows: Vec<RowId>,
}

/// Why a body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// More bytes than a body may have.
    #[error("a body of {0} bytes")]
    TooLarge(usize),
    /// A format of a later release.
    #[error("a body of format {0}: needs a newer Tidings")]
    Format(u64),
    /// Not a body.
    #[error("not a body: {0}")]
    Damaged(#[from] DecodeError),
}

impl Body {
    /// The format that this release writes and reads.
    pub const FORMAT: u64 = 1;

    /// The encoding of the body, whatever its size; [`pack`] makes bodies that fit.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_into(Vec::new())
    }

    fn encode_into(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        append(&mut bytes, |encoder| head(encoder, &self.table, self.deltas.len()));
        for (id, delta) in &self.deltas {
            append(&mut bytes, |encoder| write_entry(encoder, id, delta));
        }
        bytes
    }

    /// Reads a body.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, BodyError> {
        if bytes.len() > limits::BLOB_BODY_SINGLE {
            return Err(BodyError::TooLarge(bytes.len()));
        }
        let mut decoder = Decoder::new(bytes);
        let damaged = |at, what| Err(BodyError::Damaged(DecodeError { at, what }));
        let fields = read_array(&mut decoder)?;
        let at = decoder.position();
        match decoder.u64() {
            Ok(Self::FORMAT) if fields == 3 => {}
            Ok(Self::FORMAT) => return damaged(at, "a body is an array of three"),
            Ok(format) => return Err(BodyError::Format(format)),
            Err(_) => return damaged(at, "no format"),
        }
        let at = decoder.position();
        let Ok(table) = TableName::new(read_str(&mut decoder)?) else {
            return damaged(at, "not a table name");
        };
        let at = decoder.position();
        let count = read_array(&mut decoder)?;
        if count == 0 {
            return damaged(at, "no deltas");
        }
        if count > 1 && bytes.len() > limits::BLOB_BODY {
            return Err(BodyError::TooLarge(bytes.len()));
        }
        let mut deltas: Vec<(RowId, Delta)> = Vec::new();
        for _ in 0..count {
            let at = decoder.position();
            if read_array(&mut decoder)? != 2 {
                return damaged(at, "a delta has an id and a row");
            }
            let Ok(id) = RowId::new(read_str(&mut decoder)?) else {
                return damaged(at, "not a row id");
            };
            if deltas.last().is_some_and(|(last, _)| *last >= id) {
                return damaged(at, "row ids out of order");
            }
            let row = Row::read(&mut decoder)?;
            if row.is_empty() {
                return damaged(at, "a delta that says nothing");
            }
            deltas.push((id, row));
        }
        end(&decoder)?;
        let body = Self { table, deltas };
        canonical(&decoder, &body.encode_into(Vec::with_capacity(bytes.len())))?;
        Ok(body)
    }
}

/// Packs the deltas of one table into bodies, filling each in row-id order. A delta too large for
/// one body goes into several; empty ones are left out.
pub fn pack(table: &TableName, deltas: &BTreeMap<RowId, Delta>) -> Vec<EncodedBody> {
    let mut packer = Packer::new(table);
    for (id, delta) in deltas.iter().filter(|(_, delta)| !delta.is_empty()) {
        let whole = entry(id, delta);
        if whole.len() <= packer.room_alone() {
            packer.add(id, whole);
            continue;
        }
        let limit = packer.room.saturating_sub(entry(id, &Row::default()).len());
        for piece in split(delta, limit) {
            // One body names a row once.
            packer.close();
            packer.add(id, entry(id, &piece));
        }
    }
    packer.close();
    packer.bodies
}

/// Fills bodies one after the other.
struct Packer<'a> {
    table: &'a TableName,
    /// Bytes of entries that a body has room for.
    room: usize,
    bodies: Vec<EncodedBody>,
    entries: Vec<Vec<u8>>,
    rows: Vec<RowId>,
    used: usize,
}

impl<'a> Packer<'a> {
    fn new(table: &'a TableName) -> Self {
        Self {
            table,
            room: room(table),
            bodies: Vec::new(),
            entries: Vec::new(),
            rows: Vec::new(),
            used: 0,
        }
    }

    /// Bytes that an entry alone in its body may have.
    fn room_alone(&self) -> usize {
        self.room + (limits::BLOB_BODY_SINGLE - limits::BLOB_BODY)
    }

    fn add(&mut self, id: &RowId, entry: Vec<u8>) {
        if self.used + entry.len() > self.room {
            self.close();
        }
        self.used += entry.len();
        self.entries.push(entry);
        self.rows.push(id.clone());
    }

    fn close(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        let bytes = encode_entries(self.table, self.entries.iter().map(Vec::as_slice));
        self.bodies.push(EncodedBody { bytes, rows: std::mem::take(&mut self.rows) });
        self.entries.clear();
        self.used = 0;
    }
}

/// Bytes left for entries in a body of `table`.
fn room(table: &TableName) -> usize {
    let longest_count = 4;
    limits::BLOB_BODY - encode_entries(table, std::iter::empty()).len() - longest_count
}

fn entry(id: &RowId, delta: &Delta) -> Vec<u8> {
    to_bytes(|encoder| write_entry(encoder, id, delta))
}

fn write_entry(encoder: &mut Encoder<&mut Vec<u8>>, id: &RowId, delta: &Delta) -> Encoded {
    encoder.array(2)?.str(id.as_str())?;
    delta.write(encoder)
}

fn head(encoder: &mut Encoder<&mut Vec<u8>>, table: &TableName, count: usize) -> Encoded {
    encoder.array(3)?.u64(Body::FORMAT)?.str(table.as_str())?.array(count as u64)?.ok()
}

fn encode_entries<'a>(
    table: &TableName,
    entries: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut bytes = to_bytes(|encoder| head(encoder, table, entries.len()));
    entries.for_each(|entry| bytes.extend_from_slice(entry));
    bytes
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
