//! Lock, marker and data, and every way in which they can disagree. Whatever is refused is left
//! untouched.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use tidings_kv::{EngineKind, ErrorKind, Options, Reader, Scan, Store, StoreError};

use crate::{
    child,
    support::{each_durable, open, options, put},
    workload::Subject,
};

/// Every file of a store and its contents, but for the lock's label.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else if !path.ends_with("LOCK.holder") {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

/// Asserts that a store is not opened and not changed by the attempt.
fn refused(dir: &Path, options: Options, kind: ErrorKind, texts: &[&str]) {
    let before = contents(dir);
    let error = Store::open(dir, options).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    for text in texts {
        assert!(error.to_string().contains(text), "{text:?} in {error}");
    }
    assert!(contents(dir) == before, "changed by a refused open: {error}");
}

fn made(dir: &Path, engine: EngineKind) {
    let store = open(dir, engine).unwrap();
    put(&store, "rows", b"k", b"v");
    store.close().unwrap();
}

fn edit_marker(dir: &Path, edit: impl Fn(&str) -> String) {
    let path = dir.join("STORE");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, edit(&text)).unwrap();
}

fn data_of(engine: EngineKind, dir: &Path) -> PathBuf {
    match engine {
        EngineKind::Sled => dir.join("sled.1/db"),
        _ => dir.join("data.redb"),
    }
}

#[test]
fn a_second_opener_learns_who_has_it() {
    each_durable(|dir, engine| {
        let store = open(dir, engine).unwrap();
        let pid = std::process::id();
        match open(dir, engine).unwrap_err() {
            error @ StoreError::Held { .. } => {
                assert!(error.to_string().contains(&format!("process {pid}")), "{error}");
                assert_eq!(error.kind(), ErrorKind::Refused);
            }
            error => panic!("{error}"),
        }
        put(&store, "rows", b"k", b"undisturbed");
        store.close().unwrap();
        assert!(dir.join("LOCK").exists());
        let store = open(dir, engine).unwrap();
        assert_eq!(store.get("rows", b"k").unwrap().unwrap(), b"undisturbed");
    });
}

#[test]
fn another_process_learns_who_has_it() {
    each_durable(|dir, engine| {
        let store = open(dir, engine).unwrap();
        put(&store, "rows", b"k", b"v");
        let output = child::again("child::entry", dir, Subject::Engine(engine)).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stderr);
        let held = format!("Held {{ dir: {dir:?}, pid: Some({}) }}", std::process::id());
        assert!(!output.status.success() && shown.contains(&held), "{shown}");
        put(&store, "rows", b"l", b"undisturbed");
    });
}

#[test]
fn a_child_that_is_just_starting_does_not_keep_the_lock() {
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    // An argument that only lists keeps the child from running any test.
                    let exe = std::env::current_exe().unwrap();
                    std::process::Command::new(exe).arg("--help").output().unwrap();
                }
            });
        }
        let reopened = std::panic::catch_unwind(|| {
            each_durable(|dir, engine| {
                for _ in 0..40 {
                    open(dir, engine).unwrap().close().unwrap();
                }
            });
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        reopened.unwrap();
    });
}

