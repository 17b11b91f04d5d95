//! Every interval and limit of the engine; the daemon's configuration sets them.

use std::time::Duration;

/// Intervals and limits. [`Default`] is what the daemon ships with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineConfig {
    /// Upper bound of the first wait after a failure; doubles with each further one.
    pub backoff_first: Duration,
    /// Upper bound of any wait after a failure.
    pub backoff_max: Duration,
    /// A stream that lived this long forgets earlier failures.
    pub healthy_after: Duration,
    /// Silence after which a stream is dead (2.5 keep-alives).
    pub stream_silence: Duration,
    /// An open stream without a first byte for this long is buffered by something on the way.
    pub stream_first_bytes: Duration,
    /// How often every app, the app list and the chain are read even without a hint.
    pub poll: Duration,
    /// The same while the stream is buffered.
    pub poll_buffered: Duration,
    /// A token is renewed this long before its end.
    pub token_margin: Duration,
    /// Waits between the tries to fetch a missing blob; the first try is made at once, and after
    /// the last one it counts as withheld.
    pub refetch: Vec<Duration>,
    /// Longest wait that a server may ask for.
    pub retry_after_max: Duration,
    /// A manifest without blobs goes at least this often.
    pub manifest_every: Duration,
    /// A manifest without blobs goes this long after blobs of others came.
    pub manifest_after_blobs: Duration,
    /// Most bytes of blobs that wait for a missing one, per app.
    pub staged_bytes: u64,
    /// Most pulls and pushes in flight at once.
    pub parallel: usize,
    /// Most entries that one pull asks for.
    pub page_entries: u32,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            backoff_first: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
            healthy_after: Duration::from_secs(60),
            stream_silence: Duration::from_secs(75),
            stream_first_bytes: Duration::from_secs(10),
            poll: Duration::from_secs(15 * 60),
            poll_buffered: Duration::from_secs(60),
            token_margin: Duration::from_secs(60),
            refetch: vec![Duration::from_secs(5), Duration::from_secs(60)],
            retry_after_max: Duration::from_secs(10 * 60),
            manifest_every: Duration::from_secs(24 * 60 * 60),
            manifest_after_blobs: Duration::from_secs(60 * 60),
            staged_bytes: 64 << 20,
            parallel: 4,
            page_entries: 1_000,
        }
    }
}
