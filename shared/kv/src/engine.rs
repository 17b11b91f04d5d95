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

    /// Gives space back to the file system, where the engine can. Views must be closed first.
    ///
    /// # Errors
    /// The engine failed or views are open; what is stored is safe either way.
    fn compact(&self) -> Result<Compaction, StoreError>;

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

/// What [`Engine::compact`] did.
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
