//! The layer between users and engines: checksums every record and splits large values, on any
//! engine alike. Also keeps the store's own table: its id, the number of the last commit, and
//! which tables ever held a split value.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{PoisonError, RwLock},
};

use crate::{
    Batch, Durability, Engine, Row, Scan, StoreError, StoreId, View, Write,
    error::Damage,
    reader::Found,
    record::{self, MAX_WHOLE_VALUE, PartsId, Record},
};

/// The store's own table.
pub(crate) const META: &str = "_meta";
/// Parts of split values.
pub(crate) const PARTS: &str = "_parts";

/// An engine with records in it.
pub(crate) struct Records {
    pub(crate) engine: Box<dyn Engine>,
    tables: Vec<&'static str>,
    /// Tables that may hold split values: only there must a write look for parts to remove.
    split: RwLock<BTreeSet<&'static str>>,
}

/// What the store says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) store: StoreId,
    pub(crate) commit: u64,
}

impl Records {
    pub(crate) fn new(
        engine: Box<dyn Engine>,
        tables: &[&'static str],
    ) -> Result<Self, StoreError> {
        let records = Self { engine, tables: tables.to_vec(), split: RwLock::new(BTreeSet::new()) };
        let mut split = BTreeSet::new();
        for table in tables {
            if records.read(META, &split_key(table))?.is_some() {
                split.insert(*table);
            }
        }
        *records.split.write().unwrap_or_else(PoisonError::into_inner) = split;
        Ok(records)
    }

    /// The user's table of this name.
    pub(crate) fn table(&self, name: &str) -> Result<&'static str, StoreError> {
        let found = self.tables.iter().find(|table| **table == name);
        found.copied().ok_or_else(|| StoreError::UnknownTable(name.to_owned()))
    }

    pub(crate) fn tables(&self) -> &[&'static str] {
        &self.tables
    }

    /// The value of a key now.
    pub(crate) fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(self.table(table)?, key)
    }

    /// A page of rows now.
    pub(crate) fn range(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        guarded(|| page(self.engine.as_ref(), self.table(table)?, scan))
    }

    /// A page of rows now, damaged ones among them.
    pub(crate) fn survey(&self, table: &str, scan: &Scan) -> Result<Vec<Found>, StoreError> {
        guarded(|| survey(self.engine.as_ref(), self.table(table)?, scan))
    }

    fn read(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        guarded(|| value(self.engine.as_ref(), table, key))
    }

    /// What the data says about itself; none in a store without a single commit.
    pub(crate) fn identity(&self) -> Result<Option<Identity>, StoreError> {
        let (Some(store), Some(commit)) = (self.read(META, STORE)?, self.read(META, COMMIT)?)
        else {
            return Ok(None);
        };
        let (Ok(store), Ok(commit)) = (store.try_into(), commit.try_into()) else {
            return Err(StoreError::damaged("the store's own table", "bad lengths"));
        };
        Ok(Some(Identity { store: StoreId(store), commit: u64::from_be_bytes(commit) }))
    }

    /// Commits values as the commit that `identity` names; answers how durable it is.
    pub(crate) fn commit(
        &self,
        writes: Vec<Write>,
        identity: Identity,
        durability: Durability,
    ) -> Result<Durability, StoreError> {
        // Everything up to the engine's own commit only reads, so whatever fails here, a damaged
        // record for one, fails before anything was written.
        let (batch, newly_split) = self.encode(writes, identity)?;
        let committed = catch_unwind(AssertUnwindSafe(|| self.engine.commit(&batch, durability)))
            .unwrap_or_else(|_| Err(StoreError::unknown("the engine panicked")));
        let reached = committed.map_err(|error| match error {
            StoreError::StorageFull { .. } | StoreError::Unknown { .. } => error,
            error => StoreError::unknown(error),
        })?;
        if !newly_split.is_empty() {
            let mut split = self.split.write().unwrap_or_else(PoisonError::into_inner);
            split.extend(newly_split);
        }
        Ok(reached)
    }

    fn encode(
        &self,
        writes: Vec<Write>,
        identity: Identity,
    ) -> Result<(Batch, BTreeSet<&'static str>), StoreError> {
        let split = self.split.read().unwrap_or_else(PoisonError::into_inner);
        let mut newly_split = BTreeSet::new();
        let mut out = Vec::with_capacity(writes.len() + 2);
        let mut id = PartsId { commit: identity.commit, ordinal: 0 };
        for Write { table, key, value } in writes {
            if split.contains(table) {
                self.remove_parts(table, &key, &mut out)?;
            }
            let value = value.map(|value| {
                if value.len() <= MAX_WHOLE_VALUE {
                    return record::whole(table, &key, &value);
                }
                if !split.contains(table) {
                    newly_split.insert(table);
                }
                for (part, piece) in (0..).zip(value.chunks(MAX_WHOLE_VALUE)) {
                    out.push(part_write(id.key(part), piece));
                }
                let record = record::split(table, &key, id, value.len());
                id.ordinal += 1;
                record
            });
            out.push(Write { table, key, value });
        }
        for table in &newly_split {
            out.push(meta_write(split_key(table), &[]));
        }
        out.push(meta_write(COMMIT.to_vec(), &identity.commit.to_be_bytes()));
        if identity.commit == FIRST_COMMIT {
            out.push(meta_write(STORE.to_vec(), &identity.store.0));
        }
        Ok((Batch::new(out), newly_split))
    }

    fn remove_parts(
        &self,
        table: &'static str,
        key: &[u8],
        out: &mut Vec<Write>,
    ) -> Result<(), StoreError> {
        let Some(old) = guarded(|| self.engine.get(table, key))? else { return Ok(()) };
        // A damaged old record must not keep anybody from writing a good one; its parts, if it had
        // any, are left for the check to find.
        if let Ok(Record::Split { id, length }) = record::open(table, key, old) {
            let keys = PartsId::parts(length).map(|part| id.key(part));
            out.extend(keys.map(|key| Write { table: PARTS, key, value: None }));
        }
        Ok(())
    }
}

