//! What the committer promises, shown on an engine that fails, fills up and counts on request.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use tempfile::TempDir;
use tidings_kv::{
    Batch, CommitError, Durability, Engine, EngineKind, ErrorKind, Options, Reader, Row, Scan,
    Step, Store, StoreError, View, engine::MemoryEngine,
};

use crate::support::{options, put};

/// What the engine under test does next, and what it has done.
#[derive(Default)]
struct Script {
    /// Errors that the next commits answer.
    errors: Mutex<Vec<StoreError>>,
    panics: AtomicUsize,
    commits: AtomicUsize,
    synced: AtomicUsize,
    delay_ms: AtomicU64,
}

struct Scripted(MemoryEngine, Arc<Script>);

impl View for Scripted {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        assert!(key != b"poison", "an engine's bug");
        self.0.get(table, key)
    }

    fn range(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        self.0.range(table, scan)
    }
}

impl Engine for Scripted {
    fn commit(&self, batch: &Batch, durability: Durability) -> Result<Durability, StoreError> {
        std::thread::sleep(Duration::from_millis(self.1.delay_ms.load(Ordering::SeqCst)));
        if let Some(error) = self.1.errors.lock().unwrap().pop() {
            return Err(error);
        }
        assert!(self.1.panics.load(Ordering::SeqCst) == 0, "an engine's bug");
        self.0.commit(batch, durability)?;
        self.1.commits.fetch_add(1, Ordering::SeqCst);
        if durability == Durability::Synced {
            self.1.synced.fetch_add(1, Ordering::SeqCst);
        }
        Ok(durability)
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

fn scripted(options: Options) -> (TempDir, Store, Arc<Script>) {
    let dir = TempDir::new().unwrap();
    let script = Arc::new(Script::default());
    let engine = Arc::clone(&script);
    let store = Store::open_with(dir.path(), options, |_, tables, _| {
        Ok(Box::new(Scripted(MemoryEngine::new(tables), engine)))
    });
    script.commits.store(0, Ordering::SeqCst);
    script.synced.store(0, Ordering::SeqCst);
    (dir, store.unwrap(), script)
}

fn memory() -> Options {
    options(EngineKind::Memory)
}

type Outcome = Result<(), CommitError<StoreError>>;

fn submit(store: &Store, durability: Durability, key: u32, to: &mpsc::Sender<Outcome>) {
    let to = to.clone();
    store.submit(
        durability,
        move |txn| txn.put("rows", key.to_be_bytes(), "v"),
        move |outcome| to.send(outcome).unwrap(),
    );
}

#[test]
fn waiting_jobs_share_commits() {
    let (_dir, store, script) = scripted(memory());
    script.delay_ms.store(20, Ordering::SeqCst);
    let (sender, outcomes) = mpsc::channel();
    for key in 0..500 {
        submit(&store, Durability::Synced, key, &sender);
    }
    assert!(outcomes.iter().take(500).all(|outcome| outcome.is_ok()));
    let commits = script.commits.load(Ordering::SeqCst);
    assert!(commits < 50, "{commits} commits for 500 jobs");
    assert_eq!(store.range("rows", &Scan::all(999)).unwrap().len(), 500);
}

#[test]
fn commits_are_bounded() {
    let limits = Options { batch_jobs: 10, batch_bytes: 1000, ..memory() };
    let (_dir, store, script) = scripted(limits);
    let (go, wait) = mpsc::channel::<()>();
    let (sender, outcomes) = mpsc::channel();
    store.submit(
        Durability::Synced,
        move |_| {
            wait.recv().unwrap();
            Ok::<_, StoreError>(())
        },
        |_| {},
    );
    for key in 0..40 {
        submit(&store, Durability::Synced, key, &sender);
    }
    for _ in 0..4 {
        let sender = sender.clone();
        store.submit(
            Durability::Synced,
            |txn| txn.put("blobs", "k", vec![0; 5000]),
            move |outcome| sender.send(outcome).unwrap(),
        );
    }
    go.send(()).unwrap();
    assert!(outcomes.iter().take(44).all(|outcome| outcome.is_ok()));
    // 41 jobs in tens, the last with the first large one; then each large one alone.
    assert_eq!(script.commits.load(Ordering::SeqCst), 8);
}

#[test]
fn a_failed_commit_stops_the_store() {
    let hooked = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&hooked);
    let on_failure = Arc::new(move |error: &StoreError| hook.lock().unwrap().push(error.clone()));
    let (dir, store, script) = scripted(Options { on_failure: Some(on_failure), ..memory() });
    put(&store, "rows", b"before", b"v");
    *script.errors.lock().unwrap() = vec![StoreError::Unknown { reason: "fsync: EIO".into() }];
    script.delay_ms.store(20, Ordering::SeqCst);

    let (sender, outcomes) = mpsc::channel();
    for key in 0..20 {
        submit(&store, Durability::Synced, key, &sender);
    }
    let outcomes: Vec<_> = outcomes.iter().take(20).collect();
    let is = |outcome: &Outcome, unknown: bool| match outcome {
        Err(CommitError::Store(StoreError::Unknown { .. })) => unknown,
        Err(CommitError::Store(StoreError::Failed { .. })) => !unknown,
        _ => false,
    };
    // Those of the failed commit get "unknown", those behind it "stopped"; nobody gets "done".
    let unknown = outcomes.iter().filter(|outcome| is(outcome, true)).count();
    assert!(unknown >= 1);
    assert!(outcomes.iter().skip(unknown).all(|outcome| is(outcome, false)));

    let late: Outcome = store.run(|txn| txn.put("rows", "late", "v"));
    assert!(is(&late, false), "{late:?}");
    assert_eq!(store.get("rows", b"before").unwrap().unwrap(), b"v");
    assert!(matches!(store.failure(), Some(StoreError::Failed { .. })));
    assert!(store.close().is_err());
    let hooked = hooked.lock().unwrap();
    assert!(matches!(hooked.as_slice(), [StoreError::Unknown { .. }]), "{hooked:?}");
    let marker = std::fs::read_to_string(dir.path().join("STORE")).unwrap();
    assert!(marker.contains("stage open"), "{marker}");
}

#[test]
fn any_unexplained_engine_error_or_panic_stops_the_store() {
    for panics in [false, true] {
        let (_dir, store, script) = scripted(memory());
        if panics {
            script.panics.store(1, Ordering::SeqCst);
        } else {
            *script.errors.lock().unwrap() = vec![StoreError::Closed];
        }
        let outcome: Outcome = store.run(|txn| txn.put("rows", "k", "v"));
        assert!(matches!(outcome, Err(CommitError::Store(StoreError::Unknown { .. }))));
        assert!(store.failure().is_some());
    }
}

#[test]
fn a_full_disk_refuses_writes_and_heals() {
    let (_dir, store, script) = scripted(memory());
    put(&store, "rows", b"before", b"v");
    *script.errors.lock().unwrap() = vec![StoreError::StorageFull { needed: 1, free: 0 }];
    let full: Outcome = store.run(|txn| txn.put("rows", "k", "v"));
    match full {
        Err(CommitError::Store(error @ StoreError::StorageFull { .. })) => {
            assert_eq!(error.kind(), ErrorKind::Retry);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(store.get("rows", b"k").unwrap(), None);
    assert_eq!(store.get("rows", b"before").unwrap().unwrap(), b"v");
    put(&store, "rows", b"k", b"after");
    assert!(store.failure().is_none());
}

#[test]
fn the_reserve_is_kept_free() {
    let dir = TempDir::new().unwrap();
    let open = |reserve| {
        let options = Options { reserve, ..options(EngineKind::Sled) };
        Store::open(dir.path(), options)
    };
    assert!(matches!(open(u64::MAX), Err(StoreError::StorageFull { .. })));
    open(0).unwrap().close().unwrap();
    let store = open(u64::MAX).unwrap();
    let full: Outcome = store.run(|txn| txn.put("rows", "k", "v"));
    assert!(matches!(full, Err(CommitError::Store(StoreError::StorageFull { .. }))));
    let nothing: Outcome = store.run(|txn| txn.get("rows", b"k").map(drop));
    assert_eq!(nothing, Ok(()));
}

#[test]
fn a_full_queue_says_so_at_once() {
    let (_dir, store, _) = scripted(Options { queue: 2, ..memory() });
    let (go, wait) = mpsc::channel::<()>();
    let (started, has_started) = mpsc::channel();
    store.submit(
        Durability::Synced,
        move |_| {
            started.send(()).unwrap();
            wait.recv().unwrap();
            Ok::<_, StoreError>(())
        },
        |_| {},
    );
    has_started.recv().unwrap();
    let (sender, outcomes) = mpsc::channel();
    for key in 0..3 {
        submit(&store, Durability::Synced, key, &sender);
    }
    assert_eq!(outcomes.recv().unwrap(), Err(CommitError::Store(StoreError::Busy)));
    go.send(()).unwrap();
    assert_eq!(outcomes.iter().take(2).filter(Result::is_ok).count(), 2);
}

#[test]
fn relaxed_commits_are_synced_soon_and_before_any_synced_answer() {
    let (_dir, store, script) =
        scripted(Options { relaxed_for: Duration::from_secs(3600), ..memory() });
    let relaxed = |key: &'static str| {
        store.run_as(Durability::Relaxed, move |txn| txn.put("rows", key, "v")).unwrap();
    };
    relaxed("a");
    assert_eq!(script.synced.load(Ordering::SeqCst), 0);
    // A job that only reads answers from a relaxed commit: it has to be safe first.
    let read: Outcome = store.run(|txn| txn.get("rows", b"a").map(drop));
    assert_eq!((read, script.synced.load(Ordering::SeqCst)), (Ok(()), 1));
    let read: Outcome = store.run(|txn| txn.get("rows", b"a").map(drop));
    assert_eq!((read, script.synced.load(Ordering::SeqCst)), (Ok(()), 1));
    relaxed("b");
    store.close().unwrap();
    assert_eq!(script.synced.load(Ordering::SeqCst), 2);

    let (_dir, store, script) =
        scripted(Options { relaxed_for: Duration::from_millis(10), ..memory() });
    store.run_as(Durability::Relaxed, |txn| txn.put("rows", "a", "v")).unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while script.synced.load(Ordering::SeqCst) == 0 {
        assert!(std::time::Instant::now() < deadline, "never synced");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn jobs_taken_before_close_are_finished() {
    let (_dir, store, script) = scripted(memory());
    script.delay_ms.store(10, Ordering::SeqCst);
    let (sender, outcomes) = mpsc::channel();
    for key in 0..100 {
        submit(&store, Durability::Synced, key, &sender);
    }
    store.close().unwrap();
    assert_eq!(outcomes.try_iter().filter(Result::is_ok).count(), 100);
}

#[test]
fn waiting_inside_a_job_is_refused_not_a_deadlock() {
    let (_dir, store, _) = scripted(memory());
    let inner = store.clone();
    let nested = store.run(move |_| {
        let nested: Outcome = inner.run(|_| Ok(()));
        Ok::<_, StoreError>((nested, inner.close()))
    });
    let busy = CommitError::Store(StoreError::Busy);
    assert_eq!(nested.unwrap(), (Err(busy), Err(StoreError::Busy)));
}

#[test]
fn a_panicking_acknowledgement_harms_nobody() {
    let (_dir, store, _) = scripted(memory());
    store.submit(Durability::Synced, |txn| txn.put("rows", "k", "v"), |_| panic!("on purpose"));
    put(&store, "rows", b"l", b"v");
    assert_eq!(store.range("rows", &Scan::all(9)).unwrap().len(), 2);
}

#[test]
fn an_engine_that_panics_while_reading_is_damaged() {
    let (_dir, store, _) = scripted(memory());
    let error = store.get("rows", b"poison").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    put(&store, "rows", b"k", b"v");
}
