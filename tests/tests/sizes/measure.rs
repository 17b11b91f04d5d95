//! How much is allocated at most while something happens.

use tidings_tests::{DEADLINE, eventually};
use tokio::sync::{Mutex, MutexGuard};

use crate::ALLOCATOR;

/// What a connection, its tasks and the measuring client may take besides the input: buffers of a
/// socket on both sides, a log line, an error.
const CONNECTION: usize = 128 << 10;

/// Where tests share a process, only one of them runs.
static ALONE: Mutex<()> = Mutex::const_new(());

/// To be held by a test that measures.
pub async fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().await
}

/// Does something; gives its result and by how many bytes the live ones grew at most meanwhile.
pub async fn peak_of<T>(work: impl Future<Output = T>) -> (T, usize) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let done = work.await;
    (done, ALLOCATOR.peak_usage().saturating_sub(before))
}

/// Waits until what went before has let go of its memory: the live bytes stand still.
pub async fn settled() {
    const QUIET: usize = 64 << 10;
    let (mut last, mut quiet) = (ALLOCATOR.current_usage(), 0);
    eventually("the live bytes stand still", DEADLINE, async || {
        let now = ALLOCATOR.current_usage();
        quiet = if now.abs_diff(last) < QUIET { quiet + 1 } else { 0 };
        last = now;
        if quiet > 5 { Ok(()) } else { Err(format!("{now} bytes live")) }
    })
    .await;
}

/// Does something that may take less than twice its limit.
///
/// # Panics
/// It took more.
pub async fn bounded<T>(what: &str, limit: usize, work: impl Future<Output = T>) -> T {
    let started = std::time::Instant::now();
    let (done, peak) = peak_of(work).await;
    let most = 2 * limit + CONNECTION;
    println!("{what}: {peak} bytes at most, of {most}, in {:?}", started.elapsed());
    assert!(peak < most, "{what}: {peak} bytes live at a time, and the limit is {limit}");
    done
}

#[tokio::test]
async fn the_measure_sees_what_is_held() {
    let _alone = alone().await;
    let hold = async |bytes: usize| {
        let mut held = Vec::new();
        while held.len() < bytes {
            held.extend_from_slice(&[7_u8; 4096]);
            tokio::task::yield_now().await;
        }
        held.len()
    };
    let (held, peak) = peak_of(hold(8 << 20)).await;
    assert!(peak >= held && peak < 2 * held, "{peak} for {held} bytes");
    // Twice the limit is what `bounded` asks for, so this has to fail it.
    let failed = std::panic::AssertUnwindSafe(bounded("too much", 1 << 20, hold(8 << 20)));
    let failed = tokio::task::LocalSet::new()
        .run_until(async { tokio::task::spawn_local(failed.0).await })
        .await;
    assert!(failed.is_err_and(|error| error.is_panic()));
}
