//! The operations of an app on a row, each written as a delta under one stamp.
//!
//! The caller gives the row as it stands in the replica and a fresh stamp of its clock, and gets
//! the delta to keep in the outbox and the row to store.

use std::collections::BTreeMap;

use tidings_wire::{Stamp, limits};

use crate::cbor::encode_value;
use crate::cell::{Base, Cell};
use crate::object::Object;
use crate::patch::Patch;
use crate::path::Path;
use crate::record::{InputError, check_columns};
use crate::row::{Cleared, Delta, Life, Row};
use crate::value::Value;

/// What an operation wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// What goes to the other devices; empty where nothing was asked for.
    pub delta: Delta,
    /// The row with the delta merged in.
    pub row: Row,
}

/// Why an operation was refused. Nothing was written then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// `insert` of a row that exists.
    #[error("a row with this id exists")]
    Exists,
    /// `update` or `delete` of a row that does not exist.
    #[error("no row with this id")]
    Missing,
    /// The row as it would be is too large or nests too deep.
    #[error(transparent)]
    Row(#[from] InputError),
}

/// Writes a row that does not exist yet.
///
/// # Errors
/// [`OpError::Exists`], or if the row is too large.
pub fn insert(row: &Row, columns: Object, stamp: Stamp) -> Result<Written, OpError> {
    if row.is_alive() { Err(OpError::Exists) } else { put(row, columns, stamp) }
}

/// Writes a whole row, whether it exists or not.
///
/// # Errors
/// If the row is too large.
pub fn put(row: &Row, columns: Object, stamp: Stamp) -> Result<Written, OpError> {
    check_columns(&columns)?;
    let cells = columns.into_iter().map(|(column, value)| {
        let path = Path::column(&column);
        let cell = written(row, &path, Some(value), stamp);
        (path, cell)
    });
    let delta = Row { cells: cells.collect(), ..whole(row, true, stamp) };
    Ok(merged(row, delta))
}

/// Changes columns of a row that exists. The delta is empty where the patch is.
///
/// # Errors
/// [`OpError::Missing`], or if the row would be too large.
pub fn update(row: &Row, patch: &Patch, stamp: Stamp) -> Result<Written, OpError> {
    if !row.is_alive() {
        return Err(OpError::Missing);
    }
    if patch.is_empty() {
        return Ok(Written { delta: Row::default(), row: row.clone() });
    }
    let mut cells = BTreeMap::new();
    for (path, value) in &patch.writes {
        check_cell(path, value.as_ref())?;
        cells.insert(path.clone(), written(row, path, value.clone(), stamp));
    }
    let written = merged(row, Row { version: stamp, cells, ..Row::default() });
    check_columns(&written.row.columns().unwrap_or_default())?;
    Ok(written)
}

/// Deletes a row that exists.
///
/// # Errors
/// [`OpError::Missing`].
pub fn delete(row: &Row, stamp: Stamp) -> Result<Written, OpError> {
    if row.is_alive() { Ok(merged(row, whole(row, false, stamp))) } else { Err(OpError::Missing) }
}

/// What an operation on the whole row writes besides cells.
fn whole(row: &Row, alive: bool, stamp: Stamp) -> Row {
    Row {
        version: stamp,
        life: Some(Life { stamp, alive }),
        cleared: Some(Cleared { stamp, replaced: row.version }),
        cells: BTreeMap::new(),
    }
}

/// A cell that `stamp` writes, which remembers the newest of what it replaces.
fn written(row: &Row, path: &Path, value: Option<Value>, stamp: Stamp) -> Cell {
    let below = row.below(path).filter_map(|(_, cell)| cell.newest());
    let replaced = below.fold(row.floor(path), Stamp::max);
    Cell { base: Some(Base { stamp, value, replaced }), hanging: None }
}

fn merged(row: &Row, delta: Delta) -> Written {
    let mut row = row.clone();
    row.join(&delta);
    Written { delta, row }
}

/// Refuses a path and value that would not fit into a blob by themselves: a removed column is no
/// part of the row that is measured as a whole.
fn check_cell(path: &Path, value: Option<&Value>) -> Result<(), InputError> {
    let keys: usize = path.keys().iter().map(|key| key.len()).sum();
    let bytes = keys + value.map_or(0, |value| encode_value(value).len());
    if bytes > limits::ROW { Err(InputError::TooLarge(bytes)) } else { Ok(()) }
}

#[cfg(test)]
#[path = "ops_tests.rs"]
mod tests;
