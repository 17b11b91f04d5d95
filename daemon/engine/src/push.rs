//! The push of an app: one in flight, frozen and stored before its first byte is sent.

use crate::time::Time;

/// Where the push of an app stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Push {
    /// Nothing is frozen.
    Idle,
    /// The driver freezes, or signs a manifest without blobs.
    Freezing,
    /// Frozen and stored, not in flight.
    Ready,
    /// In flight.
    Sending,
    /// The frozen blobs need a new manifest; the chain may have to be read first.
    Stale,
    /// The driver signs that manifest.
    Resigning,
    /// The driver takes a new incarnation.
    Renewing,
}

/// When a manifest without blobs is due.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BareDue(Option<Time>);

impl BareDue {
    pub(crate) fn at(&self) -> Option<Time> {
        self.0
    }

    /// Sets it, never later than it was.
    pub(crate) fn by(&mut self, time: Time) {
        self.0 = Some(self.0.map_or(time, |due| due.min(time)));
    }

    pub(crate) fn set(&mut self, time: Time) {
        self.0 = Some(time);
    }
}
