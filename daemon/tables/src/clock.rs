//! Where stamps come from: time that the caller reads, and everything this replica has seen.
//!
//! A stamp always exceeds every stamp seen, whatever the computer's clock does, so that a write
//! made after seeing another wins over it.

use tidings_wire::{Incarnation, Stamp};

/// Gives stamps to one replica. Its last stamp has to be stored with what was stamped, so that a
/// restart under a clock set back does not give one twice.
#[derive(Debug, Clone)]
pub struct Clock {
    incarnation: Incarnation,
    /// Milliseconds and counter, as [`Stamp::clock`] joins them.
    last: u64,
}

/// Every stamp below the limit has been used: some device wrote one at the end of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no stamp is left: a device of this account wrote with a clock at the end of time")]
pub struct ClockExhausted;

impl Clock {
    /// A clock that goes on after `last`, the greatest stamp this replica gave or saw
    /// ([`Stamp::ZERO`] for none).
    pub fn new(incarnation: Incarnation, last: Stamp) -> Self {
        let mut clock = Self { incarnation, last: 0 };
        clock.observe(last);
        clock
    }

    /// The replica that the stamps name.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The last stamp given or seen, with this replica's incarnation; what [`Clock::new`] takes.
    pub fn last(&self) -> Stamp {
        Stamp::new(self.last >> 16, self.last as u16, self.incarnation)
    }

    /// Notes a stamp of another replica. One at or past the limit does not count: the blob that
    /// holds it does not open.
    pub fn observe(&mut self, stamp: Stamp) {
        if stamp.millis() < Stamp::MILLIS_LIMIT {
            self.last = self.last.max(stamp.clock());
        }
    }

    /// The next stamp, at `now` in Unix milliseconds or right after the last one, whichever is
    /// later. A time before 1970 counts as 1970.
    ///
    /// # Errors
    /// If no stamp below the limit is left.
    pub fn next(&mut self, now: i64) -> Result<Stamp, ClockExhausted> {
        let limit = Stamp::MILLIS_LIMIT << 16;
        let now = u64::try_from(now).unwrap_or(0).min(Stamp::MILLIS_LIMIT - 1) << 16;
        let next = now.max(self.last + 1);
        if next >= limit {
            return Err(ClockExhausted);
        }
        self.last = next;
        Ok(self.last())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Incarnation = Incarnation([7; 8]);
    const OTHER: Incarnation = Incarnation([9; 8]);

    #[test]
    fn stamps_rise_whatever_the_time_does() {
        let mut clock = Clock::new(OWN, Stamp::ZERO);
        let mut last = Stamp::ZERO;
        for now in [5, 5, 4, -1, i64::MIN, 0, 6, 1_700_000_000_000, 3] {
            let stamp = clock.next(now).unwrap();
            assert!(stamp > last, "at {now}");
            assert_eq!(stamp.incarnation(), OWN);
            last = stamp;
        }
        assert_eq!(last, Stamp::new(1_700_000_000_000, 1, OWN));
    }

    #[test]
    fn a_stamp_exceeds_what_was_seen() {
        let mut clock = Clock::new(OWN, Stamp::ZERO);
        let seen = Stamp::new(1_000, 3, OTHER);
        clock.observe(seen);
        let stamp = clock.next(500).unwrap();
        assert!(stamp > seen);
        assert_eq!(stamp, Stamp::new(1_000, 4, OWN));
        clock.observe(Stamp::new(10, 0, OTHER));
        assert_eq!(clock.next(500).unwrap(), Stamp::new(1_000, 5, OWN));
        assert_eq!(Clock::new(OWN, clock.last()).next(0).unwrap(), Stamp::new(1_000, 6, OWN));
    }

    #[test]
    fn a_full_counter_carries_into_the_milliseconds() {
        let mut clock = Clock::new(OWN, Stamp::new(1_000, u16::MAX, OTHER));
        assert_eq!(clock.next(1_000).unwrap(), Stamp::new(1_001, 0, OWN));
    }

    #[test]
    fn time_ends_with_an_error_not_a_stamp_that_nobody_opens() {
        let end = Stamp::MILLIS_LIMIT - 1;
        let mut clock = Clock::new(OWN, Stamp::new(end, u16::MAX, OTHER));
        assert_eq!(clock.next(0), Err(ClockExhausted));
        assert_eq!(clock.next(i64::MAX), Err(ClockExhausted));

        let mut clock = Clock::new(OWN, Stamp::ZERO);
        clock.observe(Stamp::new(Stamp::MILLIS_LIMIT, 0, OTHER));
        assert_eq!(clock.next(3).unwrap(), Stamp::new(3, 0, OWN));
        assert_eq!(clock.next(i64::MAX).unwrap().millis(), end);
    }
}
