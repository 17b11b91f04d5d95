//! redb behind the engine trait: one file, `data.redb`, one write transaction a commit.

mod file;

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use redb::{Database, ReadOnlyTable, ReadableDatabase, TableDefinition};

use self::file::{Faults, WatchedFile};
use super::{Compaction, Engine, Step, View};
use crate::{Batch, Durability, OpenCheck, Order, Row, Scan, StoreError, files};

/// The daemon's engine, and the server's by choice.
#[derive(Debug)]
pub struct RedbEngine {
    path: PathBuf,
    cache: u64,
    database: RwLock<Option<Database>>,
    faults: Arc<Faults>,
    /// Whether a relaxed commit waits for a synced one. redb holds such commits in memory.
    relaxed: AtomicBool,
}

impl RedbEngine {
    /// Whether a store directory holds data of this engine, even half made.
    pub(crate) fn present(dir: &Path) -> bool {
        dir.join(FILE).exists()
    }

    /// Removes data that was never finished.
    pub(crate) fn remove(dir: &Path) -> io::Result<()> {
        match fs::remove_file(dir.join(FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes an empty store in `dir`.
    ///
    /// # Errors
    /// The file could not be made.
    pub fn create(dir: &Path, tables: &[&'static str], cache: u64) -> Result<Self, StoreError> {
        let path = dir.join(FILE);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|error| StoreError::io(format!("create {}", path.display()), error))?;
        let engine = Self::start(path, tables, cache, OpenCheck::Quick)?;
        files::sync_dir(dir)?;
        Ok(engine)
    }

    /// Opens the store in `dir`, which must be there.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the file is missing or redb finds it altered.
    pub fn open(
        dir: &Path,
        tables: &[&'static str],
        cache: u64,
        check: OpenCheck,
    ) -> Result<Self, StoreError> {
        let path = dir.join(FILE);
        match fs::metadata(&path) {
            // redb would make an empty store of an empty file.
            Ok(meta) if meta.len() > 0 => {
                let engine = Self::start(path, tables, cache, check)?;
                // The full check has read the whole file, so that counting its pages is cheap.
                if check == OpenCheck::Full && engine.sparse(meta.len())? {
                    engine.compact()?;
                }
                Ok(engine)
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io(format!("read {}", path.display()), error))
            }
            _ => {
                Err(StoreError::damaged(path.display().to_string(), "the file is missing or empty"))
            }
        }
    }

    fn start(
        path: PathBuf,
        tables: &[&'static str],
        cache: u64,
        check: OpenCheck,
    ) -> Result<Self, StoreError> {
        let faults = Arc::new(Faults::default());
        let database = open_database(&path, cache, check, &faults)?;
        let engine = Self {
            path,
            cache,
            database: RwLock::new(Some(database)),
            faults,
            relaxed: AtomicBool::new(false),
        };
        engine.add_tables(tables)?;
        // What recovery brought back may be in the page cache only.
        files::sync_file(&engine.path)?;
        Ok(engine)
    }

    /// Makes the tables that are not there yet; an open with none to make writes nothing.
    fn add_tables(&self, tables: &[&'static str]) -> Result<(), StoreError> {
        self.with(|database| {
            let reading = database.begin_read().map_err(|error| read_error(error.into()))?;
            let missing: Vec<_> = tables
                .iter()
                .filter(|name| {
                    let table = reading.open_table(definition(name));
                    matches!(table, Err(redb::TableError::TableDoesNotExist(_)))
                })
                .collect();
            drop(reading);
            if missing.is_empty() {
                return Ok(());
            }
            let add = || -> Result<(), redb::Error> {
                let mut writing = database.begin_write()?;
                writing.set_quick_repair(true);
                for name in missing {
                    writing.open_table(definition(name))?;
                }
                writing.commit()?;
                Ok(())
            };
            add().map_err(read_error)
        })
    }

    /// Whether most of a file of this many bytes is free pages.
    fn sparse(&self, size: u64) -> Result<bool, StoreError> {
        if size < SMALL {
            return Ok(false);
        }
        self.with(|database| {
            let count = || -> Result<u64, redb::Error> {
                let writing = database.begin_write()?;
                let stats = writing.stats()?;
                writing.abort()?;
                Ok(stats.allocated_pages().saturating_mul(stats.page_size() as u64))
            };
            count().map(|live| size > live.saturating_mul(SPARSE)).map_err(read_error)
        })
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let guard = self.database.read().unwrap_or_else(PoisonError::into_inner);
        work(guard.as_ref().ok_or(StoreError::Closed)?)
    }

    fn read(&self) -> Result<RedbView, StoreError> {
        self.with(|database| {
            database.begin_read().map(RedbView::new).map_err(|error| read_error(error.into()))
        })
    }

    /// redb refuses everything after a failed write. When the disk was full and nothing of the
    /// commit can have become visible, opening the file again heals it.
    fn heal(&self) -> Result<(), StoreError> {
        let mut guard = self.database.write().unwrap_or_else(PoisonError::into_inner);
        drop(guard.take());
        self.faults.clear();
        *guard = Some(open_database(&self.path, self.cache, OpenCheck::Quick, &self.faults)?);
        Ok(())
    }
}

impl View for RedbEngine {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.read()?.get(table, key)
    }

    fn range(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        self.read()?.range(table, scan)
    }
}

impl Engine for RedbEngine {
    fn commit(&self, batch: &Batch, durability: Durability) -> Result<Durability, StoreError> {
        let committed = self.with(|database| Ok(write(database, batch, durability)))?;
        match committed {
            Ok(()) => {
                self.relaxed.store(durability == Durability::Relaxed, Ordering::Relaxed);
                Ok(durability)
            }
            Err(error) => {
                let harmless = self.faults.only_full() && !self.relaxed.load(Ordering::Relaxed);
                if harmless && self.heal().is_ok() {
                    return Err(StoreError::StorageFull { needed: 0, free: 0 });
                }
                Err(StoreError::unknown(format!("redb: {error}")))
            }
        }
    }

    fn view(&self) -> Result<Option<Box<dyn View>>, StoreError> {
        Ok(Some(Box::new(self.read()?)))
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        fs::metadata(&self.path)
            .map(|meta| files::on_disk(&meta))
            .map_err(|error| StoreError::io(format!("measure {}", self.path.display()), error))
    }

    fn compact(&self) -> Result<Step, StoreError> {
        let before = self.disk_size()?;
        let mut guard = self.database.write().unwrap_or_else(PoisonError::into_inner);
        let database = guard.as_mut().ok_or(StoreError::Closed)?;
        let moved = database.compact().map_err(|error| match error {
            // Somebody reads in this moment.
            redb::CompactionError::TransactionInProgress => StoreError::Busy,
            error => read_error(error.into()),
        })?;
        // Compaction commits what was pending.
        self.relaxed.store(false, Ordering::Relaxed);
        drop(guard);
        let after = self.disk_size()?;
        let done =
            if moved { Compaction::Rewritten { before, after } } else { Compaction::Unchanged };
        Ok(Step::Done(done))
    }

    fn check(&self) -> Result<(), StoreError> {
        let mut guard = self.database.write().unwrap_or_else(PoisonError::into_inner);
        let database = guard.as_mut().ok_or(StoreError::Closed)?;
        match database.check_integrity() {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreError::damaged(
                self.path.display().to_string(),
                "redb found damage in its own structures and repaired it",
            )),
            Err(error) => Err(read_error(error.into())),
        }
    }

    fn close(&self) -> Result<(), StoreError> {
        let database = self.database.write().unwrap_or_else(PoisonError::into_inner).take();
        match database.map(Database::close) {
            Some(Err(error)) => Err(read_error(error.into())),
            _ => Ok(()),
        }
    }
}

/// A moment of the database. Tables are opened once each: that is a search of its own in redb.
struct RedbView {
    reading: redb::ReadTransaction,
    open: Mutex<BTreeMap<String, Arc<Table>>>,
}

type Table = ReadOnlyTable<&'static [u8], &'static [u8]>;

impl RedbView {
    fn new(reading: redb::ReadTransaction) -> Self {
        Self { reading, open: Mutex::default() }
    }

    fn table(&self, name: &str) -> Result<Arc<Table>, StoreError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = open.get(name) {
            return Ok(Arc::clone(table));
        }
        let table = self.reading.open_table(definition(name)).map_err(|e| read_error(e.into()))?;
        let table = Arc::new(table);
        open.insert(name.to_owned(), Arc::clone(&table));
        Ok(table)
    }
}

impl View for RedbView {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let table = self.table(table)?;
        let value = table.get(key).map_err(|error| read_error(error.into()))?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn range(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        let table = self.table(table)?;
        if scan.is_empty() {
            return Ok(Vec::new());
        }
        let rows = table
            .range::<&[u8]>((scan.from(), scan.to()))
            .map_err(|error| read_error(error.into()))?
            .map(|row| {
                let (key, value) = row.map_err(|error| read_error(error.into()))?;
                Ok((key.value().to_vec(), value.value().to_vec()))
            });
        match scan.order() {
            Order::Ascending => scan.collect(rows),
            Order::Descending => scan.collect(rows.rev()),
        }
    }
}

fn write(database: &Database, batch: &Batch, durability: Durability) -> Result<(), redb::Error> {
    let mut writing = database.begin_write()?;
    match durability {
        Durability::Relaxed => writing.set_durability(redb::Durability::None)?,
        // Without it, the open after a crash walks the whole file.
        Durability::Synced => writing.set_quick_repair(true),
    }
    for (name, writes) in batch.tables() {
        let mut table = writing.open_table(definition(name))?;
        for write in writes {
            match &write.value {
                Some(value) => table.insert(write.key.as_slice(), value.as_slice())?,
                None => table.remove(write.key.as_slice())?,
            };
        }
    }
    writing.commit()?;
    Ok(())
}

fn open_database(
    path: &Path,
    cache: u64,
    check: OpenCheck,
    faults: &Arc<Faults>,
) -> Result<Database, StoreError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|error| StoreError::io(format!("open {}", path.display()), error))?;
    let file = WatchedFile::new(file, Arc::clone(faults))
        .map_err(|error| StoreError::damaged(path.display().to_string(), error.to_string()))?;
    let opened = Database::builder()
        .set_cache_size(usize::try_from(cache).unwrap_or(usize::MAX))
        .set_check_integrity_on_open(check == OpenCheck::Full)
        .create_with_backend(file);
    opened.map_err(|error| match redb::Error::from(error) {
        redb::Error::Io(error) if error.kind() != io::ErrorKind::InvalidData => {
            StoreError::io(format!("open {}", path.display()), error)
        }
        error => StoreError::damaged(path.display().to_string(), error.to_string()),
    })
}

fn definition(name: &str) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
    TableDefinition::new(name)
}

fn read_error(error: redb::Error) -> StoreError {
    match error {
        redb::Error::Corrupted(what) => StoreError::damaged(FILE, what),
        redb::Error::TableDoesNotExist(name) => StoreError::UnknownTable(name),
        error => StoreError::unreadable(format!("redb: {error}")),
    }
}

const FILE: &str = "data.redb";
/// Files below this many bytes are not worth compacting.
const SMALL: u64 = 16 << 20;
/// A file is compacted when it is this many times as large as what is live in it.
const SPARSE: u64 = 4;