#[test]
fn of_twenty_openers_at_once_one_wins() {
    each_durable(|dir, engine| {
        made(dir, engine);
        let barrier = std::sync::Barrier::new(20);
        let results: Vec<_> = std::thread::scope(|scope| {
            let opener = || {
                barrier.wait();
                open(dir, engine)
            };
            let threads: Vec<_> = (0..20).map(|_| scope.spawn(opener)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let held =
            |result: &&Result<Store, StoreError>| matches!(result, Err(StoreError::Held { .. }));
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
        assert_eq!(results.iter().filter(held).count(), 19);
    });
}

#[test]
fn a_newer_store_is_left_alone() {
    each_durable(|dir, engine| {
        made(dir, engine);
        edit_marker(dir, |text| {
            text.replace("tidings-store 1", "tidings-store 2")
                .replace("written-by 0", "written-by 7")
        });
        let ours = env!("CARGO_PKG_VERSION");
        let texts = ["version 2", "up to 1", ours, "version 7."];
        refused(dir, options(engine), ErrorKind::Refused, &texts);
    });
}

#[test]
fn a_newer_layout_is_left_alone_and_an_older_one_is_told() {
    each_durable(|dir, engine| {
        let at = |layout| Options { layout, ..options(engine) };
        let store = Store::open(dir, at(3)).unwrap();
        assert_eq!(store.layout(), 3);
        store.close().unwrap();
        refused(dir, at(2), ErrorKind::Refused, &["table layout", "version 3", "up to 2"]);
        let store = Store::open(dir, at(5)).unwrap();
        assert_eq!(store.layout(), 3);
        store.set_layout(5).unwrap();
        store.close().unwrap();
        assert_eq!(Store::open(dir, at(5)).unwrap().layout(), 5);
    });
}

#[test]
fn another_owners_or_engines_store_is_left_alone() {
    made_each(|dir, engine| {
        let other = match engine {
            EngineKind::Sled => EngineKind::Redb,
            _ => EngineKind::Sled,
        };
        refused(dir, options(other), ErrorKind::Refused, &[engine.name(), other.name()]);
        let owner = Options { owner: "somebody", ..options(engine) };
        refused(dir, owner, ErrorKind::Refused, &["tests", "somebody"]);
    });
}

fn made_each(test: impl Fn(&Path, EngineKind)) {
    each_durable(|dir, engine| {
        made(dir, engine);
        test(dir, engine);
    });
}

#[test]
fn missing_or_empty_data_is_damage() {
    made_each(|dir, engine| {
        let data = data_of(engine, dir);
        let good = fs::read(&data).unwrap();
        fs::write(&data, b"").unwrap();
        refused(dir, options(engine), ErrorKind::Damaged, &["missing or empty"]);
        fs::remove_file(&data).unwrap();
        refused(dir, options(engine), ErrorKind::Damaged, &["missing or empty"]);
        fs::write(&data, good).unwrap();
        assert_eq!(open(dir, engine).unwrap().get("rows", b"k").unwrap().unwrap(), b"v");
    });
    let dir = TempDir::new().unwrap();
    made(dir.path(), EngineKind::Sled);
    fs::write(dir.path().join("CURRENT"), "../elsewhere\n").unwrap();
    refused(dir.path(), options(EngineKind::Sled), ErrorKind::Damaged, &["CURRENT"]);
    fs::remove_file(dir.path().join("CURRENT")).unwrap();
    refused(dir.path(), options(EngineKind::Sled), ErrorKind::Damaged, &["CURRENT"]);
}

#[test]
fn data_without_a_marker_is_damage() {
    made_each(|dir, engine| {
        fs::remove_file(dir.join("STORE")).unwrap();
        refused(dir, options(engine), ErrorKind::Damaged, &["STORE", "missing"]);
    });
}

#[test]
fn an_altered_marker_is_damage() {
    made_each(|dir, engine| {
        edit_marker(dir, |text| text.replace("high-water ", "high-water 1"));
        refused(dir, options(engine), ErrorKind::Damaged, &["checksum"]);
        edit_marker(dir, |_| String::new());
        refused(dir, options(engine), ErrorKind::Damaged, &["STORE"]);
        edit_marker(dir, |_| "x".repeat(1 << 20));
        refused(dir, options(engine), ErrorKind::Damaged, &["too large"]);
    });
}

#[test]
fn data_older_than_the_marker_is_damage() {
    each_durable(|dir, engine| {
        made(dir, engine);
        let old = contents(dir);
        let store = open(dir, engine).unwrap();
        for n in 0..10u8 {
            put(&store, "rows", &[n], b"later");
        }
        store.close().unwrap();
        let marker = fs::read(dir.join("STORE")).unwrap();
        for path in contents(dir).keys() {
            fs::remove_file(path).unwrap();
        }
        for (path, bytes) in old {
            fs::write(path, bytes).unwrap();
        }
        fs::write(dir.join("STORE"), marker).unwrap();
        let error = open(dir, engine).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(error.to_string().contains("was durable"), "{error}");
    });
}

#[test]
fn data_of_another_store_is_damage() {
    each_durable(|dir, engine| {
        made(dir, engine);
        let other = TempDir::new().unwrap();
        made(other.path(), engine);
        fs::copy(other.path().join("STORE"), dir.join("STORE")).unwrap();
        let error = open(dir, engine).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(error.to_string().contains("the marker of"), "{error}");
    });
}

#[test]
fn a_creation_cut_short_is_finished() {
    each_durable(|dir, engine| {
        // Half made: an engine that fails after its files are there.
        let failed = Store::open_with(dir, options(engine), |dir, _, _| {
            fs::create_dir(dir.join("sled.1")).unwrap();
            fs::write(dir.join("sled.1/db"), "half").unwrap();
            fs::write(dir.join("data.redb"), "half").unwrap();
            Err(StoreError::Busy)
        });
        assert!(failed.is_err());
        let store = open(dir, engine).unwrap();
        assert!(store.range("rows", &Scan::all(9)).unwrap().is_empty());
        put(&store, "rows", b"k", b"v");
        store.close().unwrap();
        assert_eq!(open(dir, engine).unwrap().get("rows", b"k").unwrap().unwrap(), b"v");
    });
}

#[test]
fn reading_alone_changes_no_marker() {
    made_each(|dir, engine| {
        let before = fs::read(dir.join("STORE")).unwrap();
        let store = open(dir, engine).unwrap();
        assert!(store.was_clean());
        store.get("rows", b"k").unwrap();
        assert!(fs::read(dir.join("STORE")).unwrap() == before);
        put(&store, "rows", b"k", b"w");
        assert!(fs::read_to_string(dir.join("STORE")).unwrap().contains("stage open"));
        store.close().unwrap();
        assert!(fs::read_to_string(dir.join("STORE")).unwrap().contains("stage clean"));
    });
}

#[test]
fn ids_stay_and_generations_change_on_request() {
    each_durable(|dir, engine| {
        let store = open(dir, engine).unwrap();
        let (id, generation) = (store.id(), store.generation());
        store.close().unwrap();
        let store = open(dir, engine).unwrap();
        assert_eq!((store.id(), store.generation()), (id, generation));
        let renewed = store.renew_generation().unwrap();
        assert_ne!(renewed, generation);
        store.close().unwrap();
        let store = open(dir, engine).unwrap();
        assert_eq!((store.id(), store.generation()), (id, renewed));
    });
}

#[test]
fn a_later_version_may_add_tables() {
    each_durable(|dir, engine| {
        made(dir, engine);
        let more = Options { tables: &["blobs", "rows", "new"], ..options(engine) };
        let store = Store::open(dir, more).unwrap();
        assert_eq!(store.get("new", b"k").unwrap(), None);
        put(&store, "new", b"k", b"v");
        assert_eq!(store.get("rows", b"k").unwrap().unwrap(), b"v");
        store.close().unwrap();
        assert_eq!(open(dir, engine).unwrap().get("rows", b"k").unwrap().unwrap(), b"v");
    });
}

#[test]
fn impossible_options_are_misuse() {
    let dir = TempDir::new().unwrap();
    let sled = || options(EngineKind::Sled);
    for options in [
        Options { tables: &["rows", "rows"], ..sled() },
        Options { tables: &["_meta"], ..sled() },
        Options { tables: &["Rows"], ..sled() },
        Options { owner: "two words", ..sled() },
        Options { queue: 0, ..sled() },
    ] {
        let error = Store::open(dir.path(), options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
