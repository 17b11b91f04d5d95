//! Disks that fill up or break under a running store. Each test runs its body in a child, on a
//! disk that does so on request.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tidings_disk::{Disk, set_broken, set_full};
use tidings_kv::{CommitError, EngineKind, Options, Reader, Store, StoreError};

use crate::{
    child,
    rewrite::homes,
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

#[test]
fn full_rewrite_body() {
    let Some((dir, subject)) = child::orders() else { return };
    let (store, failures) = open(&dir, subject.kind());
    put(&store, "rows", b"before", b"v");
    for n in 0..60u8 {
        put(&store, "blobs", &[n], &noise(n.into(), 60_000));
    }
    let full = std::thread::spawn({
        let store = store.clone();
        move || {
            while store.rewrite().is_none() {}
            set_full(true);
        }
    });
    let outcome = store.compact();
    full.join().unwrap();
    assert!(matches!(outcome, Err(StoreError::StorageFull { .. })), "{outcome:?}");
    assert_eq!((homes(&dir), store.rewrite()), (vec!["sled.1".to_owned()], None));
    assert_eq!(store.get("rows", b"before").unwrap().unwrap(), b"v");
    set_full(false);
    put(&store, "rows", b"before", b"w");
    put(&store, "rows", b"before", b"v");
    assert!(store.compact().is_ok());
    assert_eq!((homes(&dir), failures.load(Ordering::SeqCst)), (vec!["sled.2".to_owned()], 0));
    store.close().unwrap();
    let (store, _) = open(&dir, subject.kind());
    assert_eq!(store.check().unwrap().records, 61);
    println!("{DONE}");
}

#[test]
fn a_rewrite_that_meets_the_end_of_the_disk_is_given_up() {
    on_disk("full_rewrite_body", EngineKind::Sled);
}

#[test]
fn small_body() {
    let Some((dir, subject)) = child::orders() else { return };
    child::mount(&["-t", "tmpfs", "-o", "size=64m", "tidings-test"], &dir);
    let (store, _) = open(&dir.join("store"), subject.kind());
    put(&store, "blobs", b"large", &noise(1, 4 << 20));
    let taken = dir.join("taken");
    std::fs::write(&taken, vec![1; 28 << 20]).unwrap();
    match store.compact() {
        Err(StoreError::StorageFull { needed, free }) => assert!(needed > free && free > 0),
        other => panic!("{other:?}"),
    }
    put(&store, "rows", b"after", b"v");
    std::fs::remove_file(taken).unwrap();
    assert!(store.compact().is_ok());
    assert_eq!(store.get("blobs", b"large").unwrap().unwrap(), noise(1, 4 << 20));
    println!("{DONE}");
}

/// A real file system, because the preloaded library does not lie about the room that is free.
#[test]
fn a_rewrite_does_not_begin_without_room() {
    let dir = tempfile::TempDir::new().unwrap();
    let subject = Subject::Engine(EngineKind::Sled);
    let mut command = child::again("faults::small_body", dir.path(), subject);
    child::apart(&mut command);
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}");
    assert!(String::from_utf8_lossy(&output.stdout).contains(DONE), "{shown}");
}
