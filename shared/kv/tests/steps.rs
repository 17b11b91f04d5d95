//! Stops and failures at every single step of a rewrite. A step is a change of a file or
//! directory, or a sync, and the disk of the tests stops or fails at the one it is told to.

use std::{collections::BTreeMap, path::Path};

use tidings_disk::{Disk, Loss, fail_at, kill_at, step_came};
use tidings_kv::{Compaction, EngineKind, ErrorKind, Options, Reader, Scan, Store, StoreError};

use crate::{
    child,
    rewrite::homes,
    support::{noise, options, put},
    workload::Subject,
};

/// Without the reserve, so that the engine itself meets what fails.
fn unreserved(engine: EngineKind) -> Options {
    Options { reserve: 0, ..options(engine) }
}

fn open(dir: &Path, engine: EngineKind) -> Store {
    Store::open(dir, unreserved(engine)).unwrap()
}

/// A store of a few slices.
fn fill(store: &Store) {
    for n in 0..9u8 {
        put(store, "rows", &[n], &noise(n.into(), 60_000));
    }
    put(store, "blobs", b"large", &noise(99, 150_000));
}

fn rows(store: &Store) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let tables = ["rows", "blobs"];
    tables.iter().flat_map(|table| store.range(table, &Scan::all(1000)).unwrap()).collect()
}

/// One whole store, with everything in it, and nothing beside it.
fn whole(dir: &Path, store: &Store, expected: &BTreeMap<Vec<u8>, Vec<u8>>) {
    assert!(rows(store) == *expected);
    let report = store.check().unwrap();
    assert_eq!((report.damaged, report.orphans), (0, 0));
    assert_eq!(homes(dir).len(), 1);
}

#[test]
fn kill_body() {
    let Some((dir, _)) = child::orders() else { return };
    let step = std::env::var(STEP).unwrap().parse().unwrap();
    let store = open(&dir, EngineKind::Sled);
    put(&store, "rows", b"step", &noise(step, 100));
    kill_at(step);
    assert!(matches!(store.compact(), Ok(Compaction::Rewritten { .. })));
    assert!(!step_came());
    println!("{PAST}");
}

const STEP: &str = "TIDINGS_KV_STEP";
const PAST: &str = "no such step";

/// kill -9 before each step, in turn alone and with a power cut.
#[test]
fn a_rewrite_killed_at_any_step_leaves_one_whole_store() {
    let disk = Disk::new();
    let dir = disk.store();
    let store = open(&dir, EngineKind::Sled);
    fill(&store);
    let mut expected = rows(&store);
    store.close().unwrap();
    let mut switched = 0;
    for step in 1.. {
        let mut child = child::again("steps::kill_body", &dir, Subject::Rewriting);
        disk.under(&mut child);
        let output = child.env(STEP, step.to_string()).output().unwrap();
        if String::from_utf8_lossy(&output.stdout).contains(PAST) {
            eprintln!("{step} steps, {switched} of them past the switch");
            assert!(step > 20 && switched > 0);
            break;
        }
        let shown = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), None, "not killed: {shown}");
        match step % 3 {
            0 => disk.spare(),
            1 => drop(disk.cut(Loss::Everything)),
            _ => drop(disk.cut(Loss::Scattered(step))),
        }
        let before = std::fs::read_to_string(dir.join("CURRENT")).unwrap();
        expected.insert(b"step".to_vec(), noise(step, 100));
        let store = open(&dir, EngineKind::Sled);
        whole(&dir, &store, &expected);
        assert_eq!(homes(&dir), [before.trim_end()]);
        switched += u64::from(before != *"sled.1\n");
        store.close().unwrap();
    }
}

#[test]
fn fail_body() {
    let Some((dir, _)) = child::orders() else { return };
    let store = open(&dir, EngineKind::Sled);
    fill(&store);
    let expected = rows(&store);
    store.close().unwrap();
    let mut outcomes = BTreeMap::<&str, u64>::new();
    for error in [EIO, ENOSPC] {
        for step in 1.. {
            let store = open(&dir, EngineKind::Sled);
            fail_at(step, error);
            let compacted = store.compact();
            let came = step_came();
            let goes_on = store.run(|txn| txn.put("rows", "after", "v"));
            match (&compacted, &goes_on) {
                (Err(StoreError::Unknown { .. }), Err(_)) => {
                    *outcomes.entry("stopped").or_default() += 1;
                    assert!(store.failure().is_some());
                }
                (Err(failed), Ok(())) => {
                    let full = matches!(failed, StoreError::StorageFull { .. });
                    assert_eq!(full, error == ENOSPC, "step {step}: {failed}");
                    *outcomes.entry("given up").or_default() += 1;
                    assert_eq!(homes(&dir).len(), 1);
                }
                (Ok(_), Ok(())) => *outcomes.entry("done").or_default() += 1,
                _ => panic!("step {step}: {compacted:?}, then {goes_on:?}"),
            }
            drop(store.close());
            let store = open(&dir, EngineKind::Sled);
            let mut expected = expected.clone();
            if goes_on.is_ok() {
                expected.insert(b"after".to_vec(), b"v".to_vec());
            }
            whole(&dir, &store, &expected);
            store.run(|txn| txn.delete("rows", "after")).unwrap();
            store.close().unwrap();
            if !came {
                break;
            }
        }
    }
    eprintln!("{outcomes:?}");
    println!("{PAST}");
}

