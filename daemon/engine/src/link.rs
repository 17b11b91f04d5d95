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
    Opening { since: Time },
    Open { since: Time, last_byte: Time, first_byte: bool },
}

/// The stream with its back-off.
#[derive(Debug, Clone)]
pub(crate) struct LinkState {
    pub(crate) stream: Stream,
    pub(crate) backoff: Backoff,
    /// Since when the server cannot be reached.
    pub(crate) unreachable: Option<Time>,
    /// Since when something on the way holds the stream's bytes back.
    held: Option<Time>,
    /// The server itself ended the stream for a while.
    pub(crate) away: bool,
    /// When a stream that stood ended without a reason, as proxies end them.
    ended: Option<Time>,
    /// Shortest wait before the next opening, as the stream last asked.
    retry: Option<Duration>,
}

impl LinkState {
    pub(crate) fn new() -> Self {
        Self {
            stream: Stream::Down,
            backoff: Backoff::default(),
            unreachable: None,
            held: None,
            away: false,
            ended: None,
            retry: None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stream, Stream::Open { .. })
    }

    /// Whether something on the way holds the stream's bytes back: even its answer's head, or the
    /// first byte behind it.
    pub(crate) fn is_buffered(&self, now: Time, config: &EngineConfig) -> bool {
        self.held_since(now, config).is_some()
    }

    /// Since when it does.
    pub(crate) fn held_since(&self, now: Time, config: &EngineConfig) -> Option<Time> {
        self.held.or_else(|| {
            let since = self.waits_since()?;
            (since.after(config.stream_first_bytes) <= now).then_some(since)
        })
    }

    /// Since when the first byte is waited for.
    fn waits_since(&self) -> Option<Time> {
        match self.stream {
            Stream::Opening { since } | Stream::Open { since, first_byte: false, .. } => {
                Some(since)
            }
            Stream::Down | Stream::Open { .. } => None,
        }
    }

    /// A stream that stood has just ended and comes back: nobody need be told.
    pub(crate) fn is_between(&self, now: Time, config: &EngineConfig) -> bool {
        self.between_until(config).is_some_and(|until| now < until)
    }

    /// Until when such an end is not worth a word: one wait, and as long again for the opening.
    pub(crate) fn between_until(&self, config: &EngineConfig) -> Option<Time> {
        self.ended.map(|ended| ended.after(config.backoff_first.saturating_mul(2)))
    }

    /// Nothing is tried while the server is known to be out of reach.
    pub(crate) fn blocked(&self, now: Time) -> bool {
        self.stream == Stream::Down && self.unreachable.is_some() && !self.backoff.ready(now)
    }

    pub(crate) fn opening(&mut self, now: Time) {
        self.stream = Stream::Opening { since: now };
    }

    pub(crate) fn opened(&mut self, now: Time) {
        self.stream = Stream::Open { since: now, last_byte: now, first_byte: false };
        (self.unreachable, self.away, self.ended) = (None, false, None);
    }

    pub(crate) fn byte(&mut self, now: Time) {
        if let Stream::Open { last_byte, first_byte, .. } = &mut self.stream {
            (*last_byte, *first_byte) = (now, true);
            self.held = None;
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
        self.held = self.held_since(now, config);
        self.away = false;
        self.ended = None;
        if let Stream::Open { since, first_byte, .. } = self.stream {
            let lived = now.since(since);
            if lived >= config.healthy_after {
                self.backoff.clear();
            } else {
                self.backoff.forgive(config, lived);
            }
            self.away = matches!(failure, Some(Failure::Busy(_)));
            self.ended = (first_byte && failure.is_none()).then_some(now);
        }
        self.stream = Stream::Down;
        self.unreachable = (failure == Some(Failure::Unreachable)).then_some(now);
        let asked = match failure {
            Some(Failure::Busy(asked)) => asked,
            _ => None,
        };
        self.backoff.fail(now, config, jitter, asked.max(self.retry));
    }

    /// Notes that a request found the server out of reach.
    pub(crate) fn unreached(&mut self, now: Time, config: &EngineConfig, jitter: &mut Jitter) {
        if self.stream == Stream::Down && self.backoff.ready(now) {
            self.unreachable = Some(now);
            self.backoff.fail(now, config, jitter, None);
        } else if self.is_buffered(now, config) {
            // Not the stream alone, then.
            self.unreachable = Some(now);
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

    /// When a stream without a byte counts as buffered.
    pub(crate) fn first_byte_deadline(&self, config: &EngineConfig) -> Option<Time> {
        self.waits_since().map(|since| since.after(config.stream_first_bytes))
    }
}
