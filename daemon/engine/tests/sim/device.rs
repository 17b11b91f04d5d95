//! A device: what its disk holds, which survives crashes, and its engine, which does not.

use std::collections::{BTreeMap, BTreeSet};

use tidings_engine::{
    AppRecord, AppStart, BlobFact, ChainVerdict, Engine, EngineConfig, EngineStart, LaneKey,
    LaneState, ManifestFact, PagePlan, Source, StagedFact, Testimony, Time,
};
use tidings_proof::{LaneHead, Manifest, Replica};
use tidings_wire::sync::ChainHead;
use tidings_wire::{
    AccountId, AppId, ChainIndex, DeviceId, Hash, Incarnation, ManifestNumber, Position, Seq,
    TableTag,
};

use super::server::{Blob, Push};

pub fn app() -> AppId {
    "notes".parse().unwrap()
}

/// What lies on the disk.
#[derive(Debug, Clone)]
pub struct Disk {
    pub own: Replica,
    pub rows: BTreeSet<u64>,
    pub outbox: Vec<u64>,
    pub frozen: Option<Push>,
    record: AppRecord,
    lanes: BTreeMap<LaneKey, LaneState>,
    staged: BTreeMap<(LaneKey, Seq), (Blob, Position)>,
    manifests: BTreeMap<Replica, ManifestFact>,
    own_lanes: BTreeMap<TableTag, LaneHead>,
    acked_lanes: BTreeMap<TableTag, LaneHead>,
    own_n: ManifestNumber,
    own_acked: ManifestNumber,
}

impl Disk {
    pub fn new(number: u8) -> Self {
        Self {
            own: Replica { device: DeviceId([number; 16]), incarnation: Incarnation([number; 8]) },
            rows: BTreeSet::new(),
            outbox: Vec::new(),
            frozen: None,
            record: AppRecord::default(),
            lanes: BTreeMap::new(),
            staged: BTreeMap::new(),
            manifests: BTreeMap::new(),
            own_lanes: BTreeMap::new(),
            acked_lanes: BTreeMap::new(),
            own_n: ManifestNumber(0),
            own_acked: ManifestNumber(0),
        }
    }

    pub fn start(&self) -> EngineStart {
        let mut start = AppStart::new(app());
        start.record = self.record.clone();
        start.lanes = self.lanes.clone();
        start.staged = self
            .staged
            .values()
            .map(|(blob, position)| StagedFact { blob: blob.fact.clone(), position: *position })
            .collect();
        start.manifests = self.manifests.values().cloned().collect();
        (start.own_n, start.own_acked) = (self.own_n, self.own_acked);
        start.frozen = self.frozen.is_some();
        start.outbox = !self.outbox.is_empty();
        EngineStart { own: self.own, apps: vec![start] }
    }

    pub fn engine(&self, seed: u64, now: Time) -> Engine {
        let config =
            EngineConfig { refetch: EngineConfig::default().refetch, ..Default::default() };
        Engine::new(config, seed, self.start(), now)
    }

    /// One transaction: rows, lanes, manifests, cursor.
    pub fn store_page(&mut self, plan: &PagePlan, blobs: &[Blob]) {
        for (_, source) in &plan.apply {
            let rows = match source {
                Source::Entry(index) => blobs[*index].rows.clone(),
                Source::Staged(lane, seq) => self.staged[&(*lane, *seq)].0.rows.clone(),
            };
            self.rows.extend(rows);
        }
        for key in &plan.unstage {
            self.staged.remove(key);
        }
        for index in &plan.stage {
            let blob = blobs[*index].clone();
            let key = (blob.fact.lane, blob.fact.seq);
            self.staged.insert(key, (blob, Position(0)));
        }
        assert!(plan.quarantine.is_empty(), "an honest server sends nothing that is kept apart");
        self.lanes.extend(plan.lanes.clone());
        self.record = plan.record.clone();
    }

    pub fn store_manifests(&mut self, plan: &PagePlan, manifests: &[ManifestFact]) {
        for index in &plan.manifests {
            let fact = manifests[*index].clone();
            self.manifests.insert(fact.manifest.replica, fact);
        }
    }

