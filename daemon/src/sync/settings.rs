//! What of the configuration concerns the sync side.

use std::time::Duration;

use tidings_client::remote::Timeouts;
use tidings_engine::EngineConfig;

use crate::config::Config;

/// Intervals and limits of the sync side.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What the engine goes by.
    pub engine: EngineConfig,
    /// How long calls may take.
    pub timeouts: Timeouts,
    /// How often the daemon looks whether the computer slept.
    pub sleep_check: Duration,
    /// How often a locked keychain is asked again.
    pub unlock_every: Duration,
    /// A clock that differs from the server's by more than this is told to the person.
    pub clock_tolerance: Duration,
    /// Most bytes of the outbox that one push takes, before compression.
    pub push_bytes: usize,
}

impl From<&Config> for Settings {
    fn from(config: &Config) -> Self {
        Self {
            engine: EngineConfig {
                backoff_first: config.backoff_first,
                backoff_max: config.backoff_max,
                healthy_after: config.healthy_after,
                stream_silence: config.stream_silence,
                stream_first_bytes: config.stream_first_bytes,
                poll: config.poll,
                poll_buffered: config.poll_buffered,
                token_margin: config.token_margin,
                refetch: vec![config.refetch_second, config.refetch_third],
                retry_after_max: config.retry_after_max,
                manifest_every: config.manifest_every,
                manifest_after_blobs: config.manifest_after,
                staged_bytes: config.staged_bytes,
                parallel: config.sync_parallel,
                page_entries: u32::try_from(config.page_entries).unwrap_or(u32::MAX),
            },
            timeouts: Timeouts {
                connect: config.connect_timeout,
                answer: config.answer_timeout,
                transfer: config.transfer_timeout,
                stall: config.stall_timeout,
                silence: config.stream_silence,
            },
            sleep_check: config.sleep_check,
            unlock_every: config.unlock_every,
            clock_tolerance: config.clock_tolerance,
            push_bytes: usize::try_from(config.push_bytes).unwrap_or(usize::MAX),
        }
    }
}
