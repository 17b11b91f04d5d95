//! Disks that fill up or break under a running store. Each test runs its body in a child, on a
//! disk that does so on request.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tidings_kv::{CommitError, EngineKind, Options, Reader, Store, StoreError};

use crate::{
    child,
    disk::{Disk, set_broken, set_full},
    support::{noise, options, put},
    workload::Subject,
};

/// Runs `test` of this module as a child on a failing disk.
fn on_disk(test: &str, engine: EngineKind) {
    let disk = Disk::new();
    let mut command =
        child::again(&format!("faults::{test}"), &disk.store(), Subject::Engine(engine));
    disk.under(&mut command);
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{engine}: {shown}");
    let ran = String::from_utf8_lossy(&output.stdout).contains(DONE);
    assert!(ran, "{engine}: the body did not run");
}

const DONE: &str = "the body has run";

type Outcome = Result<(), CommitError<StoreError>>;

/// Opens without the reserve, so that the engine itself meets the full disk; counts calls of the
/// failure hook.
fn open(dir: &Path, engine: EngineKind) -> (Store, Arc<AtomicUsize>) {
    let failures = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&failures);
    let on_failure = Arc::new(move |_: &StoreError| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let options = Options { reserve: 0, on_failure: Some(on_failure), ..options(engine) };
    (Store::open(dir, options).unwrap(), failures)
}

fn large(store: &Store) -> Outcome {
    store.run(|txn| txn.put("blobs", "large", noise(1, 24 << 20)))
}

/// After a failure: the store answers that it stopped, and a restart has what was acknowledged.
fn stopped(store: &Store, failures: &AtomicUsize) {
    let late: Outcome = store.run(|txn| txn.put("rows", "late", "v"));
    assert!(matches!(late, Err(CommitError::Store(StoreError::Failed { .. }))), "{late:?}");
    assert!(store.failure().is_some());
    assert!(store.close().is_err());
    assert_eq!(failures.load(Ordering::SeqCst), 1);
}

fn restarted(dir: &Path, engine: EngineKind) {
    let (store, failures) = open(dir, engine);
    assert!(!store.was_clean());
    assert_eq!(store.get("rows", b"before").unwrap().unwrap(), b"v");
    put(&store, "rows", b"after", b"v");
    assert_eq!(store.check().unwrap().damaged, 0);
    store.close().unwrap();
    assert_eq!(failures.load(Ordering::SeqCst), 0);
}

#[test]
fn full_body() {
    let Some((dir, subject)) = child::orders() else { return };
    let engine = subject.kind();
    let (store, failures) = open(&dir, engine);
    put(&store, "rows", b"before", b"v");
    set_full(true);
    let outcome = large(&store);
    assert_eq!(store.get("rows", b"before").unwrap().unwrap(), b"v");
    assert_eq!(store.get("blobs", b"large").unwrap(), None);
    match engine {
        // redb took the commit back and goes on as soon as there is room.
        EngineKind::Redb => {
            let full = matches!(outcome, Err(CommitError::Store(StoreError::StorageFull { .. })));
            assert!(full, "{outcome:?}");
            set_full(false);
            assert_eq!(large(&store), Ok(()));
            assert_eq!(failures.load(Ordering::SeqCst), 0);
            store.close().unwrap();
            let (store, _) = open(&dir, engine);
            assert_eq!(store.get("blobs", b"large").unwrap().unwrap(), noise(1, 24 << 20));
            assert_eq!(store.check().unwrap().damaged, 0);
        }
        // sled cannot say how far it came: the reserve is there to keep it from coming here.
        _ => {
            let unknown = matches!(outcome, Err(CommitError::Store(StoreError::Unknown { .. })));
            assert!(unknown, "{outcome:?}");
            stopped(&store, &failures);
            set_full(false);
            restarted(&dir, engine);
        }
    }
    println!("{DONE}");
}

#[test]
fn broken_body() {
    let Some((dir, subject)) = child::orders() else { return };
    let engine = subject.kind();
    let (store, failures) = open(&dir, engine);
    put(&store, "rows", b"before", b"v");
    set_broken(true);
    let outcome: Outcome = store.run(|txn| txn.put("rows", "k", "v"));
    let unknown = matches!(outcome, Err(CommitError::Store(StoreError::Unknown { .. })));
    assert!(unknown, "{outcome:?}");
    // Mended at once: the sync must not be tried again all the same.
    set_broken(false);
    stopped(&store, &failures);
    restarted(&dir, engine);
    println!("{DONE}");
}

#[test]
fn redb_heals_when_there_is_room_again() {
    on_disk("full_body", EngineKind::Redb);
}

#[test]
fn sled_stops_when_it_meets_the_end_of_the_disk() {
    on_disk("full_body", EngineKind::Sled);
}

#[test]
fn redb_stops_after_a_failed_sync() {
    on_disk("broken_body", EngineKind::Redb);
}

#[test]
fn sled_stops_after_a_failed_sync() {
    on_disk("broken_body", EngineKind::Sled);
}
