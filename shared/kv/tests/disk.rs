//! A disk that loses, fills up, breaks or stops on request: a preloaded library (`disk/shim.c`) between a
//! child process and its files, and what it left of them (`disk/undo.rs`).

mod undo;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

pub use self::undo::{Loss, undo};

/// Where a child works: a home of its own, with the store, the library and its files in it.
pub struct Disk {
    _home: TempDir,
    home: PathBuf,
}

impl Disk {
    /// Compiles the library.
    pub fn new() -> Self {
        let temporary = TempDir::new().unwrap();
        // The library sees real paths.
        let home = temporary.path().canonicalize().unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/disk/shim.c");
        let status = Command::new("cc")
            .args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
            .arg(home.join("shim.so"))
            .args([source, "-ldl", "-lpthread"])
            .status()
            .expect("the disk tests need a C compiler named cc");
        assert!(status.success());
        Self { _home: temporary, home }
    }

    pub fn store(&self) -> PathBuf {
        self.home.join("store")
    }

    /// Puts the library between a child and the store.
    pub fn under(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", self.home.join("shim.so"))
            .env("POWERCUT_DIR", self.store())
            .env("POWERCUT_JOURNAL", self.journal())
            .env(FULL, self.home.join("full"))
            .env(BROKEN, self.home.join("broken"))
            .env(READONLY, self.home.join("readonly"))
            .env(STEP, self.home.join("step"));
    }

    /// Cuts the power of a child that was killed: undoes what it had not synced. Answers how many
    /// writes were taken back, in whole or in part.
    pub fn cut(&self, loss: Loss) -> u64 {
        let undone = undo(&self.store(), &self.journal(), loss);
        fs::remove_file(self.journal()).unwrap();
        undone
    }

    /// Spares a child that was killed the power cut.
    pub fn spare(&self) {
        fs::remove_file(self.journal()).unwrap();
    }

    fn journal(&self) -> PathBuf {
        self.home.join("journal")
    }
}

/// Fills the disk under this process, or frees it.
pub fn set_full(on: bool) {
    set(FULL, on);
}

/// Breaks the syncs under this process, or mends them.
pub fn set_broken(on: bool) {
    set(BROKEN, on);
}

/// Forbids every change under this process, or allows them.
pub fn set_readonly(on: bool) {
    set(READONLY, on);
}

/// Kills this process just before its `step`th change or sync from now on.
pub fn kill_at(step: u64) {
    at(step, 0);
}

/// Lets the `step`th change or sync from now on fail with an error of the system, once.
pub fn fail_at(step: u64, error: i32) {
    assert_ne!(error, 0);
    at(step, error);
}

/// Whether the step came; if not, it is forgotten.
pub fn step_came() -> bool {
    let path = std::env::var_os(STEP).unwrap();
    fs::remove_file(path).is_err()
}

fn at(step: u64, error: i32) {
    let path = std::env::var_os(STEP).unwrap();
    let temporary = Path::new(&path).with_extension("new");
    fs::write(&temporary, format!("{step} {error}\n")).unwrap();
    fs::rename(temporary, path).unwrap();
}

fn set(variable: &str, on: bool) {
    let path = std::env::var_os(variable).unwrap();
    let path = Path::new(&path);
    if on { fs::write(path, "").unwrap() } else { fs::remove_file(path).unwrap() }
}

const FULL: &str = "POWERCUT_FULL";
const BROKEN: &str = "POWERCUT_BROKEN";
const READONLY: &str = "POWERCUT_READONLY";
const STEP: &str = "POWERCUT_STEP";
