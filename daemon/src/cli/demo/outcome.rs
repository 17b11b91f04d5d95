//! What `tidings demo --once --json` prints.

use serde::Serialize;

/// The result, one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Rows that were imported.
    pub rows: u64,
    /// Tables that they are in.
    pub tables: u64,
    /// Whether both devices hold the same rows, and those of the file.
    pub equal: bool,
    /// Seconds from the first row sent to the first device until it had confirmed the last.
    pub import_s: f64,
    /// Seconds from the first row sent to the first device until the second held all of them.
    pub replicate_s: f64,
    /// Milliseconds from an edit on one device to its event on the other.
    pub write_to_event_ms: Percentiles,
    /// Bytes of all files that the server keeps.
    pub server_bytes: u64,
    /// Whether any text of the rows was found there or on the wire.
    pub plaintext_found: bool,
}

/// Two percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// Half of the edits stayed below.
    pub p50: f64,
    /// Of a hundred edits, one took longer.
    pub p99: f64,
}

/// Seconds with three digits after the point.
pub fn seconds(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}
