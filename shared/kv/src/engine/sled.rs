//! sled behind the engine trait, with the sync that sled itself leaves out.
//!
//! On Linux sled's `flush` is `sync_file_range`, which writes pages back but neither waits for the
//! device nor covers the file's length: a power cut takes acknowledged writes with it. So a commit
//! here is transaction, flush, `fdatasync` of sled's log. Layout: `CURRENT` names the directory
//! that holds sled's files, so that a rewritten copy can take over by one rename.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{PoisonError, RwLock},
    thread,
    time::{Duration, Instant},
};

use sled::transaction::{ConflictableTransactionError, TransactionError, Transactional};

use super::{Compaction, Engine, View};
use crate::{
    Batch, Durability, Order, Row, Scan, StoreError,
    error::Damage,
    files,
    merge::{Layer, merged},
};

/// The server's engine.
#[derive(Debug)]
pub struct SledEngine {
    home: PathBuf,
    open: RwLock<Option<Open>>,
    /// What the commit in flight replaced. sled shows a transaction before it is durable; readers
    /// see these values instead until it is, so that nobody acts on what a power cut could undo.
    before: RwLock<BTreeMap<&'static str, Layer>>,
}

#[derive(Debug)]
struct Open {
    trees: Vec<(&'static str, sled::Tree)>,
    db: sled::Db,
    log: File,
}

impl SledEngine {
    /// Whether a store directory holds data of this engine, even half made.
    pub(crate) fn present(dir: &Path) -> bool {
        dir.join(CURRENT).exists() || dir.join(FIRST).exists()
    }

