//! Power cuts: what was acknowledged survives the loss of everything that was not synced.
//!
//! A preloaded library (`shim.c`) notes what every write replaces and swallows the syncs, so that
//! killing the writer and undoing (`undo.rs`) leaves what a power cut would: first the harshest
//! disk, which kept nothing that was not synced, then one that kept some pages of it and not
//! others. That the suite can fail is shown on sled without its sync.
#![cfg(target_os = "linux")]

mod undo;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use tidings_kv::EngineKind;

use self::undo::{Disk, undo};
use crate::{
    child::Writers,
    support::pick,
    workload::{Subject, verify},
};

/// Compiles the library.
fn shim(dir: &Path) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/powercut/shim.c");
    let library = dir.join("shim.so");
    let status = Command::new("cc")
        .args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .args([source, "-ldl", "-lpthread"])
        .status()
        .expect("the power-cut tests need a C compiler named cc");
    assert!(status.success());
    library
}

/// Cuts the power this many times; the first broken promise ends it.
fn cuts(subject: Subject, count: u64) -> Result<(), String> {
    let home = TempDir::new().unwrap();
    let shim = shim(home.path());
    // The library sees real paths.
    let home = home.path().canonicalize().unwrap();
    let dir = home.join("store");
    // Whatever NoSync loses, it is not the making of the store.
    Subject::Engine(subject.kind()).open(&dir).unwrap().close().unwrap();
    let mut undone = 0;
    for cut in 0..count {
        let journal = home.join(format!("journal.{cut}"));
        let writers = Writers::start(&dir, subject, |command| {
            command
                .env("LD_PRELOAD", &shim)
                .env("POWERCUT_DIR", &dir)
                .env("POWERCUT_JOURNAL", &journal);
        });
        let acks = writers.kill_after(1 + pick(cut, 60));
        let disk = if cut % 2 == 0 { Disk::Harshest } else { Disk::Scattered(cut) };
        undone += undo(&dir, &journal, disk);
        let store = Subject::Engine(subject.kind())
            .open(&dir)
            .map_err(|error| format!("cut {cut}, {disk:?}: {error}"))?;
        verify(&store, &acks).map_err(|wrong| format!("cut {cut}, {disk:?}: {wrong}"))?;
        store.close().map_err(|error| error.to_string())?;
    }
    assert!(undone > 0, "no cut found anything to undo: the shim does not work");
    Ok(())
}

const CUTS: u64 = 12;

#[test]
fn sled_keeps_what_it_acknowledged() {
    cuts(Subject::Engine(EngineKind::Sled), CUTS).unwrap();
}

#[test]
fn redb_keeps_what_it_acknowledged() {
    cuts(Subject::Engine(EngineKind::Redb), CUTS).unwrap();
}

/// The suite must be able to fail: without the sync it does.
#[test]
fn sled_without_its_sync_fails_this_suite() {
    let wrong = cuts(Subject::NoSync, CUTS).unwrap_err();
    assert!(wrong.contains("are lost"), "failed for another reason: {wrong}");
}
