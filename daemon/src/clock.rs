//! The only place of the daemon that reads clocks.
//!
//! Stamps go by [`Clock::physical`], which neither a fast clock of this computer nor one of the
//! server can push ahead; what a person reads goes by [`Clock::now`]; sleep is noticed by
//! [`Clock::boot`].

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The computer's clocks and what is known of the server's. Cheap to clone; clones share it.
#[derive(Debug, Clone)]
pub struct Clock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    source: Source,
    /// The server's time when this computer started, in Unix milliseconds; [`UNKNOWN`] before it
    /// was learned. It stays true when this computer's clock is set.
    server_start: AtomicI64,
}

#[derive(Debug)]
enum Source {
    System,
    Manual {
        now: AtomicI64,
        /// Milliseconds that the computer pretends to have slept.
        slept: AtomicU64,
    },
}

const UNKNOWN: i64 = i64::MIN;

impl Clock {
    /// The computer's clock.
    pub fn system() -> Self {
        Self::with(Source::System)
    }

    /// A clock that stands still at a time in Unix milliseconds until it is [`set`](Self::set);
    /// for tests.
    pub fn manual(now: i64) -> Self {
        Self::with(Source::Manual { now: AtomicI64::new(now), slept: AtomicU64::new(0) })
    }

    fn with(source: Source) -> Self {
        Self { shared: Arc::new(Shared { source, server_start: AtomicI64::new(UNKNOWN) }) }
    }

    /// Sets a manual clock; the computer's stays as it is.
    pub fn set(&self, now: i64) {
        if let Source::Manual { now: time, .. } = &self.shared.source {
            time.store(now, Ordering::Relaxed);
        }
    }

    /// Lets a manual clock go on as if the computer had slept; the computer's stays as it is.
    pub fn sleep(&self, time: Duration) {
        if let Source::Manual { slept, .. } = &self.shared.source {
            let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            slept.fetch_add(millis, Ordering::Relaxed);
        }
    }

    /// The computer's time in Unix milliseconds; negative before 1970.
    pub fn now(&self) -> i64 {
        match &self.shared.source {
            Source::Manual { now, .. } => now.load(Ordering::Relaxed),
            Source::System => {
                let millis = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
                match SystemTime::now().duration_since(UNIX_EPOCH) {
                    Ok(after) => millis(after),
                    Err(before) => -millis(before.duration()),
                }
            }
        }
    }

    /// The time for stamps: the earlier of the own clock and the server's, as far as it is known.
    pub fn physical(&self) -> i64 {
        let now = self.now();
        self.server_now().map_or(now, |server| now.min(server))
    }

    /// Server time minus own time in milliseconds, once it was learned.
    pub fn server_offset(&self) -> Option<i64> {
        self.server_now().map(|server| server.saturating_sub(self.now()))
    }

    /// The server's time, as far as it is known.
    fn server_now(&self) -> Option<i64> {
        let start = self.shared.server_start.load(Ordering::Relaxed);
        (start != UNKNOWN).then(|| start.saturating_add(self.running()))
    }

    /// Notes server time minus own time in milliseconds.
    pub fn learn_server_offset(&self, millis: i64) {
        let server = self.now().saturating_add(millis);
        let start = server.saturating_sub(self.running()).max(UNKNOWN + 1);
        self.shared.server_start.store(start, Ordering::Relaxed);
    }

    /// Milliseconds since the computer started, whatever its clock was set to meanwhile; a manual
    /// clock stands still.
    fn running(&self) -> i64 {
        match &self.shared.source {
            Source::Manual { .. } => 0,
            Source::System => i64::try_from(self.boot().as_millis()).unwrap_or(i64::MAX),
        }
    }

    /// Time since the computer started, sleep included.
    pub fn boot(&self) -> Duration {
        let slept = match &self.shared.source {
            Source::Manual { slept, .. } => slept.load(Ordering::Relaxed),
            Source::System => 0,
        };
        span(boot_clock()).saturating_add(Duration::from_millis(slept))
    }

    /// Time since the computer started, sleep left out.
    pub fn awake(&self) -> Duration {
        span(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic))
    }
}

#[cfg(target_os = "linux")]
fn boot_clock() -> rustix::time::Timespec {
    rustix::time::clock_gettime(rustix::time::ClockId::Boottime)
}

/// Elsewhere the plain monotonic clock, which hides sleep: the poll then notices it later.
#[cfg(not(target_os = "linux"))]
fn boot_clock() -> rustix::time::Timespec {
    rustix::time::clock_gettime(rustix::time::ClockId::Monotonic)
}

fn span(time: rustix::time::Timespec) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

/// A time in Unix milliseconds as RFC 3339 in UTC with milliseconds, always 24 bytes within the
/// years 0 to 9999.
pub fn utc(millis: i64) -> String {
    // The year 9999; jiff refuses what lies beyond, and nobody reads that as a date anyway.
    let millis = millis.clamp(-62_167_219_200_000, 253_402_207_200_000);
    let time = jiff::Timestamp::from_millisecond(millis).unwrap_or_default();
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_go_by_the_earlier_clock() {
        let clock = Clock::manual(1_000);
        assert_eq!(clock.physical(), 1_000);
        clock.learn_server_offset(500);
        assert_eq!(clock.physical(), 1_000);
        clock.learn_server_offset(-200);
        assert_eq!(clock.physical(), 800);
        // Set while the daemon runs: the server's time is known all the same.
        clock.set(1 << 40);
        assert_eq!(clock.physical(), 800);
        assert_eq!(clock.server_offset(), Some(800 - (1 << 40)));
        clock.set(-5);
        assert_eq!(clock.physical(), -5);
        clock.set(i64::MIN);
        assert_eq!(clock.physical(), i64::MIN);
    }

    #[test]
    fn times_are_written_with_a_fixed_width() {
        assert_eq!(utc(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(utc(1_790_000_000_007), "2026-09-21T14:13:20.007Z");
        assert_eq!(utc(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(utc(i64::MAX).len(), 24);
        assert_eq!(utc(i64::MIN), "0000-01-01T00:00:00.000Z");
    }

    #[test]
    fn the_system_clocks_answer() {
        let clock = Clock::system();
        assert!(clock.now() > 1_600_000_000_000);
        let awake = clock.awake();
        assert!(clock.boot() >= awake);
    }
}
