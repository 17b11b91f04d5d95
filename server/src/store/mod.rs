//! What the server keeps, as one narrow trait: accounts, chains, key rings, the log, invites.
//!
//! Handlers verify everything before they call; an implementation checks only what must be
//! decided in one transaction with the write (order of lanes, heads, cuts, quotas). Every change
//! is durable before a call answers. `kv` is the embedded implementation; one conformance suite
//! (`server/tests/store.rs`) runs over all.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidings_proof::entry::Cut;
use tidings_proof::{LaneHead, Replica};
use tidings_wire::sync::{
    Anchor, AppHead, ChainHead, DevicePull, Entry, ManifestHead, ManifestMark, TableUsage,
};
use tidings_wire::{AccountId, AppId, DeviceId, Epoch, Hash, Position, Seq, TableTag};

use crate::clock::Millis;
use crate::cursor::Timeline;

pub mod kv;

/// What every call of a store answers.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, Refusal>> + Send + 'a>>;

/// The storage of a server.
pub trait Store: Send + Sync + 'static {
    /// The secret half of the server's token key.
    fn token_key(&self) -> &[u8; 32];

    /// The store's lives and starts.
    fn timeline(&self) -> &Timeline;

    /// Creates an account with its genesis and first wraps; uses the invite up in the same
    /// transaction.
    fn create_account(&self, new: NewAccount) -> Reply<'_, ()>;

    /// Removes an account with all its bytes.
    fn delete_account(&self, account: AccountId) -> Reply<'_, ()>;

    /// The state of an account.
    fn account(&self, account: AccountId) -> Reply<'_, AccountRow>;

    /// Entries of a chain from an index on, at most `limit`, with the chain's head.
    fn chain(&self, account: AccountId, from: u64, limit: usize) -> Reply<'_, ChainPage>;

    /// Appends an entry that was verified against `append.before`, with its wraps and secret.
    fn append_chain(&self, append: ChainAppend) -> Reply<'_, ()>;

    /// Every epoch of an account, with the wrap to a device.
    fn keyring(&self, account: AccountId, device: DeviceId) -> Reply<'_, Vec<EpochRow>>;

    /// Appends blobs and their manifest, or a manifest alone.
    fn push(&self, push: Push) -> Reply<'_, Pushed>;

    /// Reads a page of an app's log, all of it at one moment.
    fn pull(&self, pull: Pull) -> Reply<'_, Page>;

    /// Reads signed headers of one lane, or of the whole log after a position.
    fn headers(&self, headers: HeadersRead) -> Reply<'_, HeadersPage>;

    /// The newest manifests of a device in all apps.
    fn manifests(&self, account: AccountId, device: DeviceId) -> Reply<'_, Vec<Vec<u8>>>;

    /// Puts back manifests that are newer than those held and were verified against the chain that
    /// ends at `chain`; answers how many were taken.
    fn put_manifests(
        &self,
        account: AccountId,
        chain: ChainHead,
        manifests: Vec<NewManifest>,
        limits: PushLimits,
    ) -> Reply<'_, usize>;

    /// The apps of an account with their heads.
    fn apps(&self, account: AccountId) -> Reply<'_, Vec<AppHead>>;

    /// What an account keeps and who has pulled how far.
    fn usage(&self, account: AccountId) -> Reply<'_, Usage>;

    /// Notes how far a replica has pulled. Not waited for, and not always written at once.
    fn note_pull(&self, account: AccountId, pull: DevicePull);

    /// Adds an invite.
    fn add_invite(&self, code: Hash, invite: Invite) -> Reply<'_, ()>;

    /// Every invite that was not used and has not expired before `now`.
    fn invites(&self, now: Millis) -> Reply<'_, Vec<(Hash, Invite)>>;

    /// Removes the invites whose code begins so; answers how many there were.
    fn revoke_invites(&self, prefix: Vec<u8>) -> Reply<'_, usize>;

    /// Gives space back to the disk. The rest goes on meanwhile, on redb with a pause.
    fn compact(&self) -> Reply<'_, Compacted>;

    /// The room that it takes, and how far a compaction is.
    fn room(&self) -> Reply<'_, Room>;

    /// Whether reads and writes work now.
    fn ready(&self) -> Reply<'_, ()>;

    /// Finishes what was begun and lets go of the files.
    fn close(&self) -> Reply<'_, ()>;
}

/// A store that is shared by everything in the server.
pub type SharedStore = Arc<dyn Store>;

