//! sled behind the engine trait, with the sync that sled itself leaves out.
//!
//! On Linux sled's `flush` is `sync_file_range`, which writes pages back but neither waits for the
//! device nor covers the file's length: a power cut takes acknowledged writes with it. So a commit
//! here is transaction, flush, `fdatasync` of sled's log. Layout: `CURRENT` names the directory
//! that holds sled's files, so that a rewritten copy can take over by one rename.

mod home;
mod names;
mod rewrite;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError, RwLock},
};

use self::{
    home::Home,
    rewrite::{Copied, Copying, Rewriting},
};
use super::{Compaction, Engine, Rewrite, Step, View};
use crate::{
    Batch, Durability, Row, Scan, StoreError, files,
    merge::{Layer, merged},
};

/// The server's engine.
#[derive(Debug)]
pub struct SledEngine {
    dir: PathBuf,
    tables: Vec<&'static str>,
    cache: u64,
    open: RwLock<Option<Home>>,
    /// What the commit in flight replaced. sled shows a transaction before it is durable; readers
    /// see these values instead until it is, so that nobody acts on what a power cut could undo.
    before: RwLock<BTreeMap<&'static str, Layer>>,
    /// The committing thread's own, but for closing.
    rewriting: Mutex<Option<Rewriting>>,
    /// How far that is, for everybody else.
    progress: Mutex<Option<Rewrite>>,
}

impl SledEngine {
    /// Whether a store directory holds data of this engine, even half made.
    pub(crate) fn present(dir: &Path) -> bool {
        names::present(dir)
    }

    /// Removes data that was never finished.
    pub(crate) fn remove(dir: &Path) -> io::Result<()> {
        names::remove_all(dir)
    }

