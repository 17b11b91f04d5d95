//! Ordered durable key-value storage: one narrow engine trait, the engines sled, redb and memory,
//! and above them, written once, what makes an acknowledgement true: the lock, the `STORE` marker,
//! a checksum per record, splitting of large values, and the committer that groups writes under
//! one sync. The server and the daemon keep everything durable here; nothing here knows what the
//! bytes mean.

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
pub use engine::{Compaction, Engine, View};
pub use error::{CommitError, Damage, ErrorKind, StoreError};
pub use marker::{FORMAT_VERSION, Generation, StoreId};
pub use open::Opening;
pub use options::{EngineKind, FailureHook, OpenCheck, Options};
pub use reader::{Found, Reader, Snapshot};
pub use record::{MAX_KEY, MAX_VALUE, MAX_WHOLE_VALUE};
pub use scan::{Order, Row, Scan};
pub use store::Store;
pub use txn::Txn;
