//! Giving space back to the disk.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tidings_kv::{Store as Kv, StoreError};

use crate::store::{Compacted, Refusal, Room};

/// How long a moment without readers is waited for, where the engine needs one.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks for it.
const PAUSE: Duration = Duration::from_millis(10);

/// Compacts, and waits for the end.
pub(super) fn compact(kv: &Kv) -> Result<Compacted, Refusal> {
    let failed = |error: StoreError| Refusal::NotCompacted(error.to_string());
    let before = kv.disk_size()?;
    let late = Instant::now() + PATIENCE;
    loop {
        match kv.compact() {
            Ok(_) => break,
            Err(StoreError::Busy) if Instant::now() < late => sleep(PAUSE),
            Err(StoreError::Busy) => {
                let busy = "there was no moment without readers; try again when less is going on";
                return Err(Refusal::NotCompacted(busy.to_owned()));
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(Compacted { before, after: kv.disk_size()?, live: kv.live_size()? })
}

/// What it takes now.
pub(super) fn room(kv: &Kv) -> Result<Room, Refusal> {
    let rewrite = kv.rewrite();
    let live = rewrite.map(|rewrite| rewrite.live);
    let live = if live.is_some() { live } else { kv.live_size()? };
    Ok(Room { disk: kv.disk_size()?, live, copied: rewrite.map(|rewrite| rewrite.copied) })
}
