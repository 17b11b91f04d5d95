//! What the driver tells the engine about answers of the server: ids, numbers, hashes, sizes.
//!
//! The driver has verified signatures and tried to open every blob before it makes these.

use std::collections::BTreeSet;

use tidings_proof::{LaneHead, Manifest, Replica, VerifiedManifest};
use tidings_wire::sync::{ManifestHead, ManifestMark};
use tidings_wire::{AppId, Generation, Hash, Position, Seq, StartId, TableTag};

/// A lane of an app that is known from the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaneKey {
    /// Who writes it.
    pub replica: Replica,
    /// The table.
    pub tag: TableTag,
}

/// A blob whose signature was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobFact {
    /// Its lane.
    pub lane: LaneKey,
    /// Its number there.
    pub seq: Seq,
    /// Hash of the one before.
    pub prev: Hash,
    /// Its hash.
    pub hash: Hash,
    /// Its length in bytes.
    pub size: u64,
    /// Whether it opened to rows; otherwise it goes into quarantine and its lane goes on.
    pub opens: bool,
}

/// Why an entry of a page has no place that could be proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// The server serves a damaged record.
    Damaged,
    /// The bytes are malformed, or do not verify.
    Unverified,
    /// It needs a newer Tidings.
    NeedsNewer,
}

/// One entry of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryFact {
    /// Where it stands.
    pub position: Position,
    /// What came.
    pub arrived: Arrived,
}

/// What came in an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrived {
    /// A blob that verified.
    Blob(BlobFact),
    /// Anything else.
    Unreadable(Unreadable),
}

/// A manifest whose signature was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestFact {
    /// What it says.
    pub manifest: Manifest,
    /// Its hash.
    pub hash: Hash,
    /// How its chain head stands to the pinned chain.
    pub chain: ChainVerdict,
}

impl ManifestFact {
    /// Takes what was verified.
    pub fn new(verified: &VerifiedManifest, chain: ChainVerdict) -> Self {
        Self { manifest: verified.manifest().clone(), hash: verified.hash(), chain }
    }

    /// Whose it is.
    pub fn replica(&self) -> Replica {
        self.manifest.replica
    }

    /// Its number and hash.
    pub fn mark(&self) -> ManifestMark {
        ManifestMark { n: self.manifest.n, hash: self.hash }
    }

    /// The head that it states for a table.
    pub fn head(&self, tag: &TableTag) -> LaneHead {
        self.manifest.lanes.get(tag).copied().unwrap_or(LaneHead::EMPTY)
    }
}

/// How a chain head that somebody named stands to the pinned chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainVerdict {
    /// It is an entry of the pinned chain.
    Known,
    /// It is beyond the pinned chain's end: the chain must be read.
    Ahead,
    /// It contradicts the pinned chain.
    Fork,
}

/// One answer to a pull.
#[derive(Debug, Clone, PartialEq)]
pub struct PageFacts {
    /// The store's life.
    pub generation: Generation,
    /// The store's start.
    pub start: StartId,
    /// The server cannot follow the cursor; nothing else in the answer counts then but the cursor.
    pub reset: Option<Position>,
    /// The entries, in their order.
    pub entries: Vec<EntryFact>,
    /// Where to go on; empty if the server did not say.
    pub cursor: Vec<u8>,
    /// The position that the cursor stands at.
    pub position: Position,
    /// Part inside a run at that position.
    pub part: u32,
    /// More follows.
    pub has_more: bool,
    /// The app's last position.
    pub head: Position,
    /// The newest manifest of every replica, as the server says.
    pub heads: Vec<ManifestHead>,
    /// The manifests that came and verified.
    pub manifests: Vec<ManifestFact>,
    /// How the chain head of the answer stands to the pinned chain.
    pub chain: ChainVerdict,
    /// Whether the newest epoch of the answer can be opened.
    pub epoch_known: bool,
}

/// The answer to a push that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushAnswer {
    /// The store's life.
    pub generation: Generation,
    /// Where it stands; none for a manifest without blobs.
    pub position: Option<Position>,
    /// The caller's newest manifest that the server holds.
    pub manifest: Option<ManifestMark>,
    /// How the chain head of the answer stands to the pinned chain.
    pub chain: ChainVerdict,
}

/// What came of trying again to open what lies in an app's quarantine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retried {
    /// Blobs that opened: their rows are applied, and their lanes lack them no longer.
    pub opened: Vec<(LaneKey, Seq)>,
    /// Lanes that lack a blob of which no bytes are kept here.
    pub lacking: BTreeSet<LaneKey>,
}

/// What a reading of chain, key ring and app list gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountFacts {
    /// How the server's chain stood to the pinned one: `Known` if it was the same or was taken.
    pub chain: ChainVerdict,
    /// The chain is shorter than the pinned one.
    pub chain_shorter: bool,
    /// Chain or keys are others than before: what lies in quarantine may open now.
    pub changed: bool,
    /// The apps of the account, as the server says.
    pub apps: BTreeSet<AppId>,
}
