//! Seeded randomness for back-off: the same seed gives the same waits, so a trace can be replayed.

use std::time::Duration;

/// SplitMix64 (Steele, Lea, Flood 2014); spreads load, guards nothing.
#[derive(Debug, Clone)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A wait between nothing and `most`, every millisecond as likely.
    pub(crate) fn up_to(&mut self, most: Duration) -> Duration {
        let millis = u64::try_from(most.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        Duration::from_millis(self.next() % millis.max(1))
    }
}
