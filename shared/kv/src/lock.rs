//! One opener at a time: a kernel lock on `LOCK`, taken before anything else is opened.
//!
//! The file is never deleted (a deleted lock file can be locked by one process while another locks
//! its successor), and the kernel lets go when the holder dies, however it dies. Who holds it
//! stands in `LOCK.holder`, which is a label for people and proves nothing.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::Write,
    path::Path,
};

use crate::{StoreError, files};

/// The lock, held until dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock of a store directory or says who has it.
    pub(crate) fn take(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join("LOCK");
        let fail = |error| StoreError::io(format!("lock {}", path.display()), error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Held { dir: dir.to_owned(), pid: holder(dir) });
            }
            Err(TryLockError::Error(error)) => return Err(fail(error)),
        }
        // A full disk must not keep anybody from reading; the label is only for people.
        let labelled = File::create(dir.join(LABEL))
            .and_then(|mut label| writeln!(label, "{}", std::process::id()));
        if let Err(error) = labelled {
            tracing::debug!(%error, "the lock's label could not be written");
        }
        Ok(Self { file })
    }
}

impl Drop for Lock {
    /// Lets go by name: a child process that another thread is just starting holds a copy of the
    /// descriptor until it runs its program, and closing ours alone would leave it locked.
    fn drop(&mut self) {
        if let Err(error) = self.file.unlock() {
            tracing::debug!(%error, "the lock goes with its descriptor");
        }
    }
}

fn holder(dir: &Path) -> Option<u32> {
    let label = files::read_small(&dir.join(LABEL), 64).ok()??;
    std::str::from_utf8(&label).ok()?.trim().parse().ok()
}

const LABEL: &str = "LOCK.holder";
