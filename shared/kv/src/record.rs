//! Bytes of a stored record: a kind, the value or where its parts are, and a checksum over table,
//! key and both, because engines hand out altered bytes without a word and a record in the wrong
//! place is as wrong as an altered one.
//!
//! ```text
//! whole  0x01 value check
//! split  0x02 id (12 bytes) length (u64 BE) check
//! check  first 8 bytes of BLAKE3(u8 table length ‖ table ‖ u32 BE key length ‖ key ‖ the rest)
//! ```
//! A split value lies in the parts table under `id ‖ part number (u32 BE)`, as whole records of
//! [`MAX_WHOLE_VALUE`] bytes, the last one shorter. An id is never used twice.

use crate::{StoreError, error::Damage};

/// Most bytes of a key.
pub const MAX_KEY: usize = 4096;

/// Most bytes of a value.
pub const MAX_VALUE: usize = 64 << 20;

/// Values up to this many bytes are one record; larger ones are split into parts of this size.
pub const MAX_WHOLE_VALUE: usize = 64 << 10;

/// Name of a split value's parts: number of the commit, number within the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartsId {
    pub(crate) commit: u64,
    pub(crate) ordinal: u32,
}

/// A decoded record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// The value itself.
    Whole(Vec<u8>),
    /// A value that lies elsewhere.
    Split {
        /// Name of the parts.
        id: PartsId,
        /// Bytes of the value.
        length: usize,
    },
}

impl PartsId {
    /// Key of a part.
    pub(crate) fn key(self, part: u32) -> Vec<u8> {
        let mut key = Vec::with_capacity(16);
        key.extend_from_slice(&self.commit.to_be_bytes());
        key.extend_from_slice(&self.ordinal.to_be_bytes());
        key.extend_from_slice(&part.to_be_bytes());
        key
    }

    /// Part numbers of a value of `length` bytes.
    pub(crate) fn parts(length: usize) -> std::ops::Range<u32> {
        0..u32::try_from(length.div_ceil(MAX_WHOLE_VALUE)).unwrap_or(u32::MAX)
    }
}

/// The record of a value of at most [`MAX_WHOLE_VALUE`] bytes.
pub(crate) fn whole(table: &str, key: &[u8], value: &[u8]) -> Vec<u8> {
    seal(table, key, WHOLE, &[value])
}

/// The record that points at a value's parts.
pub(crate) fn split(table: &str, key: &[u8], id: PartsId, length: usize) -> Vec<u8> {
    let length = (length as u64).to_be_bytes();
    seal(table, key, SPLIT, &[&id.commit.to_be_bytes(), &id.ordinal.to_be_bytes(), &length])
}

/// Verifies and decodes a record.
pub(crate) fn open(table: &str, key: &[u8], record: Vec<u8>) -> Result<Record, StoreError> {
    let damaged = |what: &str| {
        let place = place(table, key);
        StoreError::Damaged(Damage { place, what: what.to_owned() })
    };
    let Some(end) = record.len().checked_sub(CHECK).filter(|end| *end >= 1) else {
        return Err(damaged("the record is too short"));
    };
    let (content, sum) = record.split_at(end);
    if checksum(table, key, content) != sum {
        return Err(damaged("the record's checksum does not match"));
    }
    match content.split_first() {
        Some((&WHOLE, _)) => {
            let mut value = record;
            value.truncate(end);
            value.drain(..1);
            Ok(Record::Whole(value))
        }
        Some((&SPLIT, pointer)) => {
            pointer_of(pointer).ok_or_else(|| damaged("the record points nowhere"))
        }
        _ => Err(damaged("the record is of an unknown kind")),
    }
}

/// How messages name a record.
pub(crate) fn place(table: &str, key: &[u8]) -> String {
    let shown: String = key.iter().take(24).map(|byte| format!("{byte:02x}")).collect();
    let more = if key.len() > 24 { "…" } else { "" };
    format!("table {table}, key {shown}{more}")
}

fn pointer_of(bytes: &[u8]) -> Option<Record> {
    let (commit, rest) = bytes.split_first_chunk()?;
    let (ordinal, rest) = rest.split_first_chunk()?;
    let length = usize::try_from(u64::from_be_bytes(rest.try_into().ok()?)).ok()?;
    let id = PartsId { commit: u64::from_be_bytes(*commit), ordinal: u32::from_be_bytes(*ordinal) };
    (length <= MAX_VALUE).then_some(Record::Split { id, length })
}

fn seal(table: &str, key: &[u8], kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut record = Vec::with_capacity(1 + length + CHECK);
    record.push(kind);
    for part in parts {
        record.extend_from_slice(part);
    }
    let sum = checksum(table, key, &record);
    record.extend_from_slice(&sum);
    record
}

fn checksum(table: &str, key: &[u8], content: &[u8]) -> [u8; CHECK] {
    let mut hasher = blake3::Hasher::new();
    // Names and keys are bounded, so both lengths fit.
    hasher.update(&[table.len() as u8]);
    hasher.update(table.as_bytes());
    hasher.update(&(key.len() as u32).to_be_bytes());
    hasher.update(key);
    hasher.update(content);
    let mut sum = [0; CHECK];
    hasher.finalize_xof().fill(&mut sum);
    sum
}

const WHOLE: u8 = 1;
const SPLIT: u8 = 2;
const CHECK: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_bytes() {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(hex(&whole("rows", b"k", b"v")), "0176ad3945b76f633155");
        let id = PartsId { commit: 7, ordinal: 1 };
        assert_eq!(
            hex(&split("rows", b"k", id, 70_000)),
            "020000000000000007000000010000000000011170dfea3c0c05cb7c65"
        );
    }

    #[test]
    fn altered_or_moved_records_are_damage() {
        let record = whole("rows", b"key", b"value");
        assert_eq!(open("rows", b"key", record.clone()).unwrap(), Record::Whole(b"value".to_vec()));
        for index in 0..record.len() {
            let mut altered = record.clone();
            altered[index] ^= 0x40;
            assert!(matches!(open("rows", b"key", altered), Err(StoreError::Damaged(_))));
            let cut = record[..index].to_vec();
            assert!(matches!(open("rows", b"key", cut), Err(StoreError::Damaged(_))));
        }
        assert!(open("rows", b"kex", record.clone()).is_err());
        assert!(open("blobs", b"key", record).is_err());
    }

    #[test]
    fn a_pointer_beyond_the_limit_is_not_believed() {
        let id = PartsId { commit: 1, ordinal: 0 };
        let record = split("rows", b"k", id, MAX_VALUE + 1);
        assert!(matches!(open("rows", b"k", record), Err(StoreError::Damaged(_))));
    }
}