/// Why a store does not do what was asked. Nothing was changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The storage itself failed.
    #[error(transparent)]
    Fault(#[from] StoreFault),
    /// No such account.
    #[error("no such account")]
    NoAccount,
    /// The account exists and is in use.
    #[error("the account exists")]
    AccountExists,
    /// An invite is needed.
    #[error("an invite is needed")]
    InviteRequired,
    /// The invite does not exist (any more).
    #[error("the invite is not valid")]
    InviteInvalid,
    /// The chain's head is another one.
    #[error("the chain's head is {}", .0.index)]
    ChainMoved(ChainHead),
    /// The chain has as many entries, or bytes, as it may.
    #[error("the chain is as long as it may be")]
    ChainFull,
    /// A cut does not name the newest manifests.
    #[error("a cut does not name the newest manifests")]
    CutMoved,
    /// Another blob stands at this place.
    #[error("another blob stands at this place of the lane")]
    LaneFork,
    /// Blobs before these are missing.
    #[error("the lane ends at {have}, the push begins at {sent}")]
    LaneGap {
        /// Last number of the lane.
        have: Seq,
        /// First number in the push.
        sent: Seq,
    },
    /// The place was compacted away.
    #[error("the lane has gone on past these blobs")]
    LaneBehind,
    /// The manifest is not newer than this one.
    #[error("manifest {0} is held")]
    ManifestBehind(u64),
    /// The manifest's heads are not those of its lanes.
    #[error("the manifest does not name its lanes' heads")]
    ManifestHeads,
    /// A quota is used up.
    #[error("the quota of {0} is used up")]
    Quota(&'static str),
    /// No space was given back; nothing was changed.
    #[error("the store was not compacted: {0}")]
    NotCompacted(String),
}

/// The storage itself failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreFault {
    /// The disk is full; nothing was changed.
    #[error("the disk is full")]
    Full,
    /// Too many writes wait; nothing was changed.
    #[error("the store is busy")]
    Busy,
    /// The storage does not answer, or nobody knows whether it wrote. Asking again is safe.
    #[error("the store does not answer: {0}")]
    Unavailable(String),
    /// Stored bytes are not what was written.
    #[error("the store is damaged: {0}")]
    Damaged(String),
}

/// A new account, verified.
#[derive(Debug, Clone)]
pub struct NewAccount {
    /// Its id.
    pub account: AccountId,
    /// The genesis entry as it was sent.
    pub genesis: Vec<u8>,
    /// The genesis' hash.
    pub head: ChainHead,
    /// Wraps of epoch 0.
    pub wraps: Vec<(DeviceId, Vec<u8>)>,
    /// Hash of the invite code; whether one is needed is `invite_needed`.
    pub invite: Option<Hash>,
    /// Whether an invite is needed.
    pub invite_needed: bool,
    /// Now.
    pub now: Millis,
}

/// The state of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountRow {
    /// Head of its chain.
    pub head: ChainHead,
    /// Its newest epoch.
    pub epoch: Epoch,
    /// When it was created.
    pub created: Millis,
    /// Whether the operator suspended it.
    pub suspended: bool,
    /// Bytes that count against the quota.
    pub bytes: u64,
    /// Blobs stored.
    pub blobs: u64,
}

/// Entries of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainPage {
    /// The entries as they were sent.
    pub entries: Vec<Vec<u8>>,
    /// The head of the whole chain.
    pub head: ChainHead,
}

/// An entry to append, verified against the chain that ends at `before`.
#[derive(Debug, Clone)]
pub struct ChainAppend {
    /// The account.
    pub account: AccountId,
    /// The head that it follows.
    pub before: ChainHead,
    /// The head afterwards.
    pub after: ChainHead,
    /// The entry as it was sent.
    pub entry: Vec<u8>,
    /// The newest epoch afterwards.
    pub epoch: Epoch,
    /// Wraps of that epoch.
    pub wraps: Vec<(DeviceId, Vec<u8>)>,
    /// The earlier secret sealed under it, where the entry starts it.
    pub earlier: Option<Vec<u8>>,
    /// The devices that it revokes, and the manifests that it names as their last.
    pub revoked: BTreeSet<DeviceId>,
    /// As above.
    pub cuts: BTreeSet<Cut>,
    /// Most entries of a chain; one that revokes may go beyond.
    pub most: u64,
    /// Most bytes of a chain with its key ring; one that revokes may go beyond.
    pub most_bytes: u64,
}

/// One epoch of a key ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochRow {
    /// Its number.
    pub epoch: Epoch,
    /// The wrap to the asking device.
    pub wrap: Option<Vec<u8>>,
    /// The earlier epoch's secret sealed under it.
    pub earlier: Option<Vec<u8>>,
}

/// A blob whose signature was checked.
#[derive(Debug, Clone)]
pub struct NewBlob {
    /// Its table.
    pub tag: TableTag,
    /// Its place in the lane.
    pub seq: Seq,
    /// Hash of the blob before.
    pub prev: Hash,
    /// Its hash.
    pub hash: Hash,
    /// The whole blob, a slice of the request's body.
    pub bytes: Bytes,
}

