//! Push, pull and what goes with them: the server's log as its clients see it.
//!
//! Bodies are CBOR ([`MEDIA_TYPE`]); each struct is an array whose indexes never change meaning.
//! New fields are appended and optional, so either side may be one release ahead. Blobs, manifests
//! and run statements are opaque byte strings here; `tidings-proof` decodes and verifies them.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::ids::{
    AppId, ChainIndex, DeviceId, Epoch, Generation, Hash, Incarnation, ManifestNumber, Position,
    Seq, StartId, TableTag,
};

/// Media type of push, pull and compact bodies.
pub const MEDIA_TYPE: &str = "application/cbor";

/// The channel that carries `changed` for the account itself: chain, key ring, a new app.
pub const ACCOUNT_CHANNEL: &str = "_account";

/// `POST /api/sync/push?app_id=`: blobs and the manifest that covers them; without blobs a bare
/// manifest.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct PushRequest {
    /// The blobs in lane order, each at most [`crate::limits::BLOB`] bytes.
    #[n(0)]
    pub blobs: Vec<ByteVec>,
    /// The signed manifest, heads as after this push.
    #[n(1)]
    pub manifest: ByteVec,
}

/// The answer to a push, compact or bare manifest.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct PushResponse {
    /// The store's life.
    #[n(0)]
    pub generation: Generation,
    /// Where the push stands; none for a bare manifest.
    #[n(1)]
    pub position: Option<Position>,
    /// The last position of this app.
    #[n(2)]
    pub head: Position,
    /// The server held this push already, at `position`; nothing was appended.
    #[n(3)]
    pub already: bool,
    /// The caller's newest manifest that the server holds now.
    #[n(4)]
    pub manifest: Option<ManifestMark>,
    /// Head of the account's chain.
    #[n(5)]
    pub chain: ChainHead,
}

/// Which manifest: its number and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ManifestMark {
    /// Its number.
    #[n(0)]
    pub n: ManifestNumber,
    /// Hash of its signed bytes.
    #[n(1)]
    pub hash: Hash,
}

/// Newest manifest of one (device, incarnation) in an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ManifestHead {
    /// Whose.
    #[n(0)]
    pub device: DeviceId,
    /// Of which replica.
    #[n(1)]
    pub incarnation: Incarnation,
    /// Its number.
    #[n(2)]
    pub n: ManifestNumber,
    /// Hash of its signed bytes.
    #[n(3)]
    pub hash: Hash,
}

/// Head of a device chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ChainHead {
    /// Index of the last entry.
    #[n(0)]
    pub index: ChainIndex,
    /// Its hash.
    #[n(1)]
    pub hash: Hash,
}

/// Query of `GET /api/sync/pull`. Lists are comma separated; a missing filter passes everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PullQuery {
    /// Which app.
    pub app_id: AppId,
    /// The calling device; must be the token's.
    pub device_id: DeviceId,
    /// The calling replica; its own blobs (never runs) are left out.
    pub incarnation: Incarnation,
    /// Where the last answer ended, base64url without padding; none to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Most entries in the answer, 1 to [`crate::limits::PAGE_BLOBS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Table tags to pass, comma separated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<String>,
    /// Pass what the server received at or after this instant: RFC 3339 with an offset, or Unix
    /// milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Manifests that the caller holds, to be left out of the answer: base64url without padding of
    /// 32-byte records (device, incarnation, n big-endian), at most
    /// [`crate::limits::PULL_KNOWN_MANIFESTS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifests: Option<String>,
}

/// The answer to a pull: one consistent read of the log.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct PullResponse {
    /// The store's life. An answer of another generation than the cursor's is a [`Reset`].
    #[n(0)]
    pub generation: Generation,
    /// The store's start that the cursor is bound to.
    #[n(1)]
    pub start: StartId,
    /// Set when the cursor is of an unknown life or start; then there are no entries.
    #[n(2)]
    pub reset: Option<Reset>,
    /// Blobs and parts of runs, in the order of their positions.
    #[n(3)]
    pub entries: Vec<Entry>,
    /// Where to go on; at most [`crate::limits::CURSOR`] bytes, read by the server alone.
    #[n(4)]
    pub cursor: ByteVec,
    /// The position that the cursor stands at: everything at or below it that passes was given.
    #[n(5)]
    pub position: Position,
    /// Part inside a run at that position; 0 outside of runs.
    #[n(6)]
    pub part: u32,
    /// More entries pass the filter than this page holds.
    #[n(7)]
    pub has_more: bool,
    /// The last position of this app.
    #[n(8)]
    pub head: Position,
    /// The newest manifest of every (device, incarnation), the caller's too, whatever the filter.
    #[n(9)]
    pub manifest_heads: Vec<ManifestHead>,
    /// The signed manifests of that list that the caller did not name.
    #[n(10)]
    pub manifests: Vec<ByteVec>,
    /// With `since`: where each lane begins in what passes.
    #[n(11)]
    pub anchors: Vec<Anchor>,
    /// Head of the account's chain.
    #[n(12)]
    pub chain: ChainHead,
    /// Newest epoch.
    #[n(13)]
    pub epoch: Epoch,
    /// The server's clock, Unix milliseconds.
    #[n(14)]
    pub now_ms: u64,
}

