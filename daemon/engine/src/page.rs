//! Judging one page: which entries to apply, which to keep back, which to put into quarantine.
//!
//! Nothing changes here; the plan takes effect only once it is stored.

use std::collections::{BTreeMap, BTreeSet};

use tidings_proof::Replica;
use tidings_wire::sync::ManifestMark;
use tidings_wire::{ManifestNumber, Position, Seq};

use crate::app::AppSync;
use crate::book::Acceptance;
use crate::facts::{Arrived, BlobFact, LaneKey, PageFacts};
use crate::lane::{LaneState, Place};
use crate::output::{Alarm, Purpose};
use crate::plan::{PagePlan, Source};
use crate::start::AppRecord;

/// Judges a page that belongs to the store the cursor speaks of.
pub(crate) fn judge(
    app: &AppSync,
    own: Replica,
    staged_limit: u64,
    purpose: Purpose,
    facts: &PageFacts,
) -> PagePlan {
    let mut judge = Judge::new(app, own, staged_limit, empty_plan(app, purpose, facts));
    for (index, entry) in facts.entries.iter().enumerate() {
        match &entry.arrived {
            Arrived::Blob(blob) => judge.blob(index, blob, entry.position),
            Arrived::Unreadable(_) => judge.unreadable(index, entry.position),
        }
    }
    judge.manifests(facts);
    match purpose {
        Purpose::Next if !facts.has_more => judge.explain_ends(),
        Purpose::Next => {}
        Purpose::Refetch(lane) => judge.release(lane),
    }
    judge.keep_waiting();
    let mut plan = judge.plan;
    if purpose == Purpose::Next {
        plan.record.generation = Some(facts.generation);
        plan.record.start = Some(facts.start);
        plan.record.cursor = Some(facts.cursor.clone());
        plan.record.position = facts.position;
        plan.record.reached = plan.record.reached.max(facts.position);
        if !facts.has_more {
            plan.record.complete = true;
        }
    }
    plan
}

/// The plan for an answer that says the cursor cannot be followed: go on from the common position
/// if the server gave a cursor for it, else from the beginning. What is applied stays; pulling it
/// again changes nothing.
pub(crate) fn restart(app: &AppSync, own: Replica, facts: &PageFacts) -> PagePlan {
    let mut plan = empty_plan(app, Purpose::Next, facts);
    // What was lost in an earlier life is not found again by another loss.
    let mut lost = app.record.lost.clone();
    lost.extend(app.book.replicas());
    lost.insert(own);
    plan.record = AppRecord {
        generation: Some(facts.generation),
        start: Some(facts.start),
        cursor: if facts.reset.is_some() && !facts.cursor.is_empty() {
            Some(facts.cursor.clone())
        } else {
            None
        },
        position: facts.reset.unwrap_or_default(),
        reached: facts.reset.unwrap_or_default(),
        complete: false,
        lost,
        refill: true,
    };
    plan.was_reset = true;
    plan.durable = true;
    plan
}

fn empty_plan(app: &AppSync, purpose: Purpose, facts: &PageFacts) -> PagePlan {
    let shown: BTreeMap<Replica, ManifestMark> = facts
        .heads
        .iter()
        .map(|head| {
            let replica = Replica { device: head.device, incarnation: head.incarnation };
            (replica, ManifestMark { n: head.n, hash: head.hash })
        })
        .collect();
    PagePlan {
        app: app.app.clone(),
        purpose,
        apply: Vec::new(),
        stage: Vec::new(),
        unstage: Vec::new(),
        quarantine: Vec::new(),
        quarantine_staged: BTreeSet::new(),
        settled: Vec::new(),
        explained: Vec::new(),
        lanes: BTreeMap::new(),
        manifests: Vec::new(),
        record: app.record.clone(),
        durable: false,
        others: false,
        ticket: 0,
        staged: Vec::new(),
        unplaced: app.unplaced.clone(),
        accepted: Vec::new(),
        own_signed: ManifestNumber(0),
        alarms: BTreeSet::new(),
        shown,
        progress: (facts.position, facts.part),
        has_more: facts.has_more,
        was_reset: false,
        cursor: facts.cursor.clone(),
    }
}

/// Most places that are remembered to explain holes: a server must not fill memory with rubbish.
const MOST_UNPLACED: usize = 100_000;

/// What became of a blob that waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moved {
    /// It is the next of its lane, or fills a gap.
    Taken,
    /// It is of another history.
    Forked,
    /// Its number came otherwise.
    Known,
}