/// A manifest whose signature was checked.
#[derive(Debug, Clone)]
pub struct NewManifest {
    /// Its app.
    pub app: AppId,
    /// Its author.
    pub replica: Replica,
    /// Its number and hash.
    pub mark: ManifestMark,
    /// Its lanes' heads.
    pub lanes: BTreeMap<TableTag, LaneHead>,
    /// The head of the chain that it names.
    pub chain: ChainHead,
    /// The whole manifest.
    pub bytes: Vec<u8>,
}

/// Blobs and their manifest, verified against the chain that ends at `chain`.
#[derive(Debug, Clone)]
pub struct Push {
    /// The account.
    pub account: AccountId,
    /// The head of the chain that the signatures were checked against.
    pub chain: ChainHead,
    /// The blobs; each lane's in order.
    pub blobs: Vec<NewBlob>,
    /// The manifest; app and replica are the push's.
    pub manifest: NewManifest,
    /// Now.
    pub now: Millis,
    /// What the account may keep.
    pub limits: PushLimits,
}

/// What a push may not exceed.
#[derive(Debug, Clone, Copy)]
pub struct PushLimits {
    /// Most bytes of the account.
    pub bytes: Option<u64>,
    /// Most blobs of the account.
    pub blobs: Option<u64>,
    /// Most apps of the account.
    pub apps: u64,
    /// Most lanes of the app.
    pub lanes: u64,
    /// Most replicas of the app.
    pub replicas: u64,
}

/// What a push did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// Where it stands; none for a bare manifest.
    pub position: Option<Position>,
    /// The app's last position.
    pub head: Position,
    /// It was there already.
    pub already: bool,
    /// It was the app's first with blobs.
    pub first_of_app: bool,
    /// The caller's newest manifest that is held now.
    pub manifest: Option<ManifestMark>,
    /// The chain's head.
    pub chain: ChainHead,
}

/// A page to read.
#[derive(Debug, Clone)]
pub struct Pull {
    /// The account.
    pub account: AccountId,
    /// The app.
    pub app: AppId,
    /// Whose blobs are left out.
    pub own: Replica,
    /// Everything at or below was given.
    pub after: Position,
    /// Which tables; `None` is all.
    pub tags: Option<BTreeSet<TableTag>>,
    /// Only what was received at or after.
    pub since: Option<Millis>,
    /// Most blobs, unless one push holds more.
    pub limit: usize,
    /// Target bytes, unless one push is larger.
    pub bytes: usize,
    /// Manifests that the caller holds.
    pub known: BTreeMap<Replica, u64>,
}

/// A page of the log and what goes with it, all at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The entries in order.
    pub entries: Vec<Entry>,
    /// Everything at or below that passes was given.
    pub position: Position,
    /// There is more.
    pub has_more: bool,
    /// The app's last position.
    pub head: Position,
    /// The newest manifest of every replica.
    pub manifest_heads: Vec<ManifestHead>,
    /// Those that the caller lacks.
    pub manifests: Vec<Vec<u8>>,
    /// With `since`: where lanes begin in what passes.
    pub anchors: Vec<Anchor>,
    /// The chain's head and newest epoch.
    pub account: Option<AccountRow>,
}

/// Headers to read.
#[derive(Debug, Clone)]
pub struct HeadersRead {
    /// The account.
    pub account: AccountId,
    /// The app.
    pub app: AppId,
    /// Which lane, and from which number on.
    pub replica: Replica,
    /// As above.
    pub tag: TableTag,
    /// As above.
    pub from: Seq,
    /// Most headers.
    pub limit: usize,
}

/// Headers in lane order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadersPage {
    /// Whole blobs' signed headers.
    pub headers: Vec<Vec<u8>>,
    /// More follow.
    pub has_more: bool,
}

/// What an account keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The account.
    pub account: AccountRow,
    /// Per app and table.
    pub tables: Vec<TableUsage>,
    /// How far replicas have pulled.
    pub pulls: Vec<DevicePull>,
}

/// An invite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invite {
    /// When it was made.
    pub created: Millis,
    /// When it ends.
    pub expires: Millis,
    /// What the operator noted beside it.
    pub note: String,
}

/// What a compaction did; bytes on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacted {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
    /// Bytes of keys and values in it, where the engine keeps count.
    pub live: Option<u64>,
}

/// The room that a store takes; bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// On disk.
    pub disk: u64,
    /// Of keys and values, where the engine keeps count.
    pub live: Option<u64>,
    /// Of keys and values that a compaction under way has copied; none where none is under way.
    pub copied: Option<u64>,
}
