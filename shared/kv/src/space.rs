//! Refuses a write before it begins when the file system has little room left. Engines answer a
//! full disk half way through a commit with a failure that only a restart heals; a refusal heals
//! by itself when space is back.

use std::path::{Path, PathBuf};

use crate::StoreError;

/// Watches the file system under a store.
#[derive(Debug)]
pub(crate) struct Space {
    dir: Option<PathBuf>,
    reserve: u64,
}

impl Space {
    pub(crate) fn new(dir: Option<PathBuf>, reserve: u64) -> Self {
        Self { dir: dir.filter(|_| reserve > 0), reserve }
    }

    /// Whether a commit of this many bytes may begin.
    pub(crate) fn allows(&self, bytes: usize) -> Result<(), StoreError> {
        let Some(dir) = &self.dir else { return Ok(()) };
        // Engines write more than they are given: whole pages, tree nodes, moved pages.
        let needed = self.reserve.saturating_add((bytes as u64).saturating_mul(4));
        match free(dir) {
            Some(free) if free < needed => Err(StoreError::StorageFull { needed, free }),
            _ => Ok(()),
        }
    }
}

/// Bytes that an ordinary user may still write; none if the system does not say.
#[cfg(unix)]
pub(crate) fn free(dir: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(not(unix))]
pub(crate) fn free(_: &Path) -> Option<u64> {
    None
}