/// A page in the course of being judged.
struct Judge<'a> {
    app: &'a AppSync,
    own: Replica,
    staged_bytes: u64,
    staged_limit: u64,
    /// Blobs of this page that wait, by lane and number.
    waiting: BTreeMap<(LaneKey, Seq), (usize, BlobFact, Position)>,
    /// Up to which number staged blobs were taken, by lane.
    released: BTreeMap<LaneKey, Seq>,
    plan: PagePlan,
}

impl<'a> Judge<'a> {
    fn new(app: &'a AppSync, own: Replica, staged_limit: u64, plan: PagePlan) -> Self {
        let staged_bytes = app.staged.bytes();
        let (waiting, released) = (BTreeMap::new(), BTreeMap::new());
        Self { app, own, staged_bytes, staged_limit, waiting, released, plan }
    }

    fn lane(&self, key: LaneKey) -> LaneState {
        let changed = self.plan.lanes.get(&key).or_else(|| self.app.lanes.get(&key));
        changed.cloned().unwrap_or_else(LaneState::empty)
    }

    fn blob(&mut self, index: usize, blob: &BlobFact, position: Position) {
        // Our own lanes are known from what we sent, and the server leaves them out.
        if blob.lane.replica == self.own {
            return;
        }
        let mut lane = self.lane(blob.lane);
        let mut place = lane.place(blob);
        if place == Place::Ahead
            && self.explain(blob.lane, &mut lane, blob.seq, blob.prev, position)
        {
            place = lane.place(blob);
        }
        match place {
            Place::Next => {
                self.take(index, blob, position);
                lane.advance(blob, position);
                self.plan.lanes.insert(blob.lane, lane);
                self.release(blob.lane);
            }
            Place::Gap if blob.opens => {
                lane.gaps.remove(&blob.seq);
                self.plan.lanes.insert(blob.lane, lane);
                self.plan.settled.push((blob.lane, blob.seq));
                self.take(index, blob, position);
            }
            Place::Gap | Place::Known => {}
            Place::Ahead => self.stage(index, blob, position),
            Place::Fork => {
                self.plan.quarantine.push(index);
                self.fork(blob.lane.replica);
            }
        }
    }

    /// Applies the entry, or keeps its bytes in quarantine if it did not open.
    fn take(&mut self, index: usize, blob: &BlobFact, position: Position) {
        if blob.opens {
            self.plan.apply.push((position, Source::Entry(index)));
            self.plan.others = true;
        } else {
            self.plan.quarantine.push(index);
        }
    }

    fn stage(&mut self, index: usize, blob: &BlobFact, position: Position) {
        let key = (blob.lane, blob.seq);
        if self.app.staged.contains(blob.lane, blob.seq) || self.waiting.contains_key(&key) {
            return;
        }
        // What does not fit is not lost: the lane waits, and is fetched again from its hole on.
        if self.staged_bytes.saturating_add(blob.size) > self.staged_limit {
            return;
        }
        self.staged_bytes = self.staged_bytes.saturating_add(blob.size);
        self.waiting.insert(key, (index, blob.clone(), position));
    }

    /// Moves a lane over a hole that as many damaged entries of the log explain.
    fn explain(
        &mut self,
        key: LaneKey,
        lane: &mut LaneState,
        seq: Seq,
        prev: tidings_wire::Hash,
        position: Position,
    ) -> bool {
        let hole = seq.0.saturating_sub(lane.seq.0).saturating_sub(1);
        // Positions are the server's word: they may run back, and such a range would be none.
        let from = lane.position.min(position);
        let between = self.plan.unplaced.range(from..=position);
        let each = between.flat_map(|(at, count)| (0..*count).map(|_| *at));
        let needed = usize::try_from(hole).unwrap_or(usize::MAX);
        let found: Vec<Position> = each.take(needed).collect();
        if found.len() < needed {
            return false;
        }
        for position in &found {
            let left = self.plan.unplaced.remove(position).unwrap_or(0).saturating_sub(1);
            if left > 0 {
                self.plan.unplaced.insert(*position, left);
            }
        }
        self.plan.explained.extend(found);
        lane.jump(Seq(seq.0.saturating_sub(1)), Some(prev));
        self.plan.lanes.insert(key, lane.clone());
        true
    }

