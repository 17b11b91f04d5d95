//! What this machine allows: the disk and the memory of sockets.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// A file that is written over and synced: the least that a durable write can be.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    at: u64,
}

/// Bytes of one write.
const WRITE: usize = 512;
/// Bytes of the file; it is written before, so that a sync has no sizes to note.
const SIZE: usize = 8 << 20;

impl Journal {
    /// Makes the file.
    ///
    /// # Panics
    /// There is no room.
    pub(super) fn create(path: &Path) -> Self {
        let mut file = File::create(path).expect("a file");
        file.write_all(&vec![0; SIZE]).expect("room on the disk");
        file.sync_all().expect("a disk that syncs");
        Self { file, at: 0 }
    }

    /// Writes 512 bytes and waits until they are on the disk.
    ///
    /// # Panics
    /// The disk fails.
    pub(super) fn append(&mut self) {
        self.file.write_all_at(&[7; WRITE], self.at).expect("room on the disk");
        self.file.sync_data().expect("a disk that syncs");
        self.at = (self.at + WRITE as u64) % SIZE as u64;
    }

    /// How long one takes, each in microseconds, for a time.
    pub(super) fn appends(&mut self, time: Duration) -> Vec<f64> {
        let end = Instant::now() + time;
        let mut taken = Vec::new();
        while Instant::now() < end {
            let start = Instant::now();
            self.append();
            taken.push(micros(start.elapsed()));
        }
        taken
    }

    /// How many a second.
    pub(super) fn rate(&mut self, time: Duration) -> f64 {
        let start = Instant::now();
        let count = self.appends(time).len();
        count as f64 / start.elapsed().as_secs_f64()
    }
}

/// Microseconds.
pub(super) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
