//! One lane as this device knows it: how far, what is missing, what waits behind a hole.
//!
//! Blobs are numbered without holes and each names the hash of the one before, so a server can
//! neither drop nor reorder one without leaving a hole that shows here.

use std::collections::{BTreeMap, BTreeSet};

use tidings_proof::LaneHead;
use tidings_wire::{Hash, Position, Seq};

use crate::facts::{BlobFact, LaneKey};

/// How far a lane is known, without gaps but those that are named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneState {
    /// Number of the last blob that the lane reached; 0 before the first.
    pub seq: Seq,
    /// Hash of that blob; none if it came damaged, then the next blob proves its place.
    pub hash: Option<Hash>,
    /// Where that blob stood.
    pub position: Position,
    /// Numbers at or below `seq` whose rows were never applied: they lie in quarantine.
    pub gaps: BTreeSet<Seq>,
}

impl LaneState {
    /// Before the first blob.
    pub const fn empty() -> Self {
        Self { seq: Seq(0), hash: Some(Hash::ZERO), position: Position(0), gaps: BTreeSet::new() }
    }

    /// A lane known up to `head`.
    pub const fn at(head: LaneHead) -> Self {
        Self { seq: head.seq, hash: Some(head.hash), position: Position(0), gaps: BTreeSet::new() }
    }

    /// Where a verified blob stands in it.
    pub(crate) fn place(&self, blob: &BlobFact) -> Place {
        if blob.seq <= self.seq {
            return if self.gaps.contains(&blob.seq) {
                Place::Gap
            } else if blob.seq == self.seq && self.hash.is_some_and(|hash| hash != blob.hash) {
                Place::Fork
            } else {
                Place::Known
            };
        }
        if self.seq.0.checked_add(1) != Some(blob.seq.0) {
            return Place::Ahead;
        }
        match self.hash {
            Some(hash) if hash != blob.prev => Place::Fork,
            _ => Place::Next,
        }
    }

    /// Moves on to a blob that directly follows.
    pub(crate) fn advance(&mut self, blob: &BlobFact, position: Position) {
        self.seq = blob.seq;
        self.hash = Some(blob.hash);
        self.position = position;
        if !blob.opens {
            self.gaps.insert(blob.seq);
        }
    }

    /// Moves over numbers that damaged entries of the log explain, up to `seq`.
    pub(crate) fn jump(&mut self, seq: Seq, hash: Option<Hash>) {
        self.gaps.extend((self.seq.0.saturating_add(1)..=seq.0).map(Seq));
        self.seq = seq;
        self.hash = hash;
    }
}

/// Where a verified blob stands in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Directly after the last one.
    Next,
    /// At a number whose blob lies in quarantine.
    Gap,
    /// At or below the last one.
    Known,
    /// Behind a hole.
    Ahead,
    /// In a history that contradicts the one known.
    Fork,
}

/// Blobs that wait for a missing one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Staged {
    blobs: BTreeMap<(LaneKey, Seq), (BlobFact, Position)>,
    bytes: u64,
}

impl Staged {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn insert(&mut self, blob: BlobFact, position: Position) {
        let size = blob.size;
        if let Some((old, _)) = self.blobs.insert((blob.lane, blob.seq), (blob, position)) {
            self.bytes = self.bytes.saturating_sub(old.size);
        }
        self.bytes = self.bytes.saturating_add(size);
    }

    pub(crate) fn contains(&self, lane: LaneKey, seq: Seq) -> bool {
        self.blobs.contains_key(&(lane, seq))
    }

    pub(crate) fn find(&self, lane: LaneKey, seq: Seq) -> Option<&(BlobFact, Position)> {
        self.blobs.get(&(lane, seq))
    }

    pub(crate) fn remove(&mut self, lane: LaneKey, seq: Seq) {
        if let Some((blob, _)) = self.blobs.remove(&(lane, seq)) {
            self.bytes = self.bytes.saturating_sub(blob.size);
        }
    }

    /// The lanes that something waits in.
    pub(crate) fn lanes(&self) -> BTreeSet<LaneKey> {
        self.blobs.keys().map(|(lane, _)| *lane).collect()
    }

    /// The first number that waits in a lane, after one if that is given.
    pub(crate) fn after(&self, lane: LaneKey, seq: Option<Seq>) -> Option<Seq> {
        let from = seq.map_or(Some(Seq(0)), |seq| seq.0.checked_add(1).map(Seq))?;
        let mut waiting = self.blobs.range((lane, from)..=(lane, Seq(u64::MAX)));
        waiting.next().map(|((_, seq), _)| *seq)
    }
}