    /// Takes what waited for the blob that just came; what turns out to be of another history, or
    /// was overtaken, waits no longer.
    fn release(&mut self, key: LaneKey) {
        while let Some(seq) = self.next_waiting(key) {
            let mut lane = self.lane(key);
            if let Some((index, blob, position)) = self.waiting.remove(&(key, seq)) {
                self.staged_bytes = self.staged_bytes.saturating_sub(blob.size);
                match self.move_on(&mut lane, &blob, position) {
                    Moved::Taken => self.take(index, &blob, position),
                    Moved::Forked => self.plan.quarantine.push(index),
                    Moved::Known => {}
                }
            } else if let Some((blob, position)) = self.app.staged.find(key, seq).cloned() {
                self.staged_bytes = self.staged_bytes.saturating_sub(blob.size);
                self.released.insert(key, seq);
                self.plan.unstage.push((key, seq));
                match self.move_on(&mut lane, &blob, position) {
                    Moved::Taken if blob.opens => {
                        self.plan.apply.push((position, Source::Staged(key, seq)));
                        self.plan.others = true;
                    }
                    Moved::Taken | Moved::Forked => {
                        self.plan.quarantine_staged.insert((key, seq));
                    }
                    Moved::Known => {}
                }
            }
            self.plan.lanes.insert(key, lane);
        }
    }

    /// The first number that waits in a lane and need not wait any longer.
    fn next_waiting(&self, key: LaneKey) -> Option<Seq> {
        let next = Seq(self.lane(key).seq.0.saturating_add(1));
        let here = self.waiting.range((key, Seq(0))..=(key, next)).map(|((_, seq), _)| *seq).next();
        let released = self.released.get(&key).copied();
        let staged = self.app.staged.after(key, released).filter(|seq| *seq <= next);
        [here, staged].into_iter().flatten().min()
    }

    /// Moves a lane over a blob that waited.
    fn move_on(&mut self, lane: &mut LaneState, blob: &BlobFact, position: Position) -> Moved {
        match lane.place(blob) {
            Place::Next => lane.advance(blob, position),
            Place::Gap if blob.opens => {
                lane.gaps.remove(&blob.seq);
                self.plan.settled.push((blob.lane, blob.seq));
            }
            Place::Fork => {
                self.fork(blob.lane.replica);
                return Moved::Forked;
            }
            Place::Gap | Place::Known | Place::Ahead => return Moved::Known,
        }
        Moved::Taken
    }

    fn fork(&mut self, replica: Replica) {
        let app = self.app.app.clone();
        self.plan.alarms.insert(Alarm::Fork { app, replica });
    }

    /// Moves lanes to the end that their author states where damaged entries explain all that is
    /// missing: no later blob would do it.
    fn explain_ends(&mut self) {
        let mut stated = self.app.book.stated_heads(self.own);
        for fact in &self.plan.accepted {
            for (tag, head) in &fact.manifest.lanes {
                stated.insert(LaneKey { replica: fact.replica(), tag: *tag }, *head);
            }
        }
        for (key, head) in stated {
            let mut lane = self.lane(key);
            if self.plan.unplaced.is_empty() || lane.seq >= head.seq {
                continue;
            }
            let after = Seq(head.seq.0.saturating_add(1));
            self.explain(key, &mut lane, after, head.hash, Position(u64::MAX));
        }
    }

    fn unreadable(&mut self, index: usize, position: Position) {
        // Pulled again after a reset, the same damaged entry counts once.
        if self.plan.purpose == Purpose::Next && position > self.app.record.reached {
            if self.plan.unplaced.len() < MOST_UNPLACED {
                let count = self.plan.unplaced.entry(position).or_insert(0_u32);
                *count = count.saturating_add(1);
            }
            self.plan.quarantine.push(index);
        }
    }

    fn manifests(&mut self, facts: &PageFacts) {
        for (index, fact) in facts.manifests.iter().enumerate() {
            if fact.replica() == self.own {
                // It carries our signature, whoever made it.
                self.plan.own_signed = self.plan.own_signed.max(fact.manifest.n);
                continue;
            }
            match self.app.book.weigh(fact) {
                Acceptance::Newer => {
                    self.plan.manifests.push(index);
                    self.plan.accepted.push(fact.clone());
                    self.plan.durable = true;
                }
                Acceptance::Known => {}
                Acceptance::Fork => self.fork(fact.replica()),
            }
        }
    }

    /// What still waits at the end of the page is kept for a later one.
    fn keep_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        for (index, blob, position) in waiting.into_values() {
            self.plan.stage.push(index);
            self.plan.staged.push((blob, position));
        }
    }
}
