//! Waiting after failures: full jitter under a bound that doubles (AWS Architecture Blog,
//! "Exponential Backoff and Jitter").

use std::time::Duration;

use crate::config::EngineConfig;
use crate::jitter::Jitter;
use crate::time::Time;

/// The wait of one kind of request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backoff {
    failures: u32,
    until: Option<Time>,
}

impl Backoff {
    /// Notes a failure and sets the next try: after the jittered wait, never before `at_least`.
    pub(crate) fn fail(
        &mut self,
        now: Time,
        config: &EngineConfig,
        jitter: &mut Jitter,
        at_least: Option<Duration>,
    ) {
        let bound = self.bound(config);
        self.failures = self.failures.saturating_add(1);
        let floor = at_least.unwrap_or_default().min(config.retry_after_max);
        self.until = Some(now.after(floor.saturating_add(jitter.up_to(bound))));
    }

    /// Longest wait after the next failure.
    fn bound(&self, config: &EngineConfig) -> Duration {
        let doublings = self.failures.min(16);
        config.backoff_first.saturating_mul(1 << doublings).min(config.backoff_max)
    }

    /// Forgets as many failures as it takes for the next wait to be no longer than what went well
    /// before it; none where that was shorter than any wait.
    pub(crate) fn forgive(&mut self, config: &EngineConfig, well: Duration) {
        while well >= config.backoff_first && self.failures > 0 && self.bound(config) > well {
            self.failures -= 1;
        }
    }

    /// Forgets all failures.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Tries at once, but keeps the count of failures.
    pub(crate) fn hurry(&mut self) {
        self.until = None;
    }

    pub(crate) fn ready(&self, now: Time) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// When the wait ends, while there is one.
    pub(crate) fn until(&self, now: Time) -> Option<Time> {
        self.until.filter(|until| *until > now)
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }
}
