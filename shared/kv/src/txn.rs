//! What a write job sees: the store, under what earlier jobs of the same commit wrote, under what
//! it wrote itself. Jobs run one after another, so each is a serialised read-modify-write.

use std::{cell::OnceCell, collections::BTreeMap, fmt};

use crate::{
    MAX_KEY, MAX_VALUE, Reader, Row, Scan, StoreError, View, Write,
    merge::{Layer, merged},
    records::{self, Records},
};

/// The writing side of a commit, as one job sees it.
pub struct Txn<'a> {
    records: &'a Records,
    /// The store below, where the engine has views: nothing changes it before this commits, and
    /// one view for all reads is cheaper than one for each.
    below: OnceCell<Option<Box<dyn View>>>,
    tables: BTreeMap<&'static str, Layer>,
    bytes: usize,
    /// What the current job replaced, to take it back if it fails.
    undo: Vec<Undo>,
    undo_bytes: usize,
}

struct Undo {
    table: &'static str,
    key: Vec<u8>,
    /// None: no job of this commit had written the key.
    before: Option<Option<Vec<u8>>>,
}

impl<'a> Txn<'a> {
    pub(crate) fn new(records: &'a Records) -> Self {
        Self {
            records,
            below: OnceCell::new(),
            tables: BTreeMap::new(),
            bytes: 0,
            undo: Vec::new(),
            undo_bytes: 0,
        }
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// The table is unknown, or key or value are too long.
    pub fn put(
        &mut self,
        table: &str,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
    ) -> Result<(), StoreError> {
        let value = value.into();
        if value.len() > MAX_VALUE {
            return Err(StoreError::ValueTooLong(value.len()));
        }
        self.write(table, key.into(), Some(value))
    }

    /// Removes a key; one that is not there is no error.
    ///
    /// # Errors
    /// The table is unknown or the key too long.
    pub fn delete(&mut self, table: &str, key: impl Into<Vec<u8>>) -> Result<(), StoreError> {
        self.write(table, key.into(), None)
    }

    fn write(
        &mut self,
        table: &str,
        key: Vec<u8>,
        value: Option<Vec<u8>>,
    ) -> Result<(), StoreError> {
        let table = self.records.table(table)?;
        if key.len() > MAX_KEY {
            return Err(StoreError::KeyTooLong(key.len()));
        }
        self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        let before = self.tables.entry(table).or_default().insert(key.clone(), value);
        self.undo.push(Undo { table, key, before });
        Ok(())
    }

    /// Keeps what the job wrote.
    pub(crate) fn keep(&mut self) {
        self.undo.clear();
        self.undo_bytes = self.bytes;
    }

    /// Takes back what the job wrote.
    pub(crate) fn take_back(&mut self) {
        while let Some(Undo { table, key, before }) = self.undo.pop() {
            let Some(layer) = self.tables.get_mut(table) else { continue };
            match before {
                Some(value) => layer.insert(key, value),
                None => layer.remove(&key),
            };
        }
        self.bytes = self.undo_bytes;
    }

    /// Bytes of keys and values written so far, overwritten ones too.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn below(&self) -> Result<Option<&dyn View>, StoreError> {
        if self.below.get().is_none() {
            let view = records::guarded(|| self.records.engine.view())?;
            let _ = self.below.set(view);
        }
        Ok(self.below.get().and_then(|view| view.as_deref()))
    }

    fn get_below(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(view) = self.below()? else { return self.records.get(table, key) };
        let table = self.records.table(table)?;
        records::guarded(|| records::value(view, table, key))
    }

    fn range_below(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        let Some(view) = self.below()? else { return self.records.range(table, scan) };
        let table = self.records.table(table)?;
        records::guarded(|| records::page(view, table, scan))
    }

    pub(crate) fn into_writes(self) -> Vec<Write> {
        let tables = self.tables.into_iter();
        tables
            .flat_map(|(table, layer)| {
                layer.into_iter().map(move |(key, value)| Write { table, key, value })
            })
            .collect()
    }
}

impl Reader for Txn<'_> {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.tables.get(table).and_then(|layer| layer.get(key)) {
            Some(written) => Ok(written.clone()),
            None => self.get_below(table, key),
        }
    }

    fn range(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        match self.tables.get(table) {
            Some(layer) => merged(layer, scan, |scan| self.range_below(table, scan)),
            None => self.range_below(table, scan),
        }
    }
}

impl fmt::Debug for Txn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Txn").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