    /// Removes data that was never finished.
    pub(crate) fn remove(dir: &Path) -> io::Result<()> {
        for path in [dir.join(CURRENT), dir.join(FIRST)] {
            let removed =
                if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes an empty store in `dir`.
    ///
    /// # Errors
    /// The files could not be made.
    pub fn create(dir: &Path, tables: &[&'static str], cache: u64) -> Result<Self, StoreError> {
        let home = dir.join(FIRST);
        fs::create_dir(&home)
            .map_err(|error| StoreError::io(format!("create {}", home.display()), error))?;
        let engine = Self::start(home, tables, cache)?;
        files::sync_dir(dir)?;
        files::replace(dir, CURRENT, format!("{FIRST}\n").as_bytes())?;
        Ok(engine)
    }

    /// Opens the store in `dir`, which must be there.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if files are missing or sled cannot make sense of them.
    pub fn open(dir: &Path, tables: &[&'static str], cache: u64) -> Result<Self, StoreError> {
        let current = dir.join(CURRENT);
        let name = files::read_small(&current, 256)
            .map_err(|error| StoreError::io(format!("read {}", current.display()), error))?
            .ok_or_else(|| missing(&current))?;
        let name = String::from_utf8_lossy(&name);
        let name = name.trim_end();
        if !name.starts_with(PREFIX) || name.contains(['/', '\\']) {
            let what = format!("names {name:?}, which is not a data directory");
            return Err(StoreError::damaged(current.display().to_string(), what));
        }
        let home = dir.join(name);
        // sled would make an empty store of a missing or empty file.
        for file in ["db", "conf"] {
            let path = home.join(file);
            match fs::metadata(&path) {
                Ok(meta) if meta.len() > 0 => {}
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io(format!("read {}", path.display()), error));
                }
                _ => return Err(missing(&path)),
            }
        }
        Self::start(home, tables, cache)
    }

    fn start(home: PathBuf, tables: &[&'static str], cache: u64) -> Result<Self, StoreError> {
        let place = home.display().to_string();
        // sled answers damaged files with panics as well as with errors.
        let opened = catch_unwind(AssertUnwindSafe(|| -> sled::Result<Open> {
            let db = open_patiently(&home, cache)?;
            let trees = tables
                .iter()
                .map(|name| Ok((*name, db.open_tree(name)?)))
                .collect::<sled::Result<_>>()?;
            db.flush()?;
            let log = File::options().read(true).write(true).open(home.join("db"))?;
            Ok(Open { trees, db, log })
        }));
        let open = match opened {
            Ok(Ok(open)) => open,
            Ok(Err(sled::Error::Io(error))) => {
                return Err(StoreError::io(format!("open {place}"), error));
            }
            Ok(Err(error)) => return Err(StoreError::damaged(place, error.to_string())),
            Err(_) => return Err(StoreError::damaged(place, "sled panicked while opening it")),
        };
        // What recovery brought back may be in the page cache only, and readers are about to see
        // it; `conf` and the names of the files are written once and never synced by sled.
        files::sync_file(&home.join("conf"))?;
        files::sync_file(&home.join("db"))?;
        files::sync_dir(&home)?;
        Ok(Self { home, open: RwLock::new(Some(open)), before: RwLock::default() })
    }

    /// Applies a batch and asks sled to flush it, as stock sled does: atomic, but **not durable**.
    /// The missing step is [`Engine::commit`]'s; this one exists so that a test can show what that
    /// step is for.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], after which the engine must not be written to.
    pub fn commit_without_sync(&self, batch: &Batch) -> Result<(), StoreError> {
        self.with(|open| open.apply(batch))
    }

    fn with<T>(&self, work: impl FnOnce(&Open) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let guard = self.open.read().unwrap_or_else(PoisonError::into_inner);
        work(guard.as_ref().ok_or(StoreError::Closed)?)
    }

    /// Notes what `batch` is about to replace. Waits for readers that are half way, so each of
    /// them sees either the values noted here or the engine before the batch.
    fn hide(&self, batch: &Batch) -> Result<(), StoreError> {
        let before = self.with(|open| {
            let mut before = BTreeMap::new();
            for (table, writes) in batch.tables() {
                let tree = open.tree(table)?;
                let mut layer = Layer::new();
                for write in writes {
                    let old = tree.get(&write.key).map_err(unreadable)?;
                    layer.insert(write.key.clone(), old.map(|value| value.to_vec()));
                }
                before.insert(table, layer);
            }
            Ok(before)
        })?;
        *self.before.write().unwrap_or_else(PoisonError::into_inner) = before;
        Ok(())
    }

    fn reveal(&self) {
        self.before.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Open {
    fn tree(&self, table: &str) -> Result<&sled::Tree, StoreError> {
        let found = self.trees.iter().find(|(name, _)| *name == table);
        found.map(|(_, tree)| tree).ok_or_else(|| StoreError::UnknownTable(table.to_owned()))
    }

    fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut trees = Vec::new();
        let mut groups = Vec::new();
        for (table, writes) in batch.tables() {
            trees.push(self.tree(table)?.clone());
            groups.push(writes);
        }
        if !trees.is_empty() {
            let applied = trees.as_slice().transaction(|trees| {
                for (tree, writes) in trees.iter().zip(&groups) {
                    for write in *writes {
                        match &write.value {
                            Some(value) => tree.insert(write.key.as_slice(), value.as_slice())?,
                            None => tree.remove(write.key.as_slice())?,
                        };
                    }
                }
                Ok::<_, ConflictableTransactionError<()>>(())
            });
            applied.map_err(|error| match error {
                TransactionError::Storage(error) => StoreError::unknown(format!("sled: {error}")),
                TransactionError::Abort(()) => StoreError::unknown("sled gave the commit up"),
            })?;
        }
        self.db.flush().map(drop).map_err(|error| StoreError::unknown(format!("sled: {error}")))
    }
}

impl View for SledEngine {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let before = self.before.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = before.get(table).and_then(|layer| layer.get(key)) {
            return Ok(old.clone());
        }
        self.with(|open| {
            let value = open.tree(table)?.get(key).map_err(unreadable)?;
            Ok(value.map(|value| value.to_vec()))
        })
    }

    fn range(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        let before = self.before.read().unwrap_or_else(PoisonError::into_inner);
        self.with(|open| {
            let tree = open.tree(table)?;
            let below = |scan: &Scan| {
                if scan.is_empty() {
                    return Ok(Vec::new());
                }
                let bounds = (scan.from().map(<[u8]>::to_vec), scan.to().map(<[u8]>::to_vec));
                let rows = tree.range(bounds).map(|row| {
                    let (key, value) = row.map_err(unreadable)?;
                    Ok((key.to_vec(), value.to_vec()))
                });
                match scan.order() {
                    Order::Ascending => scan.collect(rows),
                    Order::Descending => scan.collect(rows.rev()),
                }
            };
            match before.get(table) {
                Some(layer) => merged(layer, scan, below),
                None => below(scan),
            }
        })
    }
}

impl Engine for SledEngine {
    /// Relaxed commits are synced too: sled reuses space that it takes to be free once it has
    /// flushed, which is safe only if a sync follows at once.
    fn commit(&self, batch: &Batch, _: Durability) -> Result<Durability, StoreError> {
        self.hide(batch)?;
        self.with(|open| {
            open.apply(batch)?;
            open.log
                .sync_data()
                .map_err(|error| StoreError::unknown(format!("syncing sled's log: {error}")))
        })?;
        // Not reached after a failure: readers then keep seeing what is surely durable.
        self.reveal();
        Ok(Durability::Synced)
    }

    fn view(&self) -> Result<Option<Box<dyn View>>, StoreError> {
        Ok(None)
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        files::size_below(&self.home)
    }

    /// sled never gives space back; [`Compaction::Unchanged`].
    fn compact(&self) -> Result<Compaction, StoreError> {
        Ok(Compaction::Unchanged)
    }

    fn check(&self) -> Result<(), StoreError> {
        self.with(|open| open.db.checksum().map(drop).map_err(unreadable))
    }

    fn close(&self) -> Result<(), StoreError> {
        let open = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(open) = open else { return Ok(()) };
        let flushed = open.db.flush().map_err(io::Error::from).and_then(|_| open.log.sync_data());
        drop(open);
        flushed.map_err(|error| StoreError::io(format!("sync {}", self.home.display()), error))
    }
}

/// Opens sled. Its own lock outlives a closed handle until its threads are gone; this process
/// holds the store's lock already, so whoever holds sled's is on the way out.
fn open_patiently(home: &Path, cache: u64) -> sled::Result<sled::Db> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let opened = sled::Config::default()
            .path(home)
            .mode(sled::Mode::LowSpace)
            // At the default, nodes over 128 KiB go to files that sled never syncs.
            .segment_size(SEGMENT)
            .cache_capacity(cache)
            // The committer flushes; a timer would only add wake-ups.
            .flush_every_ms(None)
            .open();
        match opened {
            Err(sled::Error::Io(error))
                if error.to_string().contains("could not acquire lock")
                    && Instant::now() < deadline =>
            {
                thread::sleep(Duration::from_millis(20));
            }
            opened => return opened,
        }
    }
}

fn unreadable(error: sled::Error) -> StoreError {
    match error {
        sled::Error::Corruption { .. } => {
            StoreError::Damaged(Damage { place: "sled's log".to_owned(), what: error.to_string() })
        }
        error => StoreError::unreadable(format!("sled: {error}")),
    }
}

fn missing(path: &Path) -> StoreError {
    StoreError::damaged(path.display().to_string(), "the file is missing or empty")
}

const CURRENT: &str = "CURRENT";
const PREFIX: &str = "sled.";
const FIRST: &str = "sled.1";
const SEGMENT: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Write;

