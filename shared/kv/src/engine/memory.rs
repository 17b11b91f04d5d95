//! The engine for tests of what stands on a store: ordered maps behind a lock, gone with the
//! process.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use super::{Compaction, Engine, Step, View};
use crate::{Batch, Durability, Order, Row, Scan, StoreError};

type Tables = BTreeMap<&'static str, BTreeMap<Vec<u8>, Vec<u8>>>;

/// An engine that forgets.
#[derive(Debug)]
pub struct MemoryEngine {
    /// None after close. A commit copies the maps only while a view holds them.
    tables: RwLock<Option<Arc<Tables>>>,
}

impl MemoryEngine {
    /// An empty engine with these tables.
    pub fn new(tables: &[&'static str]) -> Self {
        let tables = tables.iter().map(|name| (*name, BTreeMap::new())).collect();
        Self { tables: RwLock::new(Some(Arc::new(tables))) }
    }

    fn current(&self) -> Result<Arc<Tables>, StoreError> {
        let guard = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        guard.clone().ok_or(StoreError::Closed)
    }
}

impl View for MemoryEngine {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        MemoryView(self.current()?).get(table, key)
    }

    fn range(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        MemoryView(self.current()?).range(table, scan)
    }
}

impl Engine for MemoryEngine {
    fn commit(&self, batch: &Batch, _: Durability) -> Result<Durability, StoreError> {
        let mut guard = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let tables = Arc::make_mut(guard.as_mut().ok_or(StoreError::Closed)?);
        for (name, writes) in batch.tables() {
            let table = tables.get_mut(name).ok_or_else(|| no_table(name))?;
            for write in writes {
                match &write.value {
                    Some(value) => table.insert(write.key.clone(), value.clone()),
                    None => table.remove(&write.key),
                };
            }
        }
        Ok(Durability::Synced)
    }

    fn view(&self) -> Result<Option<Box<dyn View>>, StoreError> {
        Ok(Some(Box::new(MemoryView(self.current()?))))
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn compact(&self) -> Result<Step, StoreError> {
        Ok(Step::Done(Compaction::Unchanged))
    }

    fn check(&self) -> Result<(), StoreError> {
        self.current().map(drop)
    }

    fn close(&self) -> Result<(), StoreError> {
        *self.tables.write().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}

struct MemoryView(Arc<Tables>);

impl View for MemoryView {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let rows = self.0.get(table).ok_or_else(|| no_table(table))?;
        Ok(rows.get(key).cloned())
    }

    fn range(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        let rows = self.0.get(table).ok_or_else(|| no_table(table))?;
        if scan.is_empty() {
            return Ok(Vec::new());
        }
        let found = rows
            .range::<[u8], _>((scan.from(), scan.to()))
            .map(|(key, value)| Ok((key.clone(), value.clone())));
        match scan.order() {
            Order::Ascending => scan.collect(found),
            Order::Descending => scan.collect(found.rev()),
        }
    }
}

fn no_table(name: &str) -> StoreError {
    StoreError::UnknownTable(name.to_owned())
}