    /// Makes an empty store in `dir`.
    ///
    /// # Errors
    /// The files could not be made.
    pub fn create(dir: &Path, tables: &[&'static str], cache: u64) -> Result<Self, StoreError> {
        let home = Home::create(dir, names::FIRST, tables, cache)?;
        names::prepare(dir, home.number)?;
        names::switch(dir)?;
        Ok(Self::new(dir, home, tables, cache))
    }

    /// Opens the store in `dir`, which must be there.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if files are missing or sled cannot make sense of them.
    pub fn open(dir: &Path, tables: &[&'static str], cache: u64) -> Result<Self, StoreError> {
        let home = Home::open(dir, names::current(dir)?, tables, cache)?;
        Ok(Self::new(dir, home, tables, cache))
    }

    fn new(dir: &Path, home: Home, tables: &[&'static str], cache: u64) -> Self {
        Self {
            dir: dir.to_owned(),
            tables: tables.to_vec(),
            cache,
            open: RwLock::new(Some(home)),
            before: RwLock::default(),
            rewriting: Mutex::default(),
            progress: Mutex::default(),
        }
    }

    /// Applies a batch and asks sled to flush it, as stock sled does: atomic, but **not durable**.
    /// The missing step is [`Engine::commit`]'s; this one exists so that a test can show what that
    /// step is for.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], after which the engine must not be written to.
    pub fn commit_without_sync(&self, batch: &Batch) -> Result<(), StoreError> {
        let groups: Vec<_> = batch.tables().collect();
        self.with(|open| open.apply(&groups).map_err(StoreError::unknown))
    }

    fn with<T>(&self, work: impl FnOnce(&Home) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let guard = self.open.read().unwrap_or_else(PoisonError::into_inner);
        work(guard.as_ref().ok_or(StoreError::Closed)?)
    }

    /// Notes what `batch` is about to replace. Waits for readers that are half way, so each of
    /// them sees either the values noted here or the engine before the batch.
    fn hide(&self, batch: &Batch) -> Result<(), StoreError> {
        let before = self.with(|open| {
            let mut before = BTreeMap::new();
            for (table, writes) in batch.tables() {
                let mut layer = Layer::new();
                for write in writes {
                    layer.insert(write.key.clone(), open.get(table, &write.key)?);
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

    fn rewriting(&self) -> MutexGuard<'_, Option<Rewriting>> {
        self.rewriting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, progress: Option<Rewrite>) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }

    /// Lets a rewrite under way follow a commit. If it cannot, it is given up: the commit stands.
    fn follow(&self, batch: &Batch) {
        let mut rewriting = self.rewriting();
        let Some(Rewriting::Copying(copying)) = rewriting.as_ref() else { return };
        if let Err(error) = copying.follow(batch, &self.tables) {
            self.end(rewriting.replace(Rewriting::Failed(error)));
        }
    }

    /// Ends a rewrite, whatever it was at. Past the switch it is finished instead, with this size
    /// before.
    fn end(&self, rewriting: Option<Rewriting>) -> Option<u64> {
        self.note(None);
        match rewriting {
            Some(Rewriting::Copying(copying)) => copying.abandon(),
            Some(Rewriting::Sweeping(sweeping)) => return Some(sweeping.finish()),
            Some(Rewriting::Failed(_) | Rewriting::Stuck) | None => {}
        }
        None
    }

    fn rewritten(&self, before: u64) -> Compaction {
        Compaction::Rewritten { before, after: self.disk_size().unwrap_or(0) }
    }

    fn begin(&self) -> Result<Copying, StoreError> {
        let before = self.disk_size()?;
        self.with(|open| Copying::begin(&self.dir, open, before, &self.tables, self.cache))
    }

    fn step(&self, state: &mut Option<Rewriting>) -> Result<Step, StoreError> {
        match state {
            None => *state = Some(Rewriting::Copying(self.begin()?)),
            Some(Rewriting::Copying(copying)) => {
                if let Copied::Everything = self.copy(copying)? {
                    self.switch(state)?;
                }
            }
            Some(Rewriting::Sweeping(sweeping)) => {
                if let Some(before) = sweeping.sweep() {
                    *state = None;
                    return Ok(Step::Done(self.rewritten(before)));
                }
            }
            Some(Rewriting::Failed(error)) => return Err(error.clone()),
            Some(Rewriting::Stuck) => {
                return Err(StoreError::unknown("which of two directories counts is not known"));
            }
        }
        Ok(Step::Underway)
    }

    /// One slice of copying.
    fn copy(&self, copying: &mut Copying) -> Result<Copied, StoreError> {
        self.with(|open| {
            let copied = copying.copy(open, &self.tables)?;
            self.note(Some(copying.progress(open)));
            if let Copied::Everything = copied {
                copying.complete(&self.dir, open)?;
            }
            Ok(copied)
        })
    }

    /// Lets a complete copy take over.
    fn switch(&self, state: &mut Option<Rewriting>) -> Result<(), StoreError> {
        self.note(None);
        let Some(Rewriting::Copying(copying)) = state.replace(Rewriting::Stuck) else {
            return Ok(());
        };
        if let Err(error) = names::switch(&self.dir) {
            copying.release();
            return Err(StoreError::unknown(error));
        }
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let source = open.as_mut().ok_or(StoreError::Closed)?;
        *state = Some(Rewriting::Sweeping(copying.take_over(source)));
        Ok(())
    }
}

impl View for SledEngine {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let before = self.before.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = before.get(table).and_then(|layer| layer.get(key)) {
            return Ok(old.clone());
        }
        self.with(|open| open.get(table, key))
    }

    fn range(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        let before = self.before.read().unwrap_or_else(PoisonError::into_inner);
        self.with(|open| match before.get(table) {
            Some(layer) => merged(layer, scan, |scan| open.page(table, scan)),
            None => open.page(table, scan),
        })
    }
}

impl Engine for SledEngine {
    /// Relaxed commits are synced too: sled reuses space that it takes to be free once it has
    /// flushed, which is safe only if a sync follows at once.
    fn commit(&self, batch: &Batch, _: Durability) -> Result<Durability, StoreError> {
        self.hide(batch)?;
        self.commit_without_sync(batch)?;
        self.with(|open| {
            open.sync().map_err(|error| StoreError::unknown(format!("syncing sled's log: {error}")))
        })?;
        // Not reached after a failure: readers then keep seeing what is surely durable.
        self.reveal();
        self.follow(batch);
        Ok(Durability::Synced)
    }

    fn view(&self) -> Result<Option<Box<dyn View>>, StoreError> {
        Ok(None)
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        let homes = names::all(&self.dir)
            .map_err(|error| StoreError::io(format!("measure {}", self.dir.display()), error))?;
        homes.iter().map(|(_, home)| files::size_below(home)).sum()
    }

    /// What the rows take, kept in every transaction.
    fn live_size(&self) -> Result<Option<u64>, StoreError> {
        self.with(|open| Ok(Some(open.live())))
    }

    /// Moves what is live to a fresh directory, a slice a call. Needs room for the copy beside
    /// the original, and a second cache, until it is done.
    fn compact(&self) -> Result<Step, StoreError> {
        let mut rewriting = self.rewriting();
        let stepped = self.step(&mut rewriting);
        if stepped.is_err() && !matches!(*rewriting, Some(Rewriting::Stuck)) {
            self.end(rewriting.take());
        }
        stepped
    }

    fn cancel_compaction(&self) -> Option<Compaction> {
        let mut rewriting = self.rewriting();
        if let Some(Rewriting::Stuck) = *rewriting {
            return None;
        }
        self.end(rewriting.take()).map(|before| self.rewritten(before))
    }

    fn rewrite(&self) -> Option<Rewrite> {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tidy(&self) {
        let kept = self.with(|open| Ok(open.number));
        if let Ok(kept) = kept {
            names::sweep(&self.dir, kept);
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        self.with(Home::check)
    }

    fn close(&self) -> Result<(), StoreError> {
        self.cancel_compaction();
        let open = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
        open.map_or(Ok(()), Home::close)
    }
}

fn missing(path: &Path) -> StoreError {
    StoreError::damaged(path.display().to_string(), "the file is missing or empty")
}
