//! Drives compactions on the committing thread, a slice between two commits: those that somebody
//! asks for, and those that begin by themselves when the files have grown.

use std::{
    sync::{Arc, mpsc::SyncSender},
    time::{Duration, Instant},
};

use crate::{
    Compaction, Options, Step, StoreError,
    records::{Records, guarded},
    space::Space,
};

/// Where the outcome of a compaction goes.
pub(crate) type Asker = SyncSender<Result<Compaction, StoreError>>;

/// The state of compaction.
pub(super) struct Compactor {
    records: Arc<Records>,
    /// Size at which one begins: how many times the live bytes, and at least how much.
    ratio: u64,
    floor: u64,
    underway: bool,
    asked: Vec<Asker>,
    /// Bytes committed since the files were last measured.
    unseen: u64,
    /// What the files took after the last one.
    smallest: u64,
    /// After a failure none begins by itself before this.
    not_before: Option<Instant>,
}

impl Compactor {
    pub(super) fn new(records: Arc<Records>, options: &Options) -> Self {
        Self {
            records,
            ratio: u64::from(options.rewrite_ratio),
            floor: options.rewrite_floor,
            underway: false,
            asked: Vec::new(),
            // Measured after the first commit: the files may have grown in an earlier life.
            unseen: LOOK_EVERY,
            smallest: 0,
            not_before: None,
        }
    }

    /// Whether there is a slice to do.
    pub(super) fn is_underway(&self) -> bool {
        self.underway
    }

    /// Begins a compaction, or joins the one that is under way.
    pub(super) fn ask(&mut self, asker: Asker) {
        self.asked.push(asker);
        self.underway = true;
    }

    /// Notes a commit of this many bytes; begins a compaction if the files have grown too far.
    pub(super) fn committed(&mut self, bytes: usize) {
        self.unseen = self.unseen.saturating_add(bytes as u64);
        if self.ratio == 0 || self.underway || self.unseen < LOOK_EVERY {
            return;
        }
        self.unseen = 0;
        if self.not_before.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let engine = &self.records.engine;
        let (Ok(Some(live)), Ok(size)) = (engine.live_size(), engine.disk_size()) else { return };
        // Where rows are tiny even a fresh copy is large: it has to grow again first.
        let grown = size > self.smallest.saturating_add(self.smallest / 2);
        if size >= self.floor && size > live.saturating_mul(self.ratio) && grown {
            tracing::info!(size, live, "the store has grown and is rewritten");
            self.underway = true;
        }
    }

    /// Does one slice. An error has ended the compaction; only [`StoreError::Unknown`] concerns
    /// anybody else.
    pub(super) fn slice(&mut self, space: &Space) -> Result<(), StoreError> {
        let engine = &self.records.engine;
        // Commits need the reserve more than a copy does.
        if let (Some(_), Err(full)) = (engine.rewrite(), space.allows(SLICE)) {
            self.give_up(&full);
            return Err(full);
        }
        match guarded(|| engine.compact()) {
            Ok(Step::Underway) => Ok(()),
            Ok(Step::Done(done)) => {
                self.end(Ok(done));
                Ok(())
            }
            Err(error) => {
                self.end(Err(error.clone()));
                Err(error)
            }
        }
    }

    /// Gives up what is under way, for this reason. False if there is nothing.
    pub(super) fn give_up(&mut self, reason: &StoreError) -> bool {
        if !self.underway {
            return false;
        }
        let done = self.records.engine.cancel_compaction();
        self.end(done.ok_or_else(|| reason.clone()));
        true
    }

    fn end(&mut self, outcome: Result<Compaction, StoreError>) {
        self.underway = false;
        self.unseen = 0;
        self.not_before = outcome.is_err().then(|| Instant::now() + RETRY);
        match &outcome {
            Ok(Compaction::Rewritten { before, after }) => {
                tracing::info!(before, after, "the store was compacted");
                self.smallest = *after;
            }
            Ok(Compaction::Unchanged) => {}
            Err(error) => tracing::warn!(%error, "the compaction was given up"),
        }
        for asker in self.asked.drain(..) {
            // Whoever does not wait any more need not know.
            let _ = asker.send(outcome.clone());
        }
    }
}

/// Bytes that may be committed between two looks at the files.
const LOOK_EVERY: u64 = 1 << 20;
/// What one slice may write, as the reserve counts it.
const SLICE: usize = 1 << 20;
const RETRY: Duration = Duration::from_secs(600);
