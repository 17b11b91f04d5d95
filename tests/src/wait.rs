//! Waiting with a deadline and a text that says what did not come.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// How long anything may take that normally takes a moment. Long, because two cores may be busy
/// with other tests; nobody waits for it unless something is wrong.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Pause between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks at a condition until it holds. `Err` says what is seen instead, and the last one is in
/// the failure's text.
///
/// # Panics
/// It did not hold by the deadline.
pub async fn eventually<T, E: Display>(
    what: &str,
    deadline: Duration,
    mut condition: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let end = Instant::now() + deadline;
    let mut last = None;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left.max(PAUSE), condition()).await {
            Ok(Ok(value)) => return value,
            Ok(Err(seen)) => last = Some(seen.to_string()),
            Err(_) => {}
        }
        if Instant::now() >= end {
            let seen = last.unwrap_or_else(|| "the look itself did not come to an end".to_owned());
            panic!("not within {deadline:?}: {what}; last seen: {seen}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits for one thing to end.
///
/// # Panics
/// It did not by the deadline.
pub async fn within<T>(what: &str, deadline: Duration, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(deadline, work).await {
        Ok(value) => value,
        Err(_) => panic!("not within {deadline:?}: {what}"),
    }
}