    /// Freezes up to `most` writes, by table: odd and even rows.
    pub fn freeze(&mut self, most: usize, testimony: &Testimony) -> Option<ManifestNumber> {
        if let Some(frozen) = &self.frozen {
            return Some(frozen.manifest.manifest.n);
        }
        let through = self.outbox.len().min(most);
        if through == 0 {
            return None;
        }
        let mut blobs = Vec::new();
        for parity in [0, 1] {
            let rows: Vec<u64> =
                self.outbox[..through].iter().copied().filter(|row| row % 2 == parity).collect();
            if rows.is_empty() {
                continue;
            }
            let tag = TableTag([u8::try_from(parity).unwrap() + 1; 16]);
            let head = self.own_lanes.get(&tag).copied().unwrap_or(LaneHead::EMPTY);
            let seq = Seq(head.seq.0 + 1);
            let lane = LaneKey { replica: self.own, tag };
            let hash = hash(lane, seq, &rows);
            let fact = BlobFact { lane, seq, prev: head.hash, hash, size: 100, opens: true };
            self.own_lanes.insert(tag, LaneHead { seq, hash });
            blobs.push(Blob { fact, rows });
        }
        let manifest = self.sign(testimony);
        let n = manifest.manifest.n;
        self.frozen = Some(Push { replica: self.own, blobs, manifest, through });
        Some(n)
    }

    pub fn bare(&mut self, testimony: &Testimony) -> ManifestNumber {
        if let Some(frozen) = &self.frozen {
            return frozen.manifest.manifest.n;
        }
        let manifest = self.sign(testimony);
        let n = manifest.manifest.n;
        self.frozen = Some(Push { replica: self.own, blobs: Vec::new(), manifest, through: 0 });
        n
    }

    pub fn resign(&mut self, testimony: &Testimony) -> Option<ManifestNumber> {
        let mut frozen = self.frozen.take()?;
        frozen.manifest = self.sign(testimony);
        let n = frozen.manifest.manifest.n;
        self.frozen = Some(frozen);
        Some(n)
    }

    fn sign(&mut self, testimony: &Testimony) -> ManifestFact {
        self.own_n = ManifestNumber(self.own_n.0 + 1);
        let manifest = Manifest {
            account: AccountId([0; 16]),
            app: app(),
            replica: self.own,
            n: self.own_n,
            time_ms: 0,
            lanes: self.own_lanes.clone(),
            runs: BTreeSet::new(),
            seen: testimony.seen.clone(),
            apps: BTreeSet::from([app()]),
            wants: testimony.wants.clone(),
            chain: ChainHead { index: ChainIndex(0), hash: Hash::ZERO },
        };
        let hash = manifest.hash();
        ManifestFact { manifest, hash, chain: ChainVerdict::Known }
    }

    pub fn settle(&mut self, push: &Push) {
        let current =
            self.frozen.as_ref().is_some_and(|frozen| frozen.manifest.hash == push.manifest.hash);
        if !current {
            return;
        }
        self.outbox.drain(..push.through);
        self.own_acked = self.own_acked.max(push.manifest.manifest.n);
        self.acked_lanes = self.own_lanes.clone();
        self.frozen = None;
    }

    /// A new incarnation; with `refill` every row is queued again.
    pub fn renew(&mut self, incarnation: u64, refill: bool) {
        let old = self.own;
        for (tag, head) in std::mem::take(&mut self.acked_lanes) {
            self.lanes.insert(LaneKey { replica: old, tag }, LaneState::at(head));
        }
        self.own_lanes.clear();
        self.frozen = None;
        (self.record.cursor, self.record.start) = (None, None);
        self.record.refill = false;
        self.own.incarnation = Incarnation(incarnation.to_be_bytes());
        (self.own_n, self.own_acked) = (ManifestNumber(0), ManifestNumber(0));
        if refill {
            self.record.generation = None;
            self.record.lost.extend(self.manifests.keys().copied());
            self.record.lost.insert(old);
            self.outbox = self.rows.iter().copied().collect();
        }
    }

    pub fn write(&mut self, row: u64) {
        self.rows.insert(row);
        self.outbox.push(row);
    }
}

fn hash(lane: LaneKey, seq: Seq, rows: &[u64]) -> Hash {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&lane.replica.incarnation.0);
    bytes[8] = lane.tag.0[0];
    bytes[9..17].copy_from_slice(&seq.0.to_be_bytes());
    let sum = rows.iter().fold(17_u64, |sum, row| sum.wrapping_mul(31).wrapping_add(*row));
    bytes[24..].copy_from_slice(&sum.to_be_bytes());
    Hash(bytes)
}
