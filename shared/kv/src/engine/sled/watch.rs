//! Wakes sled up. When one of sled's own threads cannot write to the log, sled notes the error
//! but in one place forgets to tell whoever waits in a flush, who then waits for ever. Any other
//! flush finds the error and tells everybody, so this thread makes one when a write takes long.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::StoreError;

/// The watching thread, which ends with this.
#[derive(Debug)]
pub(super) struct Watch {
    /// Odd while a write is under way, another number for each.
    count: Arc<AtomicU64>,
    running: Option<(SyncSender<()>, JoinHandle<()>)>,
}

impl Watch {
    pub(super) fn start(db: sled::Db) -> Result<Self, StoreError> {
        let count = Arc::<AtomicU64>::default();
        let watched = Arc::clone(&count);
        let (stop, stopped) = sync_channel::<()>(0);
        let thread = thread::Builder::new()
            .name("sled-watch".to_owned())
            .spawn(move || {
                let mut seen = 0;
                while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                    let now = watched.load(Ordering::Relaxed);
                    if now == seen && now % 2 == 1 {
                        tracing::debug!("a write takes long; waking sled");
                        // Its result is the other flush's, too.
                        let _ = db.flush();
                    }
                    seen = now;
                }
            })
            .map_err(|error| StoreError::io("start a thread", error))?;
        Ok(Self { count, running: Some((stop, thread)) })
    }

    /// Runs a write that may need waking.
    pub(super) fn over<T>(&self, write: impl FnOnce() -> T) -> T {
        self.count.fetch_add(1, Ordering::Relaxed);
        let _end = End(&self.count);
        write()
    }
}

/// Ends a write, also one that panics.
struct End<'a>(&'a AtomicU64);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            drop(stop);
            // Its handle of sled must be gone before anybody opens the files again.
            let _ = thread.join();
        }
    }
}

const LOOK_EVERY: Duration = Duration::from_secs(1);
