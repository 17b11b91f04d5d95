//! The manifests of an app: what every replica last said, and what the server shows of it.
//!
//! A manifest is *accepted* before the entries that came with it are applied and the server is
//! *judged* by all of them once a pull has reached the head (docs/protocol.md, "Manifests").

use std::collections::{BTreeMap, BTreeSet};

use tidings_proof::{LaneHead, Replica};
use tidings_wire::sync::{ManifestHead, ManifestMark};
use tidings_wire::{AppId, Hash, ManifestNumber, TableTag, limits};

use crate::facts::{ChainVerdict, LaneKey, ManifestFact};
use crate::output::Alarm;

/// The newest manifests of one app.
#[derive(Debug, Clone)]
pub(crate) struct Book {
    app: AppId,
    known: BTreeMap<Replica, ManifestFact>,
    /// What the server must show at least, as a linked device said.
    floors: BTreeMap<Replica, ManifestMark>,
    /// What the server showed when a pull last reached the head.
    shown: BTreeMap<Replica, ManifestMark>,
    /// Number of the last manifest that this incarnation signed.
    pub(crate) own_n: ManifestNumber,
    /// Number of the newest one that came back with the signature of this replica.
    pub(crate) own_signed: ManifestNumber,
    /// Number of the last one that the server held.
    pub(crate) own_acked: ManifestNumber,
}

/// What becomes of a manifest that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acceptance {
    /// It is newer: keep it.
    Newer,
    /// It is as old as the known one, or older.
    Known,
    /// It contradicts the known one.
    Fork,
}

impl Book {
    pub(crate) fn new(
        app: AppId,
        manifests: Vec<ManifestFact>,
        floors: BTreeMap<Replica, ManifestMark>,
    ) -> Self {
        let known = manifests.into_iter().map(|fact| (fact.replica(), fact)).collect();
        let none = ManifestNumber(0);
        let (own_n, own_signed, own_acked) = (none, none, none);
        Self { app, known, floors, shown: BTreeMap::new(), own_n, own_signed, own_acked }
    }

    /// Judges one manifest by the last known one of its replica: numbers rise, heads never fall.
    pub(crate) fn weigh(&self, fact: &ManifestFact) -> Acceptance {
        let Some(known) = self.known.get(&fact.replica()) else { return Acceptance::Newer };
        if fact.manifest.n == known.manifest.n && fact.hash != known.hash {
            return Acceptance::Fork;
        }
        if fact.manifest.n <= known.manifest.n {
            return Acceptance::Known;
        }
        let falls = known.manifest.lanes.iter().any(|(tag, head)| fact.head(tag).seq < head.seq);
        if falls { Acceptance::Fork } else { Acceptance::Newer }
    }

    pub(crate) fn accept(&mut self, fact: ManifestFact) {
        self.known.insert(fact.replica(), fact);
    }

    pub(crate) fn show(&mut self, shown: BTreeMap<Replica, ManifestMark>) {
        self.shown = shown;
    }

    /// Whether the newest manifest of some replica contradicts the pinned chain.
    pub(crate) fn forks_chain(&self) -> bool {
        self.known.values().any(|fact| fact.chain == ChainVerdict::Fork)
    }

    /// Every replica of which a manifest is known.
    pub(crate) fn replicas(&self) -> BTreeSet<Replica> {
        self.known.keys().copied().collect()
    }

    /// What a manifest of ours says that it saw: of a replica of which the server lost manifests
    /// only what the server still shows, so that others are not told of what cannot be shown.
    pub(crate) fn seen(
        &self,
        own: Replica,
        lost: &BTreeSet<Replica>,
    ) -> BTreeMap<Replica, ManifestNumber> {
        let known = self.known.iter().filter(|(replica, _)| **replica != own);
        known
            .filter_map(|(replica, fact)| {
                let n = fact.manifest.n;
                if !lost.contains(replica) {
                    return Some((*replica, n));
                }
                self.shown.get(replica).map(|shown| (*replica, shown.n.min(n)))
            })
            .collect()
    }

    /// The manifests that a pull need not carry again.
    pub(crate) fn marks(&self, own: Replica) -> Vec<ManifestHead> {
        let heads = self.known.iter().map(|(replica, fact)| ManifestHead {
            device: replica.device,
            incarnation: replica.incarnation,
            n: fact.manifest.n,
            hash: fact.hash,
        });
        // The server needs not send our own back either.
        let own = ManifestHead {
            device: own.device,
            incarnation: own.incarnation,
            n: self.own_n,
            hash: Hash::ZERO,
        };
        std::iter::once(own).chain(heads).take(limits::PULL_KNOWN_MANIFESTS).collect()
    }

