//! redb's file, watched: which operations failed decides whether a failed commit can be taken back.

use std::{
    fs::File,
    io,
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use redb::{BackendError, StorageBackend, backends::FileBackend};

use crate::error::is_full;

/// What went wrong since the file was opened.
#[derive(Debug, Default)]
pub(super) struct Faults {
    full: AtomicBool,
    other: AtomicBool,
}

impl Faults {
    /// Whether the disk was full and nothing else failed. redb flips to the new state only after
    /// every page of it was written and synced, so a write that found no room precedes the flip.
    pub(super) fn only_full(&self) -> bool {
        self.full.load(Ordering::SeqCst) && !self.other.load(Ordering::SeqCst)
    }

    pub(super) fn clear(&self) {
        self.full.store(false, Ordering::SeqCst);
        self.other.store(false, Ordering::SeqCst);
    }

    fn note_write<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            if is_full(error) { &self.full } else { &self.other }.store(true, Ordering::SeqCst);
        }
        result
    }

    /// A failed sync is never forgiven, whatever its reason: the kernel may have dropped the
    /// pages. Nor is a failed read.
    fn note_other<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() {
            self.other.store(true, Ordering::SeqCst);
        }
        result
    }
}

/// A file that redb works on.
#[derive(Debug)]
pub(super) struct WatchedFile {
    file: FileBackend,
    faults: Arc<Faults>,
}

impl WatchedFile {
    pub(super) fn new(file: File, faults: Arc<Faults>) -> Result<Self, redb::DatabaseError> {
        Ok(Self { file: FileBackend::new(file)?, faults })
    }
}

impl StorageBackend for WatchedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.faults.note_other(self.file.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.note_write(self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.note_other(self.file.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.faults.note_write(self.file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(from, to)
    }

    fn try_lock_shared_range(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(from, to)
    }

    fn lock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(from, to)
    }

    fn lock_shared_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(from, to)
    }

    fn unlock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(from, to)
    }

    fn query_lock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(from, to)
    }
}
