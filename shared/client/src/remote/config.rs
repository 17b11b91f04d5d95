//! What a client is made from.

use std::time::Duration;

use super::{ServerUrl, Trust};

/// What a [`SyncClient`](super::SyncClient) is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The server.
    pub url: ServerUrl,
    /// Who vouches for it.
    pub trust: Trust,
    /// How long to wait for what.
    pub timeouts: Timeouts,
}

impl Config {
    /// The system's trust and the usual times.
    #[must_use]
    pub fn new(url: ServerUrl) -> Self {
        Self { url, trust: Trust::System, timeouts: Timeouts::default() }
    }
}

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection, its TLS handshake included. 10 s.
    pub connect: Duration,
    /// For the whole answer to a small call, and for the head of a stream. 30 s.
    pub answer: Duration,
    /// For the whole of a push, pull, compact or part, whose bodies are large. 5 minutes.
    pub transfer: Duration,
    /// Without a byte in the middle of any answer but a stream. 30 s.
    pub stall: Duration,
    /// Without a byte of a stream, before it counts as dead: 2.5 keep-alives of 30 s.
    pub silence: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(30),
            transfer: Duration::from_secs(300),
            stall: Duration::from_secs(30),
            silence: Duration::from_secs(75),
        }
    }
}