#[test]
fn open_body() {
    let Some((dir, subject)) = child::orders() else { return };
    let engine = subject.kind();
    let store = open(&dir, engine);
    fill(&store);
    let expected = rows(&store);
    store.close().unwrap();
    let (mut refused, mut opened) = (0, 0);
    for step in 1.. {
        fail_at(step, EIO);
        let result = Store::open(&dir, unreserved(engine));
        let came = step_came();
        match result {
            Ok(store) => {
                store.close().unwrap();
                opened += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Retry, "step {step}: {error}");
                refused += 1;
            }
        }
        let store = open(&dir, engine);
        assert!(rows(&store) == expected);
        if step % 4 == 0 {
            // The next open has something to recover.
            put(&store, "rows", &[0], &noise(0, 60_000));
        }
        store.close().unwrap();
        if !came {
            break;
        }
    }
    eprintln!("{refused} refused, {opened} opened");
    println!("{PAST}");
}

/// An open that fails half way says so, and the next one works.
#[test]
fn an_open_that_fails_at_any_step_harms_nothing() {
    for engine in [EngineKind::Sled, EngineKind::Redb] {
        let disk = Disk::new();
        let mut child = child::again("steps::open_body", &disk.store(), Subject::Engine(engine));
        disk.under(&mut child);
        let output = child.output().unwrap();
        let shown = String::from_utf8_lossy(&output.stderr);
        eprintln!("{engine}: {shown}");
        assert!(output.status.success(), "{engine}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(PAST));
    }
}

#[test]
fn open_killed_body() {
    let Some((dir, subject)) = child::orders() else { return };
    kill_at(std::env::var(STEP).unwrap().parse().unwrap());
    open(&dir, subject.kind()).close().unwrap();
    assert!(!step_came());
    println!("{PAST}");
}

/// kill -9 before each step of an open that has something to recover, in turn alone and with a
/// power cut: the next open has everything.
#[test]
fn an_open_killed_at_any_step_harms_nothing() {
    for engine in [EngineKind::Sled, EngineKind::Redb] {
        let disk = Disk::new();
        let dir = disk.store();
        let store = open(&dir, engine);
        fill(&store);
        let mut expected = rows(&store);
        store.close().unwrap();
        for step in 1.. {
            let value = noise(step, 100);
            let store = open(&dir, engine);
            put(&store, "rows", b"step", &value);
            store.close().unwrap();
            expected.insert(b"step".to_vec(), value);
            let subject = Subject::Engine(engine);
            let mut child = child::again("steps::open_killed_body", &dir, subject);
            disk.under(&mut child);
            let output = child.env(STEP, step.to_string()).output().unwrap();
            match step % 3 {
                0 => disk.spare(),
                1 => drop(disk.cut(Loss::Everything)),
                _ => drop(disk.cut(Loss::Scattered(step))),
            }
            let store = Store::open(&dir, unreserved(engine));
            let store = store.unwrap_or_else(|error| panic!("{engine}, step {step}: {error}"));
            assert!(rows(&store) == expected, "{engine}, step {step}");
            assert_eq!(store.check().unwrap().damaged, 0);
            store.close().unwrap();
            if String::from_utf8_lossy(&output.stdout).contains(PAST) {
                eprintln!("{engine}: {step} steps");
                assert!(step > 5);
                break;
            }
            let shown = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), None, "not killed: {shown}");
        }
    }
}

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

#[test]
fn a_rewrite_that_fails_at_any_step_leaves_one_whole_store() {
    let disk = Disk::new();
    let mut child = child::again("steps::fail_body", &disk.store(), Subject::Rewriting);
    disk.under(&mut child);
    let output = child.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    eprintln!("{shown}");
    assert!(output.status.success(), "{shown}");
    assert!(String::from_utf8_lossy(&output.stdout).contains(PAST));
}
