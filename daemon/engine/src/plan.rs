//! What to store of a page: the driver does all of it in one transaction, then reports back.

use std::collections::{BTreeMap, BTreeSet};

use tidings_proof::Replica;
use tidings_wire::{AppId, Position, Seq};

use crate::facts::{BlobFact, LaneKey, ManifestFact};
use crate::lane::LaneState;
use crate::output::{Alarm, Purpose};
use crate::start::AppRecord;

/// A page as judged. Nothing of it counts before [`crate::Engine::handle_page_stored`].
#[derive(Debug, Clone)]
pub struct PagePlan {
    /// The app.
    pub app: AppId,
    /// What the page was pulled for.
    pub purpose: Purpose,
    /// Rows to apply, in order, by the position that they are logged under.
    pub apply: Vec<(Position, Source)>,
    /// Entries (by index) to keep until the blob before them comes.
    pub stage: Vec<usize>,
    /// Staged blobs that wait no longer: applied, put into quarantine, or come otherwise.
    pub unstage: Vec<(LaneKey, Seq)>,
    /// Entries (by index) to put into quarantine: bytes kept, counted, shown.
    pub quarantine: Vec<usize>,
    /// Staged blobs that leave the waiting room for the quarantine: they do not open, or are of
    /// another history.
    pub quarantine_staged: BTreeSet<(LaneKey, Seq)>,
    /// Numbers that came whole after all: their quarantined bytes can go.
    pub settled: Vec<(LaneKey, Seq)>,
    /// Positions of quarantined entries that now explain a hole.
    pub explained: Vec<Position>,
    /// Lanes as they stand afterwards.
    pub lanes: BTreeMap<LaneKey, LaneState>,
    /// Manifests (by index) that were accepted: keep them, durably.
    pub manifests: Vec<usize>,
    /// The app's record as it stands afterwards.
    pub record: AppRecord,
    /// Whether the commit must wait for the disk: something signed came.
    pub durable: bool,
    /// Blobs of others came.
    pub others: bool,
    /// The ticket of the pull that it belongs to.
    pub(crate) ticket: u64,
    pub(crate) staged: Vec<(BlobFact, Position)>,
    pub(crate) unplaced: BTreeMap<Position, u32>,
    pub(crate) accepted: Vec<ManifestFact>,
    /// The newest manifest that came with the signature of this very replica.
    pub(crate) own_signed: tidings_wire::ManifestNumber,
    pub(crate) alarms: BTreeSet<Alarm>,
    pub(crate) shown: BTreeMap<Replica, tidings_wire::sync::ManifestMark>,
    pub(crate) progress: (Position, u32),
    pub(crate) has_more: bool,
    pub(crate) was_reset: bool,
    pub(crate) cursor: Vec<u8>,
}

/// Where rows to apply lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In the entry of the page with this index.
    Entry(usize),
    /// Among the staged blobs.
    Staged(LaneKey, Seq),
}