/// The value of a key in any view.
pub(crate) fn value(
    view: &dyn View,
    table: &str,
    key: &[u8],
) -> Result<Option<Vec<u8>>, StoreError> {
    match view.get(table, key)? {
        Some(record) => decode(view, table, key, record),
        None => Ok(None),
    }
}

/// The value that a record of a key stands for; none if it was deleted since.
fn decode(
    view: &dyn View,
    table: &str,
    key: &[u8],
    mut record: Vec<u8>,
) -> Result<Option<Vec<u8>>, StoreError> {
    let mut seen = None;
    loop {
        match record::open(table, key, record)? {
            Record::Whole(value) => return Ok(Some(value)),
            Record::Split { id, length } => match assemble(view, id, length)? {
                Some(value) => return Ok(Some(value)),
                // Where reads are not of one moment, the value may have been replaced in between;
                // then the record names other parts now.
                None if seen != Some(id) => seen = Some(id),
                None => {
                    let place = record::place(table, key);
                    let what = "parts of the value are missing".to_owned();
                    return Err(StoreError::Damaged(Damage { place, what }));
                }
            },
        }
        match view.get(table, key)? {
            Some(again) => record = again,
            None => return Ok(None),
        }
    }
}

/// A page of any view; the first damaged record is an error.
pub(crate) fn page(view: &dyn View, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError> {
    let rows = survey(view, table, scan)?.into_iter();
    rows.map(|(key, value)| Ok((key, value.map_err(StoreError::Damaged)?))).collect()
}

/// A page of any view, damaged records among the others.
pub(crate) fn survey(view: &dyn View, table: &str, scan: &Scan) -> Result<Vec<Found>, StoreError> {
    let mut found = Vec::new();
    let mut bytes = 0usize;
    let mut rest = scan.clone();
    // Raw records are longer than small values and shorter than split ones, and rows may vanish
    // under a reader without a view: the engine's page may end before or after this one.
    while !rest.is_empty() {
        let raw = view.range(table, &rest)?;
        let size = raw.iter().map(|(key, record)| key.len() + record.len()).sum();
        // A limit of no bytes is reached by no rows, too.
        let ended = raw.is_empty() || !rest.is_full(raw.len(), size);
        for (key, record) in raw {
            rest.advance(&key);
            let value = match decode(view, table, &key, record) {
                Ok(Some(value)) => Ok(value),
                Ok(None) => continue,
                Err(StoreError::Damaged(damage)) => Err(damage),
                Err(error) => return Err(error),
            };
            bytes =
                bytes.saturating_add(key.len()).saturating_add(value.as_ref().map_or(0, Vec::len));
            found.push((key, value));
            if scan.is_full(found.len(), bytes) {
                return Ok(found);
            }
        }
        if ended {
            break;
        }
    }
    Ok(found)
}

/// Puts a split value together; none if a part is missing.
fn assemble(view: &dyn View, id: PartsId, length: usize) -> Result<Option<Vec<u8>>, StoreError> {
    let mut value = Vec::new();
    for part in PartsId::parts(length) {
        let key = id.key(part);
        let Some(raw) = view.get(PARTS, &key)? else { return Ok(None) };
        match record::open(PARTS, &key, raw)? {
            Record::Whole(piece) => value.extend_from_slice(&piece),
            Record::Split { .. } => return Ok(None),
        }
    }
    Ok((value.len() == length).then_some(value))
}

/// Runs a read; an engine that panics on damaged bytes has found damage.
pub(crate) fn guarded<T>(read: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(StoreError::damaged("the engine", "it panicked")))
}

fn part_write(key: Vec<u8>, piece: &[u8]) -> Write {
    let value = record::whole(PARTS, &key, piece);
    Write { table: PARTS, key, value: Some(value) }
}

fn meta_write(key: Vec<u8>, value: &[u8]) -> Write {
    let value = record::whole(META, &key, value);
    Write { table: META, key, value: Some(value) }
}

fn split_key(table: &str) -> Vec<u8> {
    [SPLIT_TABLE, table.as_bytes()].concat()
}

/// The commit that makes a store.
pub(crate) const FIRST_COMMIT: u64 = 1;
const STORE: &[u8] = b"store";
const COMMIT: &[u8] = b"commit";
const SPLIT_TABLE: &[u8] = b"split/";