/// The cursor cannot be followed: the store lost or replaced what it spoke of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Reset {
    /// The last position that the cursor's life and this one have in common.
    #[n(0)]
    pub common: Position,
}

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Entry {
    /// Position of the push or run that it belongs to.
    #[n(0)]
    pub position: Position,
    /// When the server received it, Unix milliseconds.
    #[n(1)]
    pub received_ms: u64,
    /// What it is.
    #[n(2)]
    pub item: Item,
}

/// What an [`Entry`] holds.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Item {
    /// A sealed blob.
    #[n(0)]
    Blob(#[n(0)] ByteVec),
    /// The signed statement that opens a run.
    #[n(1)]
    Run(#[n(0)] ByteVec),
    /// One sealed part of the run whose statement came before: its number from 1, and its bytes.
    #[n(2)]
    Part(#[n(0)] u32, #[n(1)] ByteVec),
    /// The server holds a record here that it can no longer read.
    #[n(3)]
    Damaged,
}

/// The (seq, hash) before the first blob or run of a lane that passes `since`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Anchor {
    /// Device of the lane.
    #[n(0)]
    pub device: DeviceId,
    /// Incarnation of the lane.
    #[n(1)]
    pub incarnation: Incarnation,
    /// Table of the lane.
    #[n(2)]
    pub tag: TableTag,
    /// Number of the last blob before.
    #[n(3)]
    pub seq: Seq,
    /// Its hash.
    #[n(4)]
    pub hash: Hash,
}

/// Query of `GET /api/sync/headers`: one lane, by number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadersQuery {
    /// Which app.
    pub app_id: AppId,
    /// The lane's device.
    pub device_id: DeviceId,
    /// The lane's incarnation.
    pub incarnation: Incarnation,
    /// The lane's table.
    pub tag: TableTag,
    /// First number wanted.
    #[serde(default)]
    pub from: Seq,
    /// Most headers in the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Query of `GET /api/sync/manifests`: the newest manifests of a device in all apps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestsQuery {
    /// Which device.
    pub device_id: DeviceId,
}

/// The answer to `GET /api/sync/headers`: signed headers of blobs (header, body hash, signature)
/// in lane order.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct HeadersResponse {
    /// The store's life.
    #[n(0)]
    pub generation: Generation,
    /// The signed headers.
    #[n(1)]
    pub headers: Vec<ByteVec>,
    /// More headers follow the last one.
    #[n(2)]
    pub has_more: bool,
}

/// Signed manifests: the body of `POST /api/sync/manifests`, the answer of `GET`.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Manifests {
    /// The signed manifests, of any device and app of the account.
    #[n(0)]
    pub manifests: Vec<ByteVec>,
}

/// `POST /api/sync/compact?app_id=`: swap the named entries for a run, all or nothing.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct CompactRequest {
    /// The generation that the positions belong to.
    #[n(0)]
    pub generation: Generation,
    /// The signed run statement; its parts were uploaded before.
    #[n(1)]
    pub statement: ByteVec,
    /// The author's signed manifest, which lists the run.
    #[n(2)]
    pub manifest: ByteVec,
    /// Exactly the entries that it replaces, at most [`crate::limits::COMPACT_ENTRIES`].
    #[n(3)]
    pub replaced: Vec<Replaced>,
}

/// An entry that a run replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Replaced {
    /// Where it stands.
    #[n(0)]
    pub position: Position,
    /// Its hash.
    #[n(1)]
    pub hash: Hash,
}

/// One app of an account, in the answer to `GET /api/sync/apps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppHead {
    /// The app.
    pub app_id: AppId,
    /// The last position of its log.
    pub head: Position,
}

/// The answer to `GET /api/sync/apps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppsResponse {
    /// The store's life.
    pub generation: Generation,
    /// Every app of the account, by id.
    pub apps: Vec<AppHead>,
    /// Head of the account's chain.
    pub chain: ChainHead,
}

/// Query of `GET /api/sync/subscribe`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubscribeQuery {
    /// One app, [`ACCOUNT_CHANNEL`], or `*` for all of the account.
    pub app_id: String,
    /// The calling replica: its own pushes are left out; without it those of the whole device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Incarnation>,
}

/// The answer to `GET /api/sync/status`: what a device needs to decide on compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusResponse {
    /// Bytes that count against the quota.
    pub bytes: u64,
    /// Blobs stored.
    pub blobs: u64,
    /// Most bytes allowed; none without a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Per app and tag.
    pub tables: Vec<TableUsage>,
    /// Position that each device last pulled up to.
    pub devices: Vec<DevicePull>,
}

/// What one table holds on the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableUsage {
    /// The app.
    pub app_id: AppId,
    /// The table.
    pub tag: TableTag,
    /// Blobs of it.
    pub blobs: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// How far a device has pulled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicePull {
    /// The app.
    pub app_id: AppId,
    /// The device.
    pub device_id: DeviceId,
    /// Its replica.
    pub incarnation: Incarnation,
    /// Position of its last answer.
    pub position: Position,
    /// When, Unix milliseconds.
    pub at_ms: u64,
}
