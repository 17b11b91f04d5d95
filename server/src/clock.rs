//! Wall-clock time: the one place of the server that reads it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::fmt::rfc2822::DateTimePrinter;

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

    /// As HTTP writes it (RFC 9110, 5.6.7); empty after the year 9999.
    pub fn http_date(self) -> String {
        let millis = i64::try_from(self.0).unwrap_or(i64::MAX);
        jiff::Timestamp::from_millisecond(millis)
            .and_then(|now| DateTimePrinter::new().timestamp_to_rfc9110_string(&now))
            .unwrap_or_default()
    }

    /// How long until then; zero when it has passed.
    pub fn until(self, then: Self) -> Duration {
        Duration::from_millis(then.0.saturating_sub(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_http_wants_them() {
        assert_eq!(Millis(784_111_777_000).http_date(), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
