//! An engine, a clock that only tests move, and facts that are quick to write.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidings_proof::{LaneHead, Manifest, Replica};
use tidings_wire::sync::{ChainHead, ManifestHead};
use tidings_wire::{
    AccountId, AppId, ChainIndex, DeviceId, Generation, Hash, Incarnation, ManifestNumber,
    Position, Seq, StartId, TableTag,
};

use crate::*;

/// Seconds, as tests write them.
pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn app(name: &str) -> AppId {
    name.parse().unwrap()
}

/// The replica under test.
pub(crate) const OWN: Replica =
    Replica { device: DeviceId([1; 16]), incarnation: Incarnation([1; 8]) };

/// Another one.
pub(crate) fn other(byte: u8) -> Replica {
    Replica { device: DeviceId([byte; 16]), incarnation: Incarnation([byte; 8]) }
}

pub(crate) fn lane(replica: Replica, tag: u8) -> LaneKey {
    LaneKey { replica, tag: TableTag([tag; 16]) }
}

/// The hash that a lane's blob has in these tests.
pub(crate) fn hash(lane: LaneKey, seq: u64) -> Hash {
    let mut bytes = [0; 32];
    if seq > 0 {
        bytes[0] = lane.replica.device.0[0];
        bytes[1] = lane.tag.0[0];
        bytes[8..16].copy_from_slice(&seq.to_be_bytes());
    }
    Hash(bytes)
}

/// A blob that verified and opened.
pub(crate) fn blob(lane: LaneKey, seq: u64) -> BlobFact {
    let (prev, hash) = (hash(lane, seq - 1), hash(lane, seq));
    BlobFact { lane, seq: Seq(seq), prev, hash, size: 100, opens: true }
}

pub(crate) fn entry(position: u64, blob: BlobFact) -> EntryFact {
    EntryFact { position: Position(position), arrived: Arrived::Blob(blob) }
}

pub(crate) fn damaged(position: u64) -> EntryFact {
    let arrived = Arrived::Unreadable(Unreadable::Damaged);
    EntryFact { position: Position(position), arrived }
}

/// A manifest of a replica: number, and heads by tag.
pub(crate) fn manifest(replica: Replica, n: u64, heads: &[(u8, u64)]) -> ManifestFact {
    let heads = heads.iter().map(|(tag, seq)| {
        let key = lane(replica, *tag);
        (key.tag, LaneHead { seq: Seq(*seq), hash: hash(key, *seq) })
    });
    let manifest = Manifest {
        account: AccountId([0; 16]),
        app: app("notes"),
        replica,
        n: ManifestNumber(n),
        time_ms: 0,
        lanes: heads.collect(),
        runs: Default::default(),
        seen: BTreeMap::new(),
        apps: BTreeSet::from([app("notes")]),
        wants: BTreeSet::new(),
        chain: ChainHead { index: ChainIndex(0), hash: Hash::ZERO },
    };
    let hash = manifest.hash();
    ManifestFact { manifest, hash, chain: ChainVerdict::Known }
}

pub(crate) fn head_of(fact: &ManifestFact) -> ManifestHead {
    ManifestHead {
        device: fact.manifest.replica.device,
        incarnation: fact.manifest.replica.incarnation,
        n: fact.manifest.n,
        hash: fact.hash,
    }
}

/// A page that ends at the head.
pub(crate) fn page(entries: Vec<EntryFact>) -> PageFacts {
    let position = entries.iter().map(|entry| entry.position).max().unwrap_or_default();
    PageFacts {
        generation: Generation([7; 8]),
        start: StartId([7; 8]),
        reset: None,
        entries,
        cursor: position.0.to_be_bytes().to_vec(),
        position,
        part: 0,
        has_more: false,
        head: position,
        heads: Vec::new(),
        manifests: Vec::new(),
        chain: ChainVerdict::Known,
        epoch_known: true,
    }
}

/// The same with manifests, which the server shows too.
pub(crate) fn page_with(entries: Vec<EntryFact>, manifests: Vec<ManifestFact>) -> PageFacts {
    let heads = manifests.iter().map(head_of).collect();
    PageFacts { heads, manifests, ..page(entries) }
}

/// The engine and its clock.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) now: Time,
}

impl Bench {
    /// An engine that has just started, over these apps.
    pub(crate) fn cold(apps: Vec<AppStart>) -> Self {
        let now = Time::from_millis(1_000_000);
        let start = EngineStart { own: OWN, apps };
        Self { engine: Engine::new(EngineConfig::default(), 42, start, now), now }
    }

