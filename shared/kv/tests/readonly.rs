//! Files that may not be changed any more: a file system that turned read-only, and one that is
//! mounted so; permissions that were taken away. Reading goes on where it can, and the rest is a
//! typed error.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::Command,
};

use tempfile::TempDir;
use tidings_disk::{Disk, set_readonly};
use tidings_kv::{CommitError, EngineKind, ErrorKind, Reader, Store, StoreError};

use crate::{
    child,
    support::{DURABLE, each_durable, open, put},
    workload::Subject,
};

const DONE: &str = "the body has run";

/// Runs `test` of this module as a child that `prepare` has prepared.
fn in_child(test: &str, dir: &Path, engine: EngineKind, prepare: impl FnOnce(&mut Command)) {
    let mut command = child::again(&format!("readonly::{test}"), dir, Subject::Engine(engine));
    prepare(&mut command);
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{engine}: {shown}");
    let ran = String::from_utf8_lossy(&output.stdout).contains(DONE);
    assert!(ran, "{engine}: the body did not run: {shown}");
}

fn refused(result: Result<Store, StoreError>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    assert!(error.to_string().contains("LOCK"), "{error}");
}

#[test]
fn turned_readonly_body() {
    let Some((dir, subject)) = child::orders() else { return };
    let store = open(&dir, subject.kind()).unwrap();
    put(&store, "rows", b"before", b"v");
    set_readonly(true);
    let outcome: Result<(), CommitError<StoreError>> = store.run(|txn| txn.put("rows", "k", "v"));
    let unknown = matches!(outcome, Err(CommitError::Store(StoreError::Unknown { .. })));
    assert!(unknown, "{outcome:?}");
    assert_eq!(store.get("rows", b"before").unwrap().unwrap(), b"v");
    assert_eq!(store.get("rows", b"k").unwrap(), None);
    assert!(store.failure().is_some());
    drop(store.close());
    // A restart finds it so, and says it.
    refused(open(&dir, subject.kind()));
    set_readonly(false);
    let store = open(&dir, subject.kind()).unwrap();
    assert_eq!(store.get("rows", b"before").unwrap().unwrap(), b"v");
    put(&store, "rows", b"after", b"v");
    println!("{DONE}");
}

#[test]
fn a_file_system_that_turns_readonly_stops_the_store() {
    for engine in DURABLE {
        let disk = Disk::new();
        in_child("turned_readonly_body", &disk.store(), engine, |command| disk.under(command));
    }
}

#[test]
fn mounted_readonly_body() {
    let Some((dir, subject)) = child::orders() else { return };
    child::mount(&["-t", "tmpfs", "tidings-test"], &dir);
    let home = dir.join("store");
    let store = open(&home, subject.kind()).unwrap();
    put(&store, "rows", b"k", b"v");
    store.close().unwrap();
    child::mount(&["-o", "remount,ro"], &dir);
    refused(open(&home, subject.kind()));
    let error = open(&dir.join("new"), subject.kind()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    child::mount(&["-o", "remount,rw"], &dir);
    let store = open(&home, subject.kind()).unwrap();
    assert_eq!(store.get("rows", b"k").unwrap().unwrap(), b"v");
    println!("{DONE}");
}

#[test]
fn a_readonly_mount_is_refused() {
    for engine in DURABLE {
        let dir = TempDir::new().unwrap();
        in_child("mounted_readonly_body", dir.path(), engine, child::apart);
    }
}

#[test]
fn forbidden_body() {
    let Some((dir, subject)) = child::orders() else { return };
    let error = open(&dir, subject.kind()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    let StoreError::Io { doing, source } = &error else { panic!("{error}") };
    assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
    assert!(doing.contains(dir.to_str().unwrap()), "{error}");
    println!("{DONE}");
}

/// Nothing is root's own to open, so root becomes nobody for this.
#[test]
fn lost_permissions_are_refused() {
    each_durable(|dir, engine| {
        let store = open(dir, engine).unwrap();
        put(&store, "rows", b"k", b"v");
        store.close().unwrap();
        let data = if engine == EngineKind::Sled { "sled.1/db" } else { "data.redb" };
        let program = dir.with_file_name("program");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        for open_to_all in [dir.parent().unwrap(), &program] {
            fs::set_permissions(open_to_all, fs::Permissions::from_mode(0o755)).unwrap();
        }
        // The directory, then only the data in it.
        for (lock, directory, file) in [(0o600, 0o000, 0o600), (0o666, 0o777, 0o000)] {
            fs::set_permissions(dir.join("LOCK"), fs::Permissions::from_mode(lock)).unwrap();
            fs::set_permissions(dir.join("STORE"), fs::Permissions::from_mode(0o644)).unwrap();
            fs::set_permissions(dir.join(data), fs::Permissions::from_mode(file)).unwrap();
            fs::set_permissions(dir, fs::Permissions::from_mode(directory)).unwrap();
            in_child("forbidden_body", dir, engine, |command| {
                if rustix::process::geteuid().is_root() {
                    let mut other = Command::new(&program);
                    other.args(command.get_args()).current_dir("/").uid(NOBODY);
                    other.envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))));
                    *command = other;
                }
            });
            fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).unwrap();
        }
        fs::set_permissions(dir.join(data), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(open(dir, engine).unwrap().get("rows", b"k").unwrap().unwrap(), b"v");
    });
}

const NOBODY: u32 = 65_534;
