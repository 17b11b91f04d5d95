//! Reads and verifies a whole store.

use std::collections::BTreeSet;

use crate::{
    Damage, Scan, StoreError,
    record::{self, Record},
    records::{PARTS, Records, guarded},
};

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Records read, parts of split values not counted.
    pub records: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// How many records are damaged.
    pub damaged: u64,
    /// The first hundred of them.
    pub first: Vec<DamagedRecord>,
    /// Parts that no record points to: wasted space, nothing worse.
    pub orphans: u64,
}

/// A record that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedRecord {
    /// Its table.
    pub table: String,
    /// Its key.
    pub key: Vec<u8>,
    /// What is wrong.
    pub damage: Damage,
}

pub(crate) fn check(records: &Records) -> Result<CheckReport, StoreError> {
    guarded(|| records.engine.check())?;
    let mut report = CheckReport::default();
    let mut used = BTreeSet::new();
    for table in records.tables() {
        let mut scan = Scan::all(PAGE).bytes(PAGE_BYTES);
        loop {
            let found = records.survey(table, &scan)?;
            let Some((last, _)) = found.last() else { break };
            scan.advance(last);
            for (key, value) in found {
                report.records += 1;
                match value {
                    Ok(value) => report.bytes += (key.len() + value.len()) as u64,
                    Err(damage) => report.add(table, key, damage),
                }
            }
        }
        note_parts(records, table, &mut used)?;
    }
    report.orphans = orphans(records, &used)?;
    Ok(report)
}

impl CheckReport {
    fn add(&mut self, table: &str, key: Vec<u8>, damage: Damage) {
        self.damaged += 1;
        if self.first.len() < LISTED {
            self.first.push(DamagedRecord { table: table.to_owned(), key, damage });
        }
    }
}

/// Collects the ids of all split values of a table.
fn note_parts(
    records: &Records,
    table: &str,
    used: &mut BTreeSet<[u8; 12]>,
) -> Result<(), StoreError> {
    raw(records, table, |key, raw| {
        if let Ok(Record::Split { id, .. }) = record::open(table, key, raw) {
            used.extend(id_of(&id.key(0)));
        }
    })
}

fn orphans(records: &Records, used: &BTreeSet<[u8; 12]>) -> Result<u64, StoreError> {
    let mut count = 0;
    raw(records, PARTS, |key, _| {
        if id_of(key).is_none_or(|id| !used.contains(&id)) {
            count += 1;
        }
    })?;
    Ok(count)
}

fn raw(
    records: &Records,
    table: &str,
    mut each: impl FnMut(&[u8], Vec<u8>),
) -> Result<(), StoreError> {
    let mut scan = Scan::all(PAGE).bytes(PAGE_BYTES);
    loop {
        let rows = guarded(|| records.engine.range(table, &scan))?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        scan.advance(last);
        for (key, value) in rows {
            each(&key, value);
        }
    }
}

fn id_of(key: &[u8]) -> Option<[u8; 12]> {
    key.first_chunk().copied()
}

const PAGE: usize = 1000;
const PAGE_BYTES: usize = 4 << 20;
const LISTED: usize = 100;
