//! A row as a join-semilattice: merging is commutative, associative and idempotent on any input,
//! so that retries, duplicates, reordering and refilling are harmless.
//!
//! A delta is a row that holds only what one operation wrote; merging a delta and merging two
//! replicas' rows are the same thing. docs/protocol.md has the rules and the encoding.

use std::collections::BTreeMap;

use tidings_wire::Stamp;

use crate::cell::Cell;
use crate::names::DELETED_AT;
use crate::object::Object;
use crate::path::Path;
use crate::record::is_soft_deleted;

/// What one operation, or many merged, wrote to a row.
pub type Delta = Row;

/// The state of a row. The default is a row that nothing was written to.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The greatest stamp of any operation merged in.
    pub(crate) version: Stamp,
    pub(crate) life: Option<Life>,
    pub(crate) cleared: Option<Cleared>,
    /// Kept free of cells that an ancestor's or the row's clearing stamp exceeds.
    pub(crate) cells: BTreeMap<Path, Cell>,
}

/// Whether the row exists, by its last `insert`, `put` or `delete`; a tie is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    pub(crate) stamp: Stamp,
    pub(crate) alive: bool,
}

/// The last `insert`, `put` or `delete`, which dropped every cell older than it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleared {
    pub(crate) stamp: Stamp,
    /// The row's version as the writer saw it, for the conflict journal.
    pub(crate) replaced: Stamp,
}

impl Default for Row {
    fn default() -> Self {
        Self { version: Stamp::ZERO, life: None, cleared: None, cells: BTreeMap::new() }
    }
}

/// What a merge changed, from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MergeOutcome {
    /// Nothing: everything in it was known.
    Unchanged,
    /// The state, which has to be stored, but nothing that is shown.
    Hidden,
    /// The version of a shown row, but none of its columns.
    Version,
    /// The columns of a row, or whether it is shown at all.
    Shown,
}

impl Row {
    /// The greatest stamp of any operation merged into the row: `_ver.id` of its record.
    pub fn version(&self) -> Stamp {
        self.version
    }

    /// Whether the row exists: it was inserted and not deleted since. A row of which only updates
    /// arrived so far is kept, but is not alive.
    pub fn is_alive(&self) -> bool {
        self.life.is_some_and(|life| life.alive)
    }

    /// When the row was deleted, if it is.
    pub fn deleted_at(&self) -> Option<Stamp> {
        self.life.filter(|life| !life.alive).map(|life| life.stamp)
    }

    /// Whether an app that keeps what it deletes has deleted the row, as
    /// [`is_soft_deleted`] says of its columns.
    pub fn is_soft_deleted(&self) -> bool {
        let column = |path: &Path| path.keys().first().is_some_and(|key| &**key == DELETED_AT);
        self.cells.keys().any(column) && self.columns().is_some_and(|shown| is_soft_deleted(&shown))
    }

    /// Whether nothing was ever written to it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The cells by path.
    pub fn cells(&self) -> impl Iterator<Item = (&Path, &Cell)> {
        self.cells.iter()
    }

    /// Merges another state of this row, and tells what changed.
    pub fn merge(&mut self, other: &Self) -> MergeOutcome {
        let before = (self.version, self.columns());
        if !self.join(other) {
            return MergeOutcome::Unchanged;
        }
        let after = (self.version, self.columns());
        match (before, after) {
            ((_, None), (_, None)) => MergeOutcome::Hidden,
            ((old, before), (new, after)) if before == after => {
                if old == new {
                    MergeOutcome::Hidden
                } else {
                    MergeOutcome::Version
                }
            }
            _ => MergeOutcome::Shown,
        }
    }

    /// Merges another state of this row without looking at what is shown; true if the state
    /// changed.
    pub fn join(&mut self, other: &Self) -> bool {
        let mut changed = other.version > self.version || other.life > self.life;
        self.version = self.version.max(other.version);
        self.life = self.life.max(other.life);
        changed |= self.join_cleared(other.cleared);
        // In path order an ancestor comes before what it may drop.
        for (path, cell) in &other.cells {
            let floor = self.floor(path);
            match self.cells.get_mut(path) {
                Some(ours) => changed |= ours.join(cell, floor),
                None => {
                    let mut ours = Cell::default();
                    if ours.join(cell, floor) {
                        self.cells.insert(path.clone(), ours);
                        changed = true;
                    }
                }
            }
        }
        if changed {
            self.drop_older();
        }
        changed
    }

    /// As [`Row::join`], of a state that is not needed any more: the first thing that is written
    /// to a row becomes the row.
    pub fn take(&mut self, other: Self) -> bool {
        if !self.is_empty() {
            return self.join(&other);
        }
        *self = other;
        !self.is_empty()
    }