    fn batch(rows: &[(&str, Option<&str>)]) -> Batch {
        let write = |(key, value): &(&str, Option<&str>)| Write {
            table: "t",
            key: key.as_bytes().to_vec(),
            value: value.map(|value| value.as_bytes().to_vec()),
        };
        Batch::new(rows.iter().map(write).collect())
    }

    fn seen(engine: &SledEngine) -> String {
        let rows = engine.range("t", &Scan::all(99)).unwrap();
        let rows = rows.into_iter().map(|(key, value)| {
            assert_eq!(engine.get("t", &key).unwrap(), Some(value.clone()));
            String::from_utf8([key, value].concat()).unwrap()
        });
        rows.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn readers_do_not_see_a_commit_before_its_sync() {
        let dir = tempfile::tempdir().unwrap();
        let engine = SledEngine::create(dir.path(), &["t"], 1 << 20).unwrap();
        let old = batch(&[("a", Some("1")), ("b", Some("1")), ("d", Some("1"))]);
        engine.commit(&old, Durability::Synced).unwrap();
        let new = batch(&[("a", Some("2")), ("b", None), ("c", Some("2"))]);
        engine.hide(&new).unwrap();
        engine.commit_without_sync(&new).unwrap();
        assert_eq!(seen(&engine), "a1 b1 d1");
        assert_eq!(engine.get("t", b"c").unwrap(), None);
        engine.reveal();
        assert_eq!(seen(&engine), "a2 c2 d1");
    }
}
