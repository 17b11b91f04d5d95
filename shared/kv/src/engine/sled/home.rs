//! One directory of sled's, open: reads, transactions, and the sync that sled itself leaves out.
//! Keeps count of the bytes that are live in it, exact and in the transactions themselves.

use std::{
    fs::{self, File},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use sled::transaction::{ConflictableTransactionError, TransactionError, Transactional};

use super::{missing, names, watch::Watch};
use crate::{Order, Row, Scan, StoreError, Write, error::Damage, files};

/// sled's files and handles.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    watch: Watch,
    trees: Vec<(&'static str, sled::Tree)>,
    db: sled::Db,
    log: File,
    /// Bytes of all keys and values; the same as under [`LIVE`].
    live: AtomicU64,
}

impl Home {
    /// Makes an empty one.
    pub(super) fn create(
        dir: &Path,
        number: u64,
        tables: &[&'static str],
        cache: u64,
    ) -> Result<Self, StoreError> {
        let path = names::home(dir, number);
        fs::create_dir(&path)
            .map_err(|error| StoreError::io(format!("create {}", path.display()), error))?;
        let home = Self::start(number, path, tables, cache)?;
        files::sync_dir(dir)?;
        Ok(home)
    }

    /// Opens one that must be there.
    pub(super) fn open(
        dir: &Path,
        number: u64,
        tables: &[&'static str],
        cache: u64,
    ) -> Result<Self, StoreError> {
        let home = names::home(dir, number);
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
        remove_half_snapshots(&home)?;
        Self::start(number, home, tables, cache)
    }

    fn start(
        number: u64,
        path: PathBuf,
        tables: &[&'static str],
        cache: u64,
    ) -> Result<Self, StoreError> {
        let place = path.display().to_string();
        // sled answers damaged files with panics as well as with errors.
        let opened = catch_unwind(AssertUnwindSafe(|| -> sled::Result<_> {
            let db = open_patiently(&path, cache)?;
            let trees = tables
                .iter()
                .map(|name| Ok((*name, db.open_tree(name)?)))
                .collect::<sled::Result<Vec<_>>>()?;
            db.flush()?;
            let live = match db.get(LIVE)? {
                Some(bytes) => bytes.as_ref().try_into().ok().map(u64::from_be_bytes),
                None => Some(count(&trees)?),
            };
            let log = File::options().read(true).write(true).open(path.join("db"))?;
            Ok((db, trees, live, log))
        }));
        let (db, trees, live, log) = match opened {
            Ok(Ok(parts)) => parts,
            Ok(Err(sled::Error::Io(error))) => {
                return Err(StoreError::io(format!("open {place}"), error));
            }
            Ok(Err(error)) => return Err(StoreError::damaged(place, error.to_string())),
            Err(_) => return Err(StoreError::damaged(place, "sled panicked while opening it")),
        };
        let live = live.ok_or_else(|| StoreError::damaged(&place, "the count is not a number"))?;
        // What recovery brought back may be in the page cache only, and readers are about to see
        // it; `conf` and the names of the files are written once and never synced by sled.
        files::sync_file(&path.join("conf"))?;
        files::sync_file(&path.join("db"))?;
        files::sync_dir(&path)?;
        let watch = Watch::start(db.clone())?;
        Ok(Self { number, path, watch, trees, db, log, live: AtomicU64::new(live) })
    }

    /// Bytes of all keys and values.
    pub(super) fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    fn tree(&self, table: &str) -> Result<&sled::Tree, StoreError> {
        let found = self.trees.iter().find(|(name, _)| *name == table);
        found.map(|(_, tree)| tree).ok_or_else(|| StoreError::UnknownTable(table.to_owned()))
    }

    pub(super) fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.tree(table)?.get(key).map_err(unreadable)?;
        Ok(value.map(|value| value.to_vec()))
    }

    pub(super) fn page(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        let tree = self.tree(table)?;
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
    }

    /// Applies the writes of some tables as one, and asks sled to flush them: atomic, but **not
    /// durable** before [`Home::sync`]. After an error nobody can say how far it came.
    pub(super) fn apply(&self, groups: &[(&'static str, &[Write])]) -> Result<(), StoreError> {
        self.watch.over(|| self.apply_watched(groups))
    }

    fn apply_watched(&self, groups: &[(&'static str, &[Write])]) -> Result<(), StoreError> {
        if !groups.is_empty() {
            let mut trees = Vec::new();
            for (table, _) in groups {
                trees.push(self.tree(table)?.clone());
            }
            trees.push((*self.db).clone());
            let applied = trees.as_slice().transaction(|trees| {
                let mut live = self.live();
                for (tree, (_, writes)) in trees.iter().zip(groups) {
                    for Write { key, value, .. } in *writes {
                        let key = key.as_slice();
                        let old = match value {
                            Some(value) => tree.insert(key, value.as_slice())?,
                            None => tree.remove(key)?,
                        };
                        live = live.saturating_add(size(key, value.as_deref()));
                        live = live.saturating_sub(size(key, old.as_deref()));
                    }
                }
                if let Some(own) = trees.last() {
                    own.insert(LIVE, &live.to_be_bytes())?;
                }
                Ok::<_, ConflictableTransactionError<()>>(live)
            });
            let live = applied.map_err(|error| match error {
                TransactionError::Storage(error) => self.unwritten(error),
                TransactionError::Abort(()) => StoreError::unknown("sled gave the commit up"),
            })?;
            self.live.store(live, Ordering::Relaxed);
        }
        self.db.flush().map(drop).map_err(|error| self.unwritten(error))
    }

    fn unwritten(&self, error: sled::Error) -> StoreError {
        match error {
            sled::Error::Io(error) => {
                StoreError::io(format!("write to {}", self.path.display()), error)
            }
            error => unreadable(error),
        }
    }

    /// Makes what was applied durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.log.sync_data()
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.db.checksum().map(drop).map_err(unreadable)
    }

    /// Lets go of the files, everything written out.
    pub(super) fn close(self) -> Result<(), StoreError> {
        let flushed = self.watch.over(|| self.db.flush());
        let flushed = flushed.map_err(io::Error::from).and_then(|_| self.sync());
        flushed.map_err(|error| StoreError::io(format!("sync {}", self.path.display()), error))
    }
}

/// Removes snapshots of sled's index that were never finished. sled itself takes such a file for
/// the newest snapshot, cannot read it, and calls the store corrupt; but it is only a shortcut
/// over the log, and the one before it is still there.
fn remove_half_snapshots(home: &Path) -> Result<(), StoreError> {
    let remove = || -> io::Result<()> {
        for entry in fs::read_dir(home)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with("snap.") && name.ends_with(".generating") {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    };
    remove().map_err(|error| StoreError::io(format!("tidy {}", home.display()), error))
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

/// What the rows of some trees take; for a directory in which nobody has counted yet.
fn count(trees: &[(&str, sled::Tree)]) -> sled::Result<u64> {
    let mut live = 0u64;
    for (_, tree) in trees {
        for row in tree.iter() {
            let (key, value) = row?;
            live = live.saturating_add(size(&key, Some(&value)));
        }
    }
    Ok(live)
}

fn size(key: &[u8], value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| key.len() as u64 + value.len() as u64)
}

fn unreadable(error: sled::Error) -> StoreError {
    match error {
        sled::Error::Corruption { .. } => {
            StoreError::Damaged(Damage { place: "sled's log".to_owned(), what: error.to_string() })
        }
        error => StoreError::unreadable(format!("sled: {error}")),
    }
}

/// sled's unit of space.
pub(super) const SEGMENT: usize = 8 << 20;
/// Key of the count of live bytes, in sled's default tree; tables are trees of their own.
const LIVE: &str = "live";

#[cfg(test)]
impl Home {
    /// Removes a row without a trace, as damage would.
    pub(super) fn lose(&self, table: &str) -> Result<(), StoreError> {
        self.tree(table)?.pop_min().map(drop).map_err(unreadable)
    }

    /// Removes the count, as if nobody had kept one.
    pub(super) fn forget_count(&self) -> Result<(), StoreError> {
        self.db.remove(LIVE).map(drop).map_err(unreadable)
    }
}