    /// Every lane that a manifest names, with the head it states.
    pub(crate) fn stated_heads(&self, own: Replica) -> BTreeMap<LaneKey, LaneHead> {
        let others = self.known.iter().filter(|(replica, _)| **replica != own);
        others
            .flat_map(|(replica, fact)| {
                fact.manifest
                    .lanes
                    .iter()
                    .map(|(tag, head)| (LaneKey { replica: *replica, tag: *tag }, *head))
            })
            .collect()
    }

    /// The head that a lane's author states.
    pub(crate) fn stated_head(&self, replica: Replica, tag: &TableTag) -> Option<LaneHead> {
        self.known.get(&replica).and_then(|fact| fact.manifest.lanes.get(tag)).copied()
    }

    /// Judges what the server shows against all that is known. Gives the alarms and the replicas
    /// that fall short.
    pub(crate) fn judge(
        &self,
        own: Replica,
        own_acked: ManifestNumber,
        lost: &BTreeSet<Replica>,
        apps: &BTreeSet<AppId>,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        for (replica, fact) in &self.known {
            let shown = self.shown.get(replica);
            match shown {
                Some(mark) if mark.n == fact.manifest.n && mark.hash != fact.hash => {
                    verdict.fork(&self.app, *replica);
                }
                Some(mark) if mark.n >= fact.manifest.n => {}
                _ if lost.contains(replica) => {}
                _ => verdict.rollback(&self.app, *replica),
            }
            for (seen, n) in &fact.manifest.seen {
                let held = self.shown.get(seen).map_or(ManifestNumber(0), |mark| mark.n);
                if held < *n && !lost.contains(seen) {
                    verdict.fork(&self.app, *seen);
                }
            }
            verdict.missing_apps.extend(fact.manifest.apps.difference(apps).cloned());
        }
        for (replica, mark) in &self.shown {
            let held = match self.known.get(replica) {
                _ if *replica == own => self.own_n.max(self.own_signed),
                Some(fact) => fact.manifest.n,
                None => ManifestNumber(0),
            };
            if held < mark.n {
                verdict.not_given.insert(*replica);
            }
        }
        for (replica, floor) in &self.floors {
            match self.shown.get(replica) {
                _ if lost.contains(replica) => {}
                Some(mark) if mark.n == floor.n && mark.hash != floor.hash => {
                    verdict.fork(&self.app, *replica);
                }
                Some(mark) if mark.n >= floor.n => {}
                _ => verdict.rollback(&self.app, *replica),
            }
        }
        let own_shown = self.shown.get(&own).map_or(ManifestNumber(0), |mark| mark.n);
        verdict.own_newer = self.own_signed > self.own_n;
        if own_shown < own_acked && !lost.contains(&own) {
            verdict.rollback(&self.app, own);
            verdict.own_dropped = true;
        }
        for replica in lost {
            let shown = self.shown.get(replica).map_or(ManifestNumber(0), |mark| mark.n);
            let acked = if *replica == own { own_acked } else { ManifestNumber(0) };
            let due = self.due(replica).max(acked);
            verdict.short |= shown < due;
            // Only what it said after the loss shows that it is past it: of a replica that is no
            // more, others may go on saying what nobody can show.
            if shown > due {
                verdict.level.insert(*replica);
            }
        }
        verdict
    }

    /// The newest manifest of a replica that anybody said there was.
    fn due(&self, replica: &Replica) -> ManifestNumber {
        let known = self.known.get(replica).map(|fact| fact.manifest.n);
        let seen = self.known.values().filter_map(|fact| fact.manifest.seen.get(replica).copied());
        let floor = self.floors.get(replica).map(|mark| mark.n);
        seen.chain(known).chain(floor).max().unwrap_or_default()
    }
}

/// What judging gave.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdict {
    /// What the person must learn.
    pub(crate) alarms: BTreeSet<Alarm>,
    /// Apps that manifests name and the server's list lacks.
    pub(crate) missing_apps: BTreeSet<AppId>,
    /// Replicas of which the server had lost manifests and shows newer ones by now.
    pub(crate) level: BTreeSet<Replica>,
    /// The server shows less than is known of some replica of which it lost manifests.
    pub(crate) short: bool,
    /// Replicas of which the server names a manifest that it did not give.
    pub(crate) not_given: BTreeSet<Replica>,
    /// A manifest came that another copy of this replica signed.
    pub(crate) own_newer: bool,
    /// The server shows less of ours than it took.
    pub(crate) own_dropped: bool,
}

impl Verdict {
    fn fork(&mut self, app: &AppId, replica: Replica) {
        self.alarms.insert(Alarm::Fork { app: app.clone(), replica });
    }

    fn rollback(&mut self, app: &AppId, replica: Replica) {
        self.alarms.insert(Alarm::Rollback { app: app.clone(), replica });
    }
}
