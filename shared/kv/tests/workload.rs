//! Writers whose every promise can be checked afterwards, whatever became of them.
//!
//! Writer `w` runs jobs 1, 2, 3, …: job `n` puts row `n`, deletes row `n - KEPT` and notes `n` as
//! the writer's head, in two tables at once. What a store holds of a writer is therefore known
//! from its head alone, and any torn job shows.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Mutex, PoisonError},
};

use tidings_kv::{
    Batch, Durability, Engine, EngineKind, Options, Reader, Row, Scan, Step, Store, StoreError,
    View, engine::SledEngine,
};

use crate::support::{noise, options, pick};

/// Writers whose jobs are synced; one more commits relaxed.
pub const SYNCED: u8 = 4;
const KEPT: u32 = 50;

/// What a child process writes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Engine(EngineKind),
    /// sled that is rewritten all the time.
    Rewriting,
    /// sled as it comes: acknowledged before it is durable.
    NoSync,
}

impl Subject {
    pub fn name(self) -> &'static str {
        match self {
            Self::Engine(kind) => kind.name(),
            Self::Rewriting => "rewriting",
            Self::NoSync => "nosync",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        let engines = [Self::Engine(EngineKind::Sled), Self::Engine(EngineKind::Redb)];
        let all = [engines.as_slice(), &[Self::Rewriting, Self::NoSync]].concat();
        all.into_iter().find(|subject| subject.name() == name)
    }

    pub fn kind(self) -> EngineKind {
        match self {
            Self::Engine(kind) => kind,
            Self::Rewriting | Self::NoSync => EngineKind::Sled,
        }
    }

    pub fn open(self, dir: &Path) -> Result<Store, StoreError> {
        // Small batches, so that commits come thick and fast.
        let options = Options { batch_jobs: 8, ..options(self.kind()) };
        match self {
            Self::Engine(_) | Self::Rewriting => Store::open(dir, options),
            Self::NoSync => Store::open_with(dir, options, |dir, tables, _| {
                Ok(Box::new(NoSync(SledEngine::open(dir, tables, 16 << 20)?)))
            }),
        }
    }
}

/// The newest acknowledged job of each writer.
pub type Acks = BTreeMap<u8, u32>;

/// Runs the writers for ever, or until one fails; `acked` is told of every acknowledgement.
pub fn write(store: &Store, subject: Subject, acked: impl Fn(u8, u32) + Sync) -> String {
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        if subject == Subject::Rewriting {
            scope.spawn(|| while store.compact().is_ok() {});
        }
        for writer in 0..=SYNCED {
            let (acked, failure) = (&acked, &failure);
            scope.spawn(move || {
                let error = write_as(store, writer, acked);
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            });
        }
    });
    failure.into_inner().unwrap().unwrap()
}

fn write_as(store: &Store, writer: u8, acked: &impl Fn(u8, u32)) -> String {
    let durability = if writer < SYNCED { Durability::Synced } else { Durability::Relaxed };
    loop {
        let outcome = store.run_as(durability, move |txn| {
            let head = head(txn, writer)? + 1;
            txn.put("rows", key(writer, head), value(writer, head))?;
            if let Some(old) = head.checked_sub(KEPT) {
                txn.delete("rows", key(writer, old))?;
            }
            txn.put("blobs", [writer], head.to_be_bytes())?;
            Ok::<_, StoreError>(head)
        });
        match outcome {
            Ok(head) => acked(writer, head),
            Err(error) => return error.to_string(),
        }
    }
}

/// Checks everything that the writers were promised. Answers the heads, for a next round.
pub fn verify(store: &Store, acks: &Acks) -> Result<Acks, String> {
    let mut heads = Acks::new();
    for writer in 0..=SYNCED {
        let head = head(store, writer).map_err(|error| error.to_string())?;
        let acked = acks.get(&writer).copied().unwrap_or(0);
        if writer < SYNCED && head < acked {
            return Err(format!("writer {writer}: jobs {}..={acked} are lost", head + 1));
        }
        if head > acked + 1 && acked > 0 {
            return Err(format!("writer {writer} is at {head}, but only {acked} was answered"));
        }
        rows_fit(store, writer, head)?;
        heads.insert(writer, head);
    }
    let report = store.check().map_err(|error| error.to_string())?;
    if report.damaged + report.orphans > 0 {
        return Err(format!("{report:?}"));
    }
    Ok(heads)
}

fn rows_fit(store: &Store, writer: u8, head: u32) -> Result<(), String> {
    let rows = store.range("rows", &Scan::prefix(&[writer], 1000));
    let rows = rows.map_err(|error| error.to_string())?;
    let first = head.saturating_sub(KEPT) + 1;
    let keys: Vec<_> = rows.iter().map(|row| row.0.clone()).collect();
    let expected: Vec<_> = (first..=head).map(|n| key(writer, n)).collect();
    if keys != expected {
        return Err(format!("writer {writer} at {head}: rows {keys:02x?} do not fit"));
    }
    match (first..=head).zip(&rows).find(|(n, row)| row.1 != value(writer, *n)) {
        Some((n, _)) => Err(format!("writer {writer}: row {n} is altered")),
        None => Ok(()),
    }
}

fn head(reader: &impl Reader, writer: u8) -> Result<u32, StoreError> {
    let head = reader.get("blobs", &[writer])?;
    Ok(head.map_or(0, |head| u32::from_be_bytes(head.try_into().unwrap())))
}

fn key(writer: u8, n: u32) -> Vec<u8> {
    [&[writer][..], &n.to_be_bytes()].concat()
}

/// Mostly small, now and then large enough to be split.
fn value(writer: u8, n: u32) -> Vec<u8> {
    let seed = u64::from(writer) << 32 | u64::from(n);
    let length = match pick(seed, 100) {
        0..90 => pick(seed + 1, 900),
        90..98 => pick(seed + 1, 9000),
        _ => pick(seed + 1, 150_000),
    };
    noise(seed, usize::try_from(length).unwrap())
}

/// The sled engine without its sync.
struct NoSync(SledEngine);

impl View for NoSync {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.get(table, key)
    }

    fn range(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        self.0.range(table, scan)
    }
}

impl Engine for NoSync {
    fn commit(&self, batch: &Batch, _: Durability) -> Result<Durability, StoreError> {
        self.0.commit_without_sync(batch).map(|()| Durability::Synced)
    }

    fn view(&self) -> Result<Option<Box<dyn View>>, StoreError> {
        self.0.view()
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        self.0.disk_size()
    }

    fn compact(&self) -> Result<Step, StoreError> {
        self.0.compact()
    }

    fn check(&self) -> Result<(), StoreError> {
        self.0.check()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.0.close()
    }
}
