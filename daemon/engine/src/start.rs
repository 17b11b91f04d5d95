//! What the driver restores an engine from: the records that it stored for it.

use std::collections::{BTreeMap, BTreeSet};

use tidings_proof::Replica;
use tidings_wire::sync::ManifestMark;
use tidings_wire::{AppId, Generation, ManifestNumber, Position, StartId};

use crate::facts::{BlobFact, LaneKey, ManifestFact};
use crate::lane::LaneState;

/// The state of an account at the daemon's start.
#[derive(Debug, Clone)]
pub struct EngineStart {
    /// This replica.
    pub own: Replica,
    /// Every app that is known.
    pub apps: Vec<AppStart>,
}

/// How far an app has been pulled; stored in the same transaction as the rows that came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppRecord {
    /// The server's store that the cursor speaks of.
    pub generation: Option<Generation>,
    /// The start of that store.
    pub start: Option<StartId>,
    /// Where to go on; none from the beginning.
    pub cursor: Option<Vec<u8>>,
    /// The position that the cursor stands at.
    pub position: Position,
    /// The highest position that was pulled in this life of the store.
    pub reached: Position,
    /// The pages have reached the server's head at least once in this life of the store.
    pub complete: bool,
    /// Replicas of which the server lost manifests, by its own admission: what it shows of them
    /// may be older than what is known, without alarm, until it is level again.
    pub lost: BTreeSet<Replica>,
    /// After a reset: once the head is reached, rows that the server lost are queued again.
    pub refill: bool,
}

/// A blob that waits for a missing one.
#[derive(Debug, Clone)]
pub struct StagedFact {
    /// The blob.
    pub blob: BlobFact,
    /// Where it stood.
    pub position: Position,
}

/// One app at the daemon's start.
#[derive(Debug, Clone)]
pub struct AppStart {
    /// The app.
    pub app: AppId,
    /// How far it was pulled.
    pub record: AppRecord,
    /// Its lanes.
    pub lanes: BTreeMap<LaneKey, LaneState>,
    /// What waits.
    pub staged: Vec<StagedFact>,
    /// How many quarantined entries there are that explain no hole yet, by position.
    pub unplaced: BTreeMap<Position, u32>,
    /// The newest accepted manifest of each other replica.
    pub manifests: Vec<ManifestFact>,
    /// What a linked device said, when this one was linked, that the server must show at least.
    pub floors: BTreeMap<Replica, ManifestMark>,
    /// Number of the last manifest that this incarnation signed; 0 before the first.
    pub own_n: ManifestNumber,
    /// Number of the last one that the server was known to hold.
    pub own_acked: ManifestNumber,
    /// A frozen push waits to be sent.
    pub frozen: bool,
    /// The outbox holds writes that are not frozen.
    pub outbox: bool,
}

impl AppStart {
    /// An app of which nothing is known yet.
    pub fn new(app: AppId) -> Self {
        Self {
            app,
            record: AppRecord::default(),
            lanes: BTreeMap::new(),
            staged: Vec::new(),
            unplaced: BTreeMap::new(),
            manifests: Vec::new(),
            floors: BTreeMap::new(),
            own_n: ManifestNumber(0),
            own_acked: ManifestNumber(0),
            frozen: false,
            outbox: false,
        }
    }
}
