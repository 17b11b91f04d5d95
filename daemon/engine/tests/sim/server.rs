//! A model of an honest server: one log, lanes, manifests; it may lose its newest data and say so.

use std::collections::BTreeMap;

use tidings_engine::{
    Arrived, BlobFact, ChainVerdict, EntryFact, LaneKey, ManifestFact, PageFacts, PullOrder,
    PushAnswer, PushFailure,
};
use tidings_proof::{LaneHead, Replica};
use tidings_wire::sync::ManifestHead;
use tidings_wire::{Generation, Position, StartId};

/// A blob with the rows in it.
#[derive(Debug, Clone)]
pub struct Blob {
    pub fact: BlobFact,
    pub rows: Vec<u64>,
}

/// A push as it was frozen.
#[derive(Debug, Clone)]
pub struct Push {
    pub replica: Replica,
    pub blobs: Vec<Blob>,
    pub manifest: ManifestFact,
    /// How much of the author's outbox is in it.
    pub through: usize,
}

/// The log of one app.
#[derive(Debug, Clone, Default)]
pub struct Server {
    log: Vec<(Position, Push)>,
    lanes: BTreeMap<LaneKey, LaneHead>,
    manifests: BTreeMap<Replica, ManifestFact>,
    head: u64,
    /// Counts the lives of the store.
    life: u8,
}

const PAGE: usize = 4;

impl Server {
    pub fn generation(&self) -> Generation {
        Generation([self.life; 8])
    }

    /// A page, with the blobs in it by index.
    pub fn pull(&self, own: Replica, order: &PullOrder) -> (PageFacts, Vec<Blob>) {
        let (life, after) = match &order.cursor {
            Some(cursor) => {
                let (life, position) = cursor.split_first().unwrap();
                (*life, u64::from_be_bytes(position.try_into().unwrap()))
            }
            None => (self.life, 0),
        };
        let mut blobs = Vec::new();
        let mut entries = Vec::new();
        let (mut position, mut pushes, mut has_more) = (after, 0, false);
        let reset = (life != self.life).then(|| Position(after.min(self.head)));
        for (at, push) in self.log.iter().filter(|(at, _)| at.0 > after && reset.is_none()) {
            let passes =
                |blob: &&Blob| order.tags.is_empty() || order.tags.contains(&blob.fact.lane.tag);
            let passing: Vec<&Blob> = push.blobs.iter().filter(passes).collect();
            if push.replica != own && !passing.is_empty() {
                if pushes == PAGE {
                    has_more = true;
                    break;
                }
                pushes += 1;
                for blob in passing {
                    let arrived = Arrived::Blob(blob.fact.clone());
                    entries.push(EntryFact { position: *at, arrived });
                    blobs.push(blob.clone());
                }
            }
            position = at.0;
        }
        if let Some(common) = reset {
            position = common.0;
        }
        let mut cursor = vec![self.life];
        cursor.extend_from_slice(&position.to_be_bytes());
        let head = |fact: &ManifestFact| ManifestHead {
            device: fact.manifest.replica.device,
            incarnation: fact.manifest.replica.incarnation,
            n: fact.manifest.n,
            hash: fact.hash,
        };
        let facts = PageFacts {
            generation: self.generation(),
            start: StartId([self.life; 8]),
            reset,
            entries,
            cursor,
            position: Position(position),
            part: 0,
            has_more,
            head: Position(self.head),
            heads: self.manifests.values().map(head).collect(),
            manifests: self
                .manifests
                .values()
                .filter(|fact| !order.known.contains(&head(fact)))
                .cloned()
                .collect(),
            chain: ChainVerdict::Known,
            epoch_known: true,
        };
        (facts, blobs)
    }

    pub fn push(&mut self, push: &Push) -> Result<PushAnswer, PushFailure> {
        let mut lanes = self.lanes.clone();
        if let Some(last) = push.blobs.last()
            && let Some(head) = lanes.get(&last.fact.lane)
            && head.hash == last.fact.hash
        {
            return Ok(self.answer(push, None));
        }
        for blob in &push.blobs {
            let head = lanes.entry(blob.fact.lane).or_insert(LaneHead::EMPTY);
            if blob.fact.seq.0 > head.seq.0 + 1 {
                return Err(PushFailure::LaneGap);
            }
            if blob.fact.seq.0 <= head.seq.0 || blob.fact.prev != head.hash {
                return Err(PushFailure::LaneFork);
            }
            *head = LaneHead { seq: blob.fact.seq, hash: blob.fact.hash };
        }
        let held = self.manifests.get(&push.replica);
        if let Some(held) = held
            && held.manifest.n >= push.manifest.manifest.n
        {
            let same = push.blobs.is_empty() && held.hash == push.manifest.hash;
            return if same {
                Ok(self.answer(push, None))
            } else {
                Err(PushFailure::ManifestBehind)
            };
        }
        self.lanes = lanes;
        self.manifests.insert(push.replica, push.manifest.clone());
        if push.blobs.is_empty() {
            return Ok(self.answer(push, None));
        }
        self.head += 1;
        self.log.push((Position(self.head), push.clone()));
        Ok(self.answer(push, Some(Position(self.head))))
    }

    fn answer(&self, push: &Push, position: Option<Position>) -> PushAnswer {
        PushAnswer {
            generation: self.generation(),
            position,
            manifest: self.manifests.get(&push.replica).map(ManifestFact::mark),
            chain: ChainVerdict::Known,
        }
    }

    /// Goes back to what was kept, under a new life.
    pub fn restore(&mut self, backup: &Self) {
        let life = self.life + 1;
        *self = Self { life, ..backup.clone() };
    }

    /// Every row in the log.
    pub fn rows(&self) -> std::collections::BTreeSet<u64> {
        let blobs = self.log.iter().flat_map(|(_, push)| &push.blobs);
        blobs.flat_map(|blob| blob.rows.iter().copied()).collect()
    }
}
