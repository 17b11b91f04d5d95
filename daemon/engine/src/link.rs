//! The stream of hints: when to open it, when it counts as dead, when as buffered.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::config::EngineConfig;
use crate::failure::Failure;
use crate::jitter::Jitter;
use crate::time::Time;

/// Whether the stream stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Down,
    Opening,
    Open { since: Time, last_byte: Time, first_byte: bool },
}

/// The stream with its back-off.
#[derive(Debug, Clone)]
pub(crate) struct LinkState {
    pub(crate) stream: Stream,
    pub(crate) backoff: Backoff,
    /// The server could not be reached when it was last tried.
    pub(crate) unreachable: bool,
    /// Shortest wait before the next opening, as the stream last asked.
    retry: Option<Duration>,
}

impl LinkState {
    pub(crate) fn new() -> Self {
        let backoff = Backoff::default();
        Self { stream: Stream::Down, backoff, unreachable: false, retry: None }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stream, Stream::Open { .. })
    }

    /// An open stream that something on the way holds back.
    pub(crate) fn is_buffered(&self, now: Time, config: &EngineConfig) -> bool {
        match self.stream {
            Stream::Open { since, first_byte: false, .. } => {
                since.after(config.stream_first_bytes) <= now
            }
            _ => false,
        }
    }

    /// Nothing is tried while the server is known to be out of reach.
    pub(crate) fn blocked(&self, now: Time) -> bool {
        self.stream == Stream::Down && self.unreachable && !self.backoff.ready(now)
    }

    pub(crate) fn opened(&mut self, now: Time) {
        self.stream = Stream::Open { since: now, last_byte: now, first_byte: false };
        self.unreachable = false;
    }

    pub(crate) fn byte(&mut self, now: Time) {
        if let Stream::Open { last_byte, first_byte, .. } = &mut self.stream {
            (*last_byte, *first_byte) = (now, true);
        }
    }

    pub(crate) fn retry(&mut self, wait: Duration, config: &EngineConfig) {
        self.retry = Some(wait.min(config.retry_after_max));
    }

    /// Notes the end of a stream, or that none came about.
    pub(crate) fn closed(
        &mut self,
        now: Time,
        failure: Option<Failure>,
        config: &EngineConfig,
        jitter: &mut Jitter,
    ) {
        if let Stream::Open { since, .. } = self.stream
            && now.since(since) >= config.healthy_after
        {
            self.backoff.clear();
        }
        self.stream = Stream::Down;
        self.unreachable = failure == Some(Failure::Unreachable);
        let asked = match failure {
            Some(Failure::Busy(asked)) => asked,
            _ => None,
        };
        self.backoff.fail(now, config, jitter, asked.max(self.retry));
    }

    /// Notes that a request found the server out of reach.
    pub(crate) fn unreached(&mut self, now: Time, config: &EngineConfig, jitter: &mut Jitter) {
        if self.stream == Stream::Down && self.backoff.ready(now) {
            self.unreachable = true;
            self.backoff.fail(now, config, jitter, None);
        }
    }

    pub(crate) fn dead(&self, now: Time, config: &EngineConfig) -> bool {
        self.deadline(config).is_some_and(|at| at <= now)
    }

    /// When an open stream counts as dead unless a byte comes.
    pub(crate) fn deadline(&self, config: &EngineConfig) -> Option<Time> {
        match self.stream {
            Stream::Open { last_byte, .. } => Some(last_byte.after(config.stream_silence)),
            _ => None,
        }
    }

    /// When an open stream without a byte counts as buffered.
    pub(crate) fn first_byte_deadline(&self, config: &EngineConfig) -> Option<Time> {
        match self.stream {
            Stream::Open { since, first_byte: false, .. } => {
                Some(since.after(config.stream_first_bytes))
            }
            _ => None,
        }
    }
}
