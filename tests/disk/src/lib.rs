//! A disk that loses, fills up, breaks or stops on request: a preloaded library (`shim.c`) between
//! a process and its files, and what it left of them (`undo.rs`). The tests of the store, of the
//! server and of both programs together stand on it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by a panic that says what is wrong"
)]

mod seed;
mod undo;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

pub use self::seed::{noise, pick};
pub use self::undo::Loss;

/// A directory that a process works in as if it were a disk of its own.
#[derive(Debug)]
pub struct Disk {
    /// The library, the journal and the switches.
    home: TempDir,
    dir: PathBuf,
    /// Where renames are lost with everything else until the directory is synced.
    renames: Vec<PathBuf>,
}

impl Disk {
    /// A disk of its own, for one store: [`Disk::store`].
    ///
    /// # Panics
    /// There is no C compiler.
    pub fn new() -> Self {
        let home = TempDir::new().unwrap();
        // The library sees real paths.
        let dir = home.path().canonicalize().unwrap().join("store");
        Self::compiled(home, dir, &[])
    }

    /// A disk under a directory that may be there or not, beside which nothing is put; `below` are
    /// the directories in it, besides itself, whose renames a power cut takes back.
    ///
    /// # Panics
    /// There is no C compiler, or the directory has no parent.
    pub fn under_dir(dir: &Path, below: &[&str]) -> Self {
        let parent = dir.parent().unwrap().canonicalize().unwrap();
        Self::compiled(TempDir::new().unwrap(), parent.join(dir.file_name().unwrap()), below)
    }

    fn compiled(home: TempDir, dir: PathBuf, below: &[&str]) -> Self {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/shim.c");
        let status = Command::new("cc")
            .args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
            .arg(home.path().join("shim.so"))
            .args([source, "-ldl", "-lpthread"])
            .status()
            .expect("the disk tests need a C compiler named cc");
        assert!(status.success());
        let renames = below.iter().map(|name| dir.join(name)).chain([dir.clone()]).collect();
        Self { home, dir, renames }
    }

    /// The directory.
    pub fn store(&self) -> PathBuf {
        self.dir.clone()
    }

    /// Puts the library between a process and the directory.
    pub fn under(&self, command: &mut Command) {
        let renames: Vec<_> = self.renames.iter().map(|dir| dir.display().to_string()).collect();
        command
            .env("LD_PRELOAD", self.home.path().join("shim.so"))
            .env("POWERCUT_DIR", &self.dir)
            .env("POWERCUT_RENAMES", renames.join(":"))
            .env("POWERCUT_JOURNAL", self.journal())
            .env(FULL, self.home.path().join("full"))
            .env(BROKEN, self.switch())
            .env(READONLY, self.home.path().join("readonly"))
            .env(STEP, self.step());
    }

    /// Cuts the power of a process that was killed: undoes what it had not synced. Answers how
    /// many writes were taken back, in whole or in part.
    ///
    /// # Panics
    /// The files cannot be changed.
    pub fn cut(&self, loss: Loss) -> u64 {
        // A process that died before its first instruction changed nothing.
        let undone =
            if self.journal().exists() { undo::undo(&self.dir, &self.journal(), loss) } else { 0 };
        self.spare();
        undone
    }

    /// Spares a process that was killed the power cut.
    pub fn spare(&self) {
        let _ = fs::remove_file(self.journal());
        let _ = fs::remove_file(self.step());
    }

    /// Breaks the syncs of the process on this disk, or mends them.
    ///
    /// # Panics
    /// They were not broken.
    pub fn break_syncs(&self, on: bool) {
        switch(&self.switch(), on);
    }

    /// Does something at the `step`th change or sync of the process on this disk, from its start
    /// or from now on.
    ///
    /// # Panics
    /// The order cannot be written.
    pub fn at(&self, step: u64, act: Act) {
        order(&self.step(), step, act);
    }

    /// Whether the step of [`Disk::at`] came; if not, it is forgotten.
    pub fn came(&self) -> bool {
        fs::remove_file(self.step()).is_err()
    }

    fn journal(&self) -> PathBuf {
        self.home.path().join("journal")
    }

    fn switch(&self) -> PathBuf {
        self.home.path().join("broken")
    }

    fn step(&self) -> PathBuf {
        self.home.path().join("step")
    }
}

impl Default for Disk {
    fn default() -> Self {
        Self::new()
    }
}

/// What a disk does at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It kills the process before the step.
    Kill,
    /// The step fails with an error of the system.
    Fail(i32),
    /// A write does only its first bytes, and says so.
    Short,
    /// A write does only its first bytes, and then the process is killed.
    Torn,
}

/// Fills the disk under this process, or frees it.
///
/// # Panics
/// This process is on no such disk.
pub fn set_full(on: bool) {
    switch(&variable(FULL), on);
}

/// Breaks the syncs under this process, or mends them.
///
/// # Panics
/// This process is on no such disk.
pub fn set_broken(on: bool) {
    switch(&variable(BROKEN), on);
}

/// Forbids every change under this process, or allows them.
///
/// # Panics
/// This process is on no such disk.
pub fn set_readonly(on: bool) {
    switch(&variable(READONLY), on);
}

/// Kills this process just before its `step`th change or sync from now on.
///
/// # Panics
/// This process is on no such disk.
pub fn kill_at(step: u64) {
    order(&variable(STEP), step, Act::Kill);
}

/// Lets the `step`th change or sync from now on fail with an error of the system, once.
///
/// # Panics
/// This process is on no such disk.
pub fn fail_at(step: u64, error: i32) {
    order(&variable(STEP), step, Act::Fail(error));
}

/// Whether the step came; if not, it is forgotten.
///
/// # Panics
/// This process is on no such disk.
pub fn step_came() -> bool {
    fs::remove_file(variable(STEP)).is_err()
}

fn order(path: &Path, step: u64, act: Act) {
    let code = match act {
        Act::Kill => 0,
        Act::Fail(error) => {
            assert!(error > 0);
            error
        }
        Act::Short => -1,
        Act::Torn => -2,
    };
    let temporary = path.with_extension("new");
    fs::write(&temporary, format!("{step} {code}\n")).unwrap();
    fs::rename(temporary, path).unwrap();
}

fn variable(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap().into()
}

fn switch(path: &Path, on: bool) {
    if on { fs::write(path, "").unwrap() } else { fs::remove_file(path).unwrap() }
}

const FULL: &str = "POWERCUT_FULL";
const BROKEN: &str = "POWERCUT_BROKEN";
const READONLY: &str = "POWERCUT_READONLY";
const STEP: &str = "POWERCUT_STEP";
