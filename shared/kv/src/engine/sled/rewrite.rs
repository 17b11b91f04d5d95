//! The online rewrite: sled never gives space back, so what is live moves to a fresh directory
//! while the store goes on.
//!
//! Slices and commits come from one thread, one after another, which is the whole argument: a
//! commit goes to the old directory, synced as ever, and those of its writes that lie in the part
//! already copied go to the new one, too. So after every slice and every commit that part is equal
//! in both, and when it is everything, so are they. Then the new one is synced, `CURRENT` is
//! replaced, and only when that is durable the new one is written to alone and the old one goes.
//! Until the replacement a crash, or a failure on the new side, leaves the old directory and
//! nothing lost; after it, the new one.

use std::{
    fs::{self, File},
    io, mem,
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use super::{
    home::{Home, SEGMENT},
    names,
};
use crate::{Batch, Rewrite, Scan, StoreError, Write, files, space};

/// A rewrite under way.
#[derive(Debug)]
pub(super) enum Rewriting {
    /// Rows move to the new directory.
    Copying(Copying),
    /// The new directory counts; the old one goes.
    Sweeping(Sweeping),
    /// The new directory failed while commits were written to it, too; nobody was told yet.
    Failed(StoreError),
    /// Nobody knows which directory a restart will find: none may be removed.
    Stuck,
}

/// The first half.
#[derive(Debug)]
pub(super) struct Copying {
    target: Home,
    /// Bytes on disk before.
    before: u64,
    /// How many tables are copied as a whole.
    tables: usize,
    /// What is copied of the next one: every key up to this.
    upto: Option<Vec<u8>>,
}

/// The second half.
#[derive(Debug)]
pub(super) struct Sweeping {
    /// Bytes on disk before.
    before: u64,
    path: PathBuf,
    /// The old directory's handles, until they are closed.
    old: Option<Home>,
}

/// What a slice of copying leaves to do.
pub(super) enum Copied {
    Some,
    Everything,
}

impl Copying {
    /// Makes the new directory, if there is room for it.
    pub(super) fn begin(
        dir: &Path,
        source: &Home,
        before: u64,
        tables: &[&'static str],
        cache: u64,
    ) -> Result<Self, StoreError> {
        // Whatever an earlier one left behind is in the way, and its space is wanted.
        names::sweep(dir, source.number);
        // A directory that sled has just filled is twice to three times as large as its rows.
        let needed = source.live().saturating_mul(3).saturating_add(2 * SEGMENT as u64);
        match space::free(dir) {
            Some(free) if free < needed => return Err(StoreError::StorageFull { needed, free }),
            _ => {}
        }
        let number = source.number + 1;
        let target = contained(|| Home::create(dir, number, tables, cache))
            .inspect_err(|_| remove(&names::home(dir, number)))?;
        Ok(Self { target, before, tables: 0, upto: None })
    }

    /// Copies one page and syncs it, so that the sync at the end is as short as any other.
    pub(super) fn copy(
        &mut self,
        source: &Home,
        tables: &[&'static str],
    ) -> Result<Copied, StoreError> {
        let Some(table) = tables.get(self.tables) else { return Ok(Copied::Everything) };
        let from = self.upto.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let scan = Scan::bounds(from, Bound::Unbounded, ROWS).bytes(BYTES);
        contained(|| {
            let page = source.page(table, &scan)?;
            let Some((last, _)) = page.last() else {
                self.tables += 1;
                self.upto = None;
                return Ok(());
            };
            let last = last.clone();
            let rows = page.into_iter();
            let writes: Vec<_> =
                rows.map(|(key, value)| Write { table, key, value: Some(value) }).collect();
            self.target.apply(&[(*table, &writes)])?;
            self.sync()?;
            self.upto = Some(last);
            Ok(())
        })?;
        Ok(Copied::Some)
    }

    /// Applies to the copy what a commit changed in the part that is copied already.
    pub(super) fn follow(&self, batch: &Batch, tables: &[&'static str]) -> Result<(), StoreError> {
        let copied = tables.get(..self.tables).unwrap_or_default();
        let partly = tables.get(self.tables);
        let groups: Vec<_> = batch
            .tables()
            .map(|(table, writes)| {
                let end = match &self.upto {
                    _ if copied.contains(&table) => writes.len(),
                    Some(upto) if partly == Some(&table) => {
                        writes.partition_point(|write| write.key <= *upto)
                    }
                    _ => 0,
                };
                (table, writes.get(..end).unwrap_or_default())
            })
            .filter(|(_, writes)| !writes.is_empty())
            .collect();
        if groups.is_empty() {
            return Ok(());
        }
        contained(|| self.target.apply(&groups))
    }

    /// Makes everything but the switch: the copy is complete, durable, and `CURRENT` prepared.
    pub(super) fn complete(&self, dir: &Path, source: &Home) -> Result<(), StoreError> {
        self.sync()?;
        files::sync_dir(&self.target.path)?;
        files::sync_dir(dir)?;
        // Both counts are exact. If they differ, rows are missing here or there.
        let (old, new) = (source.live(), self.target.live());
        if old != new {
            let what = format!("{new} bytes could be copied, but {old} were written");
            return Err(StoreError::damaged(source.path.display().to_string(), what));
        }
        names::prepare(dir, self.target.number)
    }

    /// Puts the copy in the place of its source.
    pub(super) fn take_over(self, source: &mut Home) -> Sweeping {
        Sweeping::new(mem::replace(source, self.target), self.before)
    }

    pub(super) fn progress(&self, source: &Home) -> Rewrite {
        Rewrite { copied: self.target.live(), live: source.live() }
    }

    /// Lets go of the copy as it is.
    pub(super) fn release(self) {
        close(self.target);
    }

    /// Takes everything back.
    pub(super) fn abandon(self) {
        let path = self.target.path.clone();
        self.release();
        remove(&path);
    }

    fn sync(&self) -> Result<(), StoreError> {
        let path = &self.target.path;
        self.target
            .sync()
            .map_err(|error| StoreError::io(format!("sync {}", path.display()), error))
    }
}

impl Sweeping {
    fn new(old: Home, before: u64) -> Self {
        Self { before, path: old.path.clone(), old: Some(old) }
    }

    /// Does a part of the work; answers the size before when all of it is done. A large file is
    /// cut down piece by piece, because the file system is busy for long with a large one.
    pub(super) fn sweep(&mut self) -> Option<u64> {
        if let Some(old) = self.old.take() {
            close(old);
            return None;
        }
        if cut(&self.path.join("db")).is_ok_and(|more| more) {
            return None;
        }
        remove(&self.path);
        Some(self.before)
    }

    /// Does the rest at once; answers the size before.
    pub(super) fn finish(mut self) -> u64 {
        while self.sweep().is_none() {}
        self.before
    }
}

/// Cuts a piece off a file; false if it is no longer than that.
fn cut(path: &Path) -> io::Result<bool> {
    let file = File::options().write(true).open(path)?;
    let length = file.metadata()?.len();
    if length <= PIECE {
        return Ok(false);
    }
    file.set_len(length - PIECE)?;
    Ok(true)
}

fn close(home: Home) {
    let path = home.path.clone();
    // sled syncs a last time as it goes, and panics if that fails.
    if catch_unwind(AssertUnwindSafe(|| drop(home))).is_err() {
        tracing::warn!(home = %path.display(), "sled panicked as it was closed");
    }
}

/// Removes a directory; what resists goes at the next rewrite or open.
fn remove(path: &Path) {
    if let Err(error) = fs::remove_dir_all(path) {
        tracing::warn!(%error, home = %path.display(), "a directory could not be removed");
    }
}

/// Runs work on the new directory, which may fail as it likes: the store does not depend on it.
fn contained<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        // "Unknown" is said of commits only.
        Ok(Err(StoreError::Unknown { reason })) => Err(StoreError::Unreadable { reason }),
        Ok(result) => result,
        Err(_) => Err(StoreError::unreadable("sled panicked during a rewrite")),
    }
}

/// Rows of a slice at most.
const ROWS: usize = 1024;
/// Bytes of a slice at most, but for the row that exceeds them.
const BYTES: usize = 256 << 10;
/// Bytes freed in one slice.
const PIECE: u64 = 64 << 20;
