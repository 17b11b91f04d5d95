//! Ordered durable key-value storage: one narrow engine trait, the engines sled, redb and memory,
//! and above them, written once, what makes an acknowledgement true: the lock, the `STORE` marker,
//! a checksum per record, splitting of large values, and the committer that groups writes under
//! one sync. The server and the daemon keep everything durable here; nothing here knows what the
//! bytes mean.
//!
//! ```
//! use tidings_kv::{EngineKind, Options, Reader, Scan, Store, StoreError};
//!
//! # fn main() -> Result<(), StoreError> {
//! # let dir = tempfile::tempdir().map_err(|_| StoreError::Closed)?;
//! let options = Options::new(EngineKind::Redb, "an-example", &["rows"]);
//! let store = Store::open(dir.path().join("store"), options)?;
//! // A job reads and writes; `run` returns when what it wrote would survive a power cut.
//! let count = store.run(|txn| {
//!     txn.put("rows", "a", "1")?;
//!     txn.put("rows", "b", "2")?;
//!     Ok::<_, StoreError>(txn.range("rows", &Scan::all(10))?.len())
//! })?;
//! assert_eq!(count, 2);
//! assert_eq!(store.get("rows", b"a")?.as_deref(), Some(b"1".as_slice()));
//! store.close()
//! # }
//! ```

mod batch;
mod check;
mod committer;
pub mod engine;
mod error;
mod files;
mod lock;
mod marker;
mod merge;
mod open;
mod options;
mod reader;
mod record;
mod records;
mod scan;
mod space;
mod store;
mod txn;

pub use batch::{Batch, Durability, Write};
pub use check::{CheckReport, DamagedRecord};
pub use engine::{Compaction, Engine, Rewrite, Step, View};
pub use error::{CommitError, Damage, ErrorKind, StoreError};
pub use marker::{FORMAT_VERSION, Generation, StoreId};
pub use open::Opening;
pub use options::{EngineKind, FailureHook, OpenCheck, Options};
pub use reader::{Found, Reader, Snapshot};
pub use record::{MAX_KEY, MAX_VALUE, MAX_WHOLE_VALUE};
pub use scan::{Order, Row, Scan};
pub use store::Store;
pub use txn::Txn;
