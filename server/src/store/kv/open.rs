//! Opening the store: token key and start record, both durable before anything is served.

use std::collections::HashMap;
use std::sync::Mutex;

use tidings_kv::{EngineKind, OpenCheck, Options, Reader as _, Scan, Store as Kv, StoreError};
use tidings_wire::{Generation, Position, StartId};

use super::records::damaged;
use super::{KvStore, keys, table};
use crate::config::StoreLocation;
use crate::cursor::Timeline;
use crate::store::{Refusal, StoreFault};

/// Version of the tables' layout.
const LAYOUT: u32 = 1;

/// Bytes of memory that sled may use as cache.
const SLED_CACHE: u64 = 256 << 20;

/// Most starts that are remembered; older ones are as unknown ones.
const STARTS: usize = 10_000;

/// Why a store does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The key-value store does not open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is in it cannot be read.
    #[error(transparent)]
    Content(#[from] Refusal),
    /// The system has no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(#[from] getrandom::Error),
}

impl OpenError {
    /// Whether only a person can help: starting again would change nothing.
    pub fn needs_person(&self) -> bool {
        use tidings_kv::ErrorKind as Kind;
        match self {
            Self::Store(error) => match error {
                StoreError::Unreadable { .. } => true,
                error => matches!(error.kind(), Kind::Refused | Kind::Damaged | Kind::Misuse),
            },
            Self::Content(refusal) => {
                matches!(refusal, Refusal::Fault(StoreFault::Damaged(_)))
            }
            Self::Random(_) => false,
        }
    }
}

/// Called when the store stops for good after a failed commit.
pub type OnFailure = std::sync::Arc<dyn Fn(&StoreError) + Send + Sync>;

/// Whether the start is one of a server, which gives cursors, or only of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// A server: a start record is written.
    Serve,
    /// A command beside no server.
    Command,
}

impl KvStore {
    /// Opens the store, or makes it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(
        location: &StoreLocation,
        start: Start,
        on_failure: Option<OnFailure>,
    ) -> Result<Self, OpenError> {
        let options = |engine| {
            let mut options = Options::new(engine, "tidings-server", table::ALL);
            options.layout = LAYOUT;
            options.on_failure = on_failure.clone();
            options
        };
        let kv = match location {
            StoreLocation::Sled(dir) => {
                let mut options = options(EngineKind::Sled);
                options.cache = SLED_CACHE;
                Kv::open(dir, options)?
            }
            StoreLocation::Redb(dir) => {
                let mut options = options(EngineKind::Redb);
                // A damaged page could hide the token key, and a new one would be made.
                options.check = OpenCheck::Full;
                Kv::open(dir, options)?
            }
            StoreLocation::Memory => Kv::in_memory(options(EngineKind::Memory))?,
        };
        let token_key = token_key(&kv)?;
        let mut starts = starts(&kv)?;
        if start == Start::Serve {
            starts.push(note_start(&kv)?);
        }
        let generation = Generation(kv.generation().0);
        let timeline = Timeline { generation, starts };
        let store =
            Self { kv, token_key, timeline, noted: Mutex::new(HashMap::new()), full: false.into() };
        store.finish_removals()?;
        Ok(store)
    }
}

/// Reads the token key, or makes it.
fn token_key(kv: &Kv) -> Result<[u8; 32], OpenError> {
    let mut fresh = [0; 32];
    getrandom::fill(&mut fresh)?;
    let key = kv.run(move |txn| -> Result<_, Refusal> {
        match txn.get(table::META, keys::TOKEN_KEY)? {
            Some(bytes) => bytes.try_into().map_err(|_| damaged("token key", "not 32 bytes")),
            None => {
                txn.put(table::META, keys::TOKEN_KEY, fresh)?;
                Ok(fresh)
            }
        }
    });
    key.map_err(from_commit)
}

/// The starts so far, oldest first.
fn starts(kv: &Kv) -> Result<Vec<(StartId, Position)>, OpenError> {
    let newest_first = Scan::prefix(keys::STARTS, STARTS).reversed();
    let mut starts = Vec::new();
    for (_, value) in kv.range(table::META, &newest_first)? {
        let (id, head) = value
            .split_first_chunk::<8>()
            .and_then(|(id, head)| Some((*id, u64::from_be_bytes(head.try_into().ok()?))))
            .ok_or_else(|| damaged("start record", "not 16 bytes"))?;
        starts.push((StartId(id), Position(head)));
    }
    starts.reverse();
    Ok(starts)
}

/// Writes the record of this start: a random id and the counter as it is now.
fn note_start(kv: &Kv) -> Result<(StartId, Position), OpenError> {
    let mut id = [0; 8];
    getrandom::fill(&mut id)?;
    let head = kv.run(move |txn| -> Result<_, Refusal> {
        let last = txn.range(table::META, &Scan::prefix(keys::STARTS, 1).reversed())?;
        let number = last
            .first()
            .and_then(|(key, _)| key.last_chunk())
            .map_or(0, |number| u64::from_be_bytes(*number).saturating_add(1));
        let head = counter(txn)?;
        txn.put(table::META, keys::start(number), [id, head.to_be_bytes()].concat())?;
        Ok(head)
    });
    Ok((StartId(id), Position(head.map_err(from_commit)?)))
}

/// The counter: the last number that a change was given.
pub(crate) fn counter(reader: &impl tidings_kv::Reader) -> Result<u64, Refusal> {
    match reader.get(table::META, keys::COUNTER)? {
        None => Ok(0),
        Some(bytes) => {
            bytes.try_into().map(u64::from_be_bytes).map_err(|_| damaged("counter", "not 8 bytes"))
        }
    }
}

/// Gives a change the next number of the counter.
pub(crate) fn next_number(txn: &mut tidings_kv::Txn<'_>) -> Result<u64, Refusal> {
    let next = counter(txn)?.saturating_add(1);
    txn.put(table::META, keys::COUNTER, next.to_be_bytes())?;
    Ok(next)
}

/// Whether the store reads and has not stopped.
pub(crate) fn ready(kv: &Kv) -> Result<(), Refusal> {
    if let Some(failure) = kv.failure() {
        return Err(failure.into());
    }
    counter(kv).map(|_| ())
}

pub(crate) fn from_commit(error: tidings_kv::CommitError<Refusal>) -> OpenError {
    match error {
        tidings_kv::CommitError::Job(refusal) => refusal.into(),
        tidings_kv::CommitError::Store(error) => error.into(),
        tidings_kv::CommitError::Panicked(what) => {
            Refusal::from(StoreFault::Unavailable(what)).into()
        }
    }
}
