//! Keeps the `STORE` marker true while the store is written to.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::{
    Generation, StoreError,
    marker::{Marker, Stage},
};

/// The marker in memory and on disk.
pub(crate) struct Keeper {
    /// None: the store has no directory.
    dir: Option<PathBuf>,
    marker: Marker,
    noted: Instant,
    /// The newest commit known to be durable.
    durable: u64,
}

impl Keeper {
    pub(crate) fn new(dir: Option<PathBuf>, marker: Marker) -> Self {
        let durable = marker.high_water;
        Self { dir, marker, noted: Instant::now(), durable }
    }

    pub(crate) fn marker(&self) -> &Marker {
        &self.marker
    }

    /// Before a commit: the store is not clean any more. Only the first one writes the marker, so
    /// a store that is merely read stays as it is, on a full disk too.
    pub(crate) fn begin(&mut self) -> Result<(), StoreError> {
        if self.marker.stage == Stage::Open {
            return Ok(());
        }
        self.replace(Marker { stage: Stage::Open, ..self.marker.clone() })
    }

    /// After a synced commit: raises the high-water mark now and then. Two syncs a time is too
    /// much for every commit, and a mark that lags only sees less.
    pub(crate) fn durable(&mut self, commit: u64) {
        self.durable = commit;
        let behind = commit.saturating_sub(self.marker.high_water);
        if behind < MOST_BEHIND && (behind == 0 || self.noted.elapsed() < LONGEST) {
            return;
        }
        let raised = Marker { high_water: commit, ..self.marker.clone() };
        if let Err(error) = self.replace(raised) {
            tracing::warn!(%error, "the high-water mark could not be raised");
        }
        self.noted = Instant::now();
    }

    /// After the engine was closed in order.
    pub(crate) fn clean(&mut self) -> Result<(), StoreError> {
        if self.marker.stage == Stage::Clean {
            return Ok(());
        }
        self.replace(Marker {
            stage: Stage::Clean,
            high_water: self.durable,
            ..self.marker.clone()
        })
    }

    pub(crate) fn set_generation(&mut self, generation: Generation) -> Result<(), StoreError> {
        self.replace(Marker { generation, ..self.marker.clone() })
    }

    pub(crate) fn set_layout(&mut self, layout: u32) -> Result<(), StoreError> {
        self.replace(Marker { layout, ..self.marker.clone() })
    }

    fn replace(&mut self, marker: Marker) -> Result<(), StoreError> {
        if let Some(dir) = &self.dir {
            marker.write(dir)?;
        }
        self.marker = marker;
        Ok(())
    }
}

const MOST_BEHIND: u64 = 4096;
const LONGEST: Duration = Duration::from_secs(60);