    fn join_cleared(&mut self, other: Option<Cleared>) -> bool {
        let Some(theirs) = other else { return false };
        let joined = match self.cleared {
            Some(ours) if ours.stamp > theirs.stamp => ours,
            Some(ours) if ours.stamp == theirs.stamp => {
                Cleared { replaced: ours.replaced.min(theirs.replaced), ..ours }
            }
            _ => theirs,
        };
        let changed = self.cleared != Some(joined);
        self.cleared = Some(joined);
        changed
    }

    /// The stamp below which nothing at `path` counts, and the base of whoever does not write that
    /// path itself: of the last ancestor written, else of the row's clearing.
    pub(crate) fn floor(&self, path: &Path) -> Stamp {
        path.ancestors()
            .filter_map(|above| self.cells.get(above)?.stamp())
            .fold(self.cleared_stamp(), Stamp::max)
    }

    pub(crate) fn cleared_stamp(&self) -> Stamp {
        self.cleared.map_or(Stamp::ZERO, |cleared| cleared.stamp)
    }

    /// Drops what [`Row::floor`] says does not count.
    pub(crate) fn drop_older(&mut self) {
        let cleared = self.cleared_stamp();
        // The written paths above the current one, outermost first, each with the greatest stamp
        // down to it.
        let mut above: Vec<(Path, Stamp)> = Vec::new();
        let nested = self.cells.keys().any(|path| path.as_column().is_none());
        self.cells.retain(|path, cell| {
            while above.last().is_some_and(|(over, _)| !over.covers(path)) {
                above.pop();
            }
            let floor = above.last().map_or(cleared, |(_, stamp)| *stamp);
            if cell.drop_older(floor) {
                return false;
            }
            if let Some(stamp) = cell.stamp().filter(|_| nested) {
                above.push((path.clone(), stamp));
            }
            true
        });
    }

    /// Appends a later delta of the *same* writer, for freezing: as [`Row::join`], but what
    /// survives remembers the oldest stamp replaced on the way. The writer's own intermediate
    /// writes were never seen by anybody, so they cannot stand for what others saw. Merge the
    /// frozen delta into the replica's row, so that both remember the same.
    pub fn append(&mut self, later: &Self) {
        let mut later = later.clone();
        if let Some(cleared) = &mut later.cleared {
            cleared.replaced = self
                .cells
                .values()
                .filter_map(Cell::base)
                .filter(|earlier| earlier.stamp < cleared.stamp)
                .map(|earlier| earlier.replaced)
                .chain(self.cleared.map(|earlier| earlier.replaced))
                .fold(cleared.replaced, Stamp::min);
        }
        for (path, cell) in &mut later.cells {
            let Some(base) = &mut cell.base else { continue };
            base.replaced = self
                .below(path)
                .filter_map(|(_, cell)| cell.base())
                .filter(|earlier| earlier.stamp < base.stamp)
                .map(|earlier| earlier.replaced)
                .fold(base.replaced, Stamp::min);
        }
        self.join(&later);
    }

    /// The cells at `path` and below it.
    pub(crate) fn below(&self, path: &Path) -> impl Iterator<Item = (&Path, &Cell)> {
        self.cells.range::<Path, _>(path..).take_while(move |(at, _)| path.covers(at))
    }

    /// Gives stamps new names, where unsent writes are stamped anew. Every stamp that keeps its
    /// name has to lie below the new ones, and the new ones in the order of the old. A replica's
    /// row merges the restamped deltas afterwards, since one that had lost may win now.
    pub fn restamp(&mut self, renamed: &BTreeMap<Stamp, Stamp>) {
        let rename = |stamp: &mut Stamp| {
            if let Some(new) = renamed.get(stamp) {
                *stamp = *new;
            }
        };
        rename(&mut self.version);
        if let Some(life) = &mut self.life {
            rename(&mut life.stamp);
        }
        if let Some(cleared) = &mut self.cleared {
            rename(&mut cleared.stamp);
            rename(&mut cleared.replaced);
        }
        for cell in self.cells.values_mut() {
            if let Some(base) = &mut cell.base {
                rename(&mut base.stamp);
                rename(&mut base.replaced);
            }
            let Some(hanging) = &mut cell.hanging else { continue };
            rename(&mut hanging.on);
            for dot in hanging.dots.values_mut() {
                for stamps in [&mut dot.added, &mut dot.removed] {
                    *stamps = stamps
                        .iter()
                        .map(|stamp| renamed.get(stamp).copied().unwrap_or(*stamp))
                        .collect();
                }
            }
        }
        self.drop_older();
    }

    /// The columns as an app sees them, `None` where the row is deleted or not known to exist.
    pub fn columns(&self) -> Option<Object> {
        self.is_alive().then(|| crate::show::columns(self))
    }
}

#[cfg(test)]
#[path = "row_tests.rs"]
mod tests;
