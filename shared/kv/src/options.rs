//! What an owner decides when it opens a store.

use std::{fmt, sync::Arc, time::Duration};

use crate::StoreError;

/// Which engine holds the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// sled: most durable appends a second where many writers push at once.
    Sled,
    /// redb: small, quiet, with consistent views and a file that shrinks.
    Redb,
    /// Nothing on disk; for tests.
    Memory,
}

impl EngineKind {
    /// The name, as configuration and the `STORE` marker spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sled => "sled",
            Self::Redb => "redb",
            Self::Memory => "memory",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How much of the data an open verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OpenCheck {
    /// What the engine does by itself. Every record is verified as it is read, so that nothing
    /// altered is ever answered, and an engine that stumbles over its own pages is reported as
    /// damaged. What neither can see is a row that is not found: a damaged key or pointer in a
    /// page of the engine's tree hides rows from those who look for them by key. Reading the
    /// table from end to end, or [`crate::Store::check`], finds most of that.
    #[default]
    Quick,
    /// Every page of the engine, where it can (redb); reads the whole file. After it no row is
    /// hidden. sled has nothing of the kind: it verifies its log as it opens, drops what does not
    /// fit, and the high-water mark shows what is gone.
    Full,
}

/// Called once, on the committer's thread, when a commit has failed and the store takes no more
/// writes. The owner usually ends the process here: only a restart reads what is on the disk.
pub type FailureHook = Arc<dyn Fn(&StoreError) + Send + Sync>;

/// How to open a store. Build it with [`Options::new`] and change fields as needed.
#[derive(Clone)]
pub struct Options {
    /// Which engine; a store keeps the one it was made with.
    pub engine: EngineKind,
    /// The tables, a small fixed set. A later version may add some. Names are up to 64 bytes of
    /// `a-z`, `0-9` and `_` and begin with a letter.
    pub tables: &'static [&'static str],
    /// Who owns the store, for example `tidings-server`. Another owner's store is not opened.
    pub owner: &'static str,
    /// Version of what the owner keeps in the tables. A store with a newer one is not opened; one
    /// with an older one is, and the owner migrates it ([`crate::Store::layout`]).
    pub layout: u32,
    /// How much an open verifies.
    pub check: OpenCheck,
    /// Bytes of memory that the engine may use as cache.
    pub cache: u64,
    /// A write is refused while less than this would stay free on the file system, so that the
    /// engine never runs into the end of the disk half way through a commit. Bytes; 0 switches
    /// the precaution off. sled also needs room to open: below 16 MiB it may stay closed until
    /// there is more.
    pub reserve: u64,
    /// Jobs that may wait for the committer.
    pub queue: usize,
    /// Jobs that share one commit at most.
    pub batch_jobs: usize,
    /// Bytes of keys and values at which a commit takes no more jobs.
    pub batch_bytes: usize,
    /// A relaxed commit is followed by a synced one after this time at the latest.
    pub relaxed_for: Duration,
    /// sled gives no space back by itself. When its files take more than this many times the
    /// bytes that are live in them, the store moves these to fresh files while it goes on; see
    /// [`crate::Store::compact`]. 0: only when asked. Fresh files are two to three times as large
    /// as what is live.
    pub rewrite_ratio: u32,
    /// Files of fewer bytes than this are not rewritten unless asked. sled works in units of
    /// 8 MiB, so that small stores are all alike to it.
    pub rewrite_floor: u64,
    /// Called when the store stops after a failed commit.
    pub on_failure: Option<FailureHook>,
}

impl Options {
    /// Options with the defaults: a 64 MiB cache, 16 MiB kept free, 4,096 waiting jobs, 1,024 jobs
    /// or 8 MiB a commit, relaxed commits synced within a second, sled's files rewritten when they
    /// are over 64 MiB and four times as large as what is live.
    pub fn new(engine: EngineKind, owner: &'static str, tables: &'static [&'static str]) -> Self {
        Self {
            engine,
            tables,
            owner,
            layout: 1,
            check: OpenCheck::Quick,
            cache: 64 << 20,
            reserve: 16 << 20,
            queue: 4096,
            batch_jobs: 1024,
            batch_bytes: 8 << 20,
            relaxed_for: Duration::from_secs(1),
            rewrite_ratio: 4,
            rewrite_floor: 64 << 20,
            on_failure: None,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), StoreError> {
        for (index, name) in self.tables.iter().enumerate() {
            let spelled = name.len() <= 64
                && name.starts_with(|c: char| c.is_ascii_lowercase())
                && name.bytes().all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_'));
            if !spelled {
                return Err(StoreError::InvalidOptions(format!("the table name {name:?}")));
            }
            if self.tables.iter().skip(index + 1).any(|other| other == name) {
                return Err(StoreError::InvalidOptions(format!("the table {name:?}, twice")));
            }
        }
        let worded = |word: &str| !word.is_empty() && !word.contains(char::is_whitespace);
        if !worded(self.owner) {
            return Err(StoreError::InvalidOptions(format!("the owner {:?}", self.owner)));
        }
        if self.queue == 0 || self.batch_jobs == 0 || self.batch_bytes == 0 {
            return Err(StoreError::InvalidOptions("a queue or batch of nothing".to_owned()));
        }
        Ok(())
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("engine", &self.engine)
            .field("owner", &self.owner)
            .field("layout", &self.layout)
            .field("tables", &self.tables)
            .finish_non_exhaustive()
    }
}
