//! Wall-clock time: the one place of the server that reads it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Unix time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// Now. A clock before 1970 reads as 1970.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// This long after.
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long until then; zero when it has passed.
    pub fn until(self, then: Self) -> Duration {
        Duration::from_millis(then.0.saturating_sub(self.0))
    }
}
