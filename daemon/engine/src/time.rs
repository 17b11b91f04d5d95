//! Time as the engine knows it: milliseconds of a clock that never runs back.

use std::time::Duration;

/// A moment, in milliseconds since some start that the caller chose; never wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(u64);

impl Time {
    /// The start.
    pub const START: Self = Self(0);

    /// That many milliseconds after the start.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the start.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The moment `wait` later; a fraction of a millisecond counts as one, so that a timer never
    /// fires early.
    pub fn after(self, wait: Duration) -> Self {
        let millis = wait.as_nanos().div_ceil(1_000_000);
        Self(self.0.saturating_add(u64::try_from(millis).unwrap_or(u64::MAX)))
    }

    /// How long ago `earlier` was; nothing if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}
