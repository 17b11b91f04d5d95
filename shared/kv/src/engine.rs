//! The narrow trait that an embedded store has to fill. Only the committer and the record layer
//! call it; engines see raw records and know nothing of checksums, markers or queues.

mod memory;
mod redb;
mod sled;

pub use self::memory::MemoryEngine;
pub use self::redb::RedbEngine;
pub use self::sled::SledEngine;

use crate::{Batch, Durability, Row, Scan, StoreError};

/// A source of raw records: an engine's present, or a consistent moment of it.
pub trait View: Send + Sync {
    /// The value of a key.
    ///
    /// # Errors
    /// The engine could not read, or knows no such table.
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// One page of rows, as [`Scan`] describes it. One page is read at one moment or close to it;
    /// pages of an engine without views may straddle commits.
    ///
    /// # Errors
    /// The engine could not read, or knows no such table.
    fn range(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError>;
}

/// An ordered, durable map of named tables.
///
/// Reads come from any thread and never see a synced commit before it is durable; commits come
/// from one thread. Every call blocks.
pub trait Engine: View + 'static {
    /// Applies a batch, all of it or nothing. With [`Durability::Synced`] it and every commit
    /// before it have reached the disk when this returns; an empty batch then is just that sync.
    /// Answers what was done: an engine may sync where relaxed would do.
    ///
    /// # Errors
    /// [`StoreError::StorageFull`] means that nothing was written and the engine goes on. After
    /// any other error the state is unknown and the engine must not be written to again.
    fn commit(&self, batch: &Batch, durability: Durability) -> Result<Durability, StoreError>;

    /// A consistent view, where the engine has such a thing.
    ///
    /// # Errors
    /// The engine could not read.
    fn view(&self) -> Result<Option<Box<dyn View>>, StoreError>;

    /// Bytes that the engine's files take on disk.
    ///
    /// # Errors
    /// The files could not be looked at.
    fn disk_size(&self) -> Result<u64, StoreError>;

    /// Bytes of all keys and values in it, if the engine keeps count.
    ///
    /// # Errors
    /// The engine is closed.
    fn live_size(&self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    /// Gives space back to the file system, where the engine can, a slice a call: the first call
    /// begins, and it is over with [`Step::Done`] or an error. Called between commits by the
    /// thread that commits, so that a commit waits for a slice at most. Views must be closed
    /// first.
    ///
    /// # Errors
    /// [`StoreError::Busy`] while views are open, or the engine failed; it is given up and what is
    /// stored is safe. Only after [`StoreError::Unknown`] the engine must not be written to again.
    fn compact(&self) -> Result<Step, StoreError>;

    /// Gives up a compaction that is under way: nothing but its work is lost. If it is past the
    /// point of no return it is finished instead, and answered.
    fn cancel_compaction(&self) -> Option<Compaction> {
        None
    }

    /// How far a compaction under way has come, if it copies what is live and can be given up.
    fn rewrite(&self) -> Option<Rewrite> {
        None
    }

    /// Removes what an interrupted compaction left behind. Called once after an open, when the
    /// data has proved to be the store's.
    fn tidy(&self) {}

    /// Checks the engine's own structures.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] with what was found.
    fn check(&self) -> Result<(), StoreError>;

    /// Writes out what is pending and lets go of the files. Later calls answer
    /// [`StoreError::Closed`].
    ///
    /// # Errors
    /// Something could not be written; acknowledged writes are safe.
    fn close(&self) -> Result<(), StoreError>;
}

/// What a call of [`Engine::compact`] leaves to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// More: call again.
    Underway,
    /// Nothing.
    Done(Compaction),
}

/// How far a rewrite has come; bytes of keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewrite {
    /// Bytes in the copy.
    pub copied: u64,
    /// Bytes in the store, which writes change meanwhile.
    pub live: u64,
}

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compaction {
    /// The files were rewritten; sizes in bytes.
    Rewritten {
        /// Size before.
        before: u64,
        /// Size after.
        after: u64,
    },
    /// There was nothing to gain, or the engine cannot shrink its files.
    Unchanged,
}