    /// One that is signed in, with the stream open and nothing left to do.
    pub(crate) fn warm(apps: Vec<AppStart>) -> Self {
        let names: Vec<AppId> = apps.iter().map(|start| start.app.clone()).collect();
        let mut bench = Self::cold(apps);
        assert_eq!(bench.orders(), [Output::SignIn]);
        bench.engine.handle_token(bench.now, secs(900));
        bench.engine.handle_stream_opened(bench.now);
        bench.engine.handle_stream_byte(bench.now);
        bench.settle(&names);
        bench
    }

    /// With the one app that most tests need.
    pub(crate) fn notes() -> Self {
        Self::warm(vec![AppStart::new(app("notes"))])
    }

    /// Answers every order for the account with these apps, and every pull with an empty page,
    /// until there is nothing left to do.
    pub(crate) fn settle(&mut self, apps: &[AppId]) {
        for _ in 0..100 {
            let orders = self.orders();
            if orders.is_empty() {
                return;
            }
            for order in orders {
                match order {
                    Output::ReadAccount => self.account(apps),
                    Output::Pull(order) => self.answer(&order, &page(Vec::new())),
                    Output::RetryQuarantine(app) => {
                        let nothing = Some(Retried::default());
                        self.engine.handle_retried(self.now, &app, nothing);
                    }
                    Output::OpenStream | Output::Alarms => {}
                    other => panic!("not expected while settling: {other:?}"),
                }
            }
        }
        panic!("the engine does not come to rest");
    }

    pub(crate) fn account(&mut self, apps: &[AppId]) {
        let facts = AccountFacts {
            chain: ChainVerdict::Known,
            chain_shorter: false,
            changed: false,
            apps: apps.iter().cloned().collect(),
        };
        self.engine.handle_account(self.now, facts);
    }

    pub(crate) fn orders(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.engine.poll_output()).collect()
    }

    /// The one pull that is ordered now.
    pub(crate) fn pull(&mut self) -> PullOrder {
        let orders = self.orders();
        let mut pulls = orders.into_iter().filter_map(|order| match order {
            Output::Pull(order) => Some(order),
            _ => None,
        });
        let order = pulls.next().expect("a pull is ordered");
        assert!(pulls.next().is_none(), "one pull");
        order
    }

    /// Judges and stores a page.
    pub(crate) fn answer(&mut self, order: &PullOrder, facts: &PageFacts) {
        if let Some(plan) = self.engine.handle_page(self.now, order, facts) {
            self.engine.handle_page_stored(self.now, plan);
        }
    }

    /// A hint, then a page in answer to the pull; gives its plan, which is stored.
    pub(crate) fn pulled(&mut self, facts: &PageFacts) -> PagePlan {
        self.engine.handle_changed(self.now, &app("notes"));
        let order = self.pull();
        let plan = self.engine.handle_page(self.now, &order, facts).expect("a plan");
        self.engine.handle_page_stored(self.now, plan.clone());
        plan
    }

    /// Lets time pass, with every timer on the way. What the server must not fall silent for is
    /// kept up by a byte a second.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        while self.now < end {
            let step = self.now.after(secs(1)).min(end);
            self.now =
                self.engine.poll_timeout(self.now).map_or(step, |at| at.max(self.now).min(step));
            if self.now < step {
                // A timer on the way; one that stands still would spin here for ever.
                self.engine.handle_timeout(self.now);
                self.now = self.now.after(Duration::from_millis(1)).min(step);
            }
            self.engine.handle_stream_byte(self.now);
            self.engine.handle_timeout(self.now);
        }
    }

    /// Lets time pass in silence; stops at the first order and gives what is ordered.
    pub(crate) fn wait(&mut self, most: Duration) -> Vec<Output> {
        let end = self.now.after(most);
        loop {
            let orders = self.orders();
            if !orders.is_empty() || self.now >= end {
                return orders;
            }
            let next = self.engine.poll_timeout(self.now).map_or(end, |at| at.min(end));
            self.now = next.max(self.now.after(Duration::from_millis(1)));
            self.engine.handle_timeout(self.now);
        }
    }

    pub(crate) fn alarms(&self) -> Vec<&'static str> {
        let name = |alarm: &Alarm| match alarm {
            Alarm::Rollback { .. } => "rollback",
            Alarm::Withheld { .. } | Alarm::ManifestWithheld { .. } => "withheld",
            Alarm::Fork { .. } => "fork",
            Alarm::AppWithheld { .. } => "app_withheld",
            Alarm::ChainRollback => "chain_rollback",
            Alarm::ChainFork => "chain_fork",
            Alarm::NoProgress { .. } => "no_progress",
        };
        self.engine.alarms().iter().map(name).collect()
    }
}

/// The indexes of entries that a plan applies.
pub(crate) fn applied(plan: &PagePlan) -> Vec<usize> {
    plan.apply
        .iter()
        .filter_map(|(_, source)| match source {
            Source::Entry(index) => Some(*index),
            Source::Staged(..) => None,
        })
        .collect()
}
