//! What the sync side keeps of an app, in the store's table `sync`: keys and encodings.
//!
//! Every key is the app's name, a NUL and a letter, so that one scan reads all of an app.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use tidings_engine::{AppRecord, LaneKey, LaneState};
use tidings_proof::{LaneHead, Replica};
use tidings_wire::local::LogPosition;
use tidings_wire::sync::ManifestMark;
use tidings_wire::{
    AppId, DeviceId, Generation, Hash, Incarnation, ManifestNumber, Position, Seq, StartId,
    TableTag,
};

use crate::replica::keys;
use crate::store::{Reader, Scan, StoreError, Txn, damaged};

/// One record per app: how far it was pulled.
const RECORD: u8 = b'r';
/// Lanes of others: replica, tag → how far.
const LANE: u8 = b'l';
/// Blobs that wait for a missing one: replica, tag, seq → position, bytes.
const STAGED: u8 = b's';
/// Entries that do not verify or open: position, index → what they are.
const QUARANTINE: u8 = b'q';
/// Newest accepted manifests: replica → bytes.
const MANIFEST: u8 = b'm';
/// Own lanes: tag → head with everything frozen.
const OWN_LANE: u8 = b'o';
/// One record per app: own manifests.
const OWN: u8 = b'n';
/// One record per app: the frozen push without its blobs.
const FROZEN: u8 = b'f';
/// The frozen push's blobs: index → bytes.
const FROZEN_BLOB: u8 = b'b';

/// What a linked device said that the server must show at least: replica → n, hash.
const FLOOR: u8 = b'h';

/// One record per app: how much lies in quarantine.
const QUARANTINE_TOTAL: u8 = b't';

/// Rows read at a time.
const PAGE: usize = 512;

fn key(app: &AppId, kind: u8, rest: &[&[u8]]) -> Vec<u8> {
    let mut key = keys::app(app);
    key.push(kind);
    rest.iter().for_each(|part| key.extend_from_slice(part));
    key
}

fn lane_bytes(lane: &LaneKey) -> Vec<u8> {
    [&replica_bytes(&lane.replica)[..], &lane.tag.0].concat()
}

fn replica_bytes(replica: &Replica) -> Vec<u8> {
    [&replica.device.0[..], &replica.incarnation.0].concat()
}

fn replica_of(bytes: &[u8]) -> Option<(Replica, &[u8])> {
    let (device, rest) = bytes.split_first_chunk()?;
    let (incarnation, rest) = rest.split_first_chunk()?;
    let (device, incarnation) = (DeviceId(*device), Incarnation(*incarnation));
    Some((Replica { device, incarnation }, rest))
}

fn lane_of(bytes: &[u8]) -> Option<(LaneKey, &[u8])> {
    let (replica, rest) = replica_of(bytes)?;
    let (tag, rest) = rest.split_first_chunk()?;
    Some((LaneKey { replica, tag: TableTag(*tag) }, rest))
}

/// Reads one record.
fn read<T: for<'b> Decode<'b, ()>>(
    source: &impl Reader,
    key: &[u8],
) -> Result<Option<T>, StoreError> {
    let Some(bytes) = source.get(keys::SYNC, key)? else { return Ok(None) };
    minicbor::decode(&bytes).map(Some).map_err(|error| damaged(keys::SYNC, key, error))
}

fn write(txn: &mut Txn<'_>, key: Vec<u8>, record: &impl Encode<()>) -> Result<(), StoreError> {
    let bytes = minicbor::to_vec(record).map_err(|error| damaged(keys::SYNC, &key, error))?;
    txn.put(keys::SYNC, key, bytes)
}

/// Calls `each` with what follows the kind in the key, and the value, of every record of a kind.
fn each(
    source: &impl Reader,
    app: &AppId,
    kind: u8,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let prefix = key(app, kind, &[]);
    let mut scan = Scan::prefix(&prefix, PAGE).bytes(4 << 20);
    loop {
        let page = source.range(keys::SYNC, &scan)?;
        for (key, value) in &page {
            each(key.strip_prefix(prefix.as_slice()).unwrap_or_default(), value)?;
        }
        match page.last() {
            Some((key, _)) => scan = scan.after(key),
            None => return Ok(()),
        }
    }
}

fn clear(txn: &mut Txn<'_>, app: &AppId, kind: u8) -> Result<(), StoreError> {
    let mut found = Vec::new();
    each(txn, app, kind, |rest, _| {
        found.push(key(app, kind, &[rest]));
        Ok(())
    })?;
    found.into_iter().try_for_each(|key| txn.delete(keys::SYNC, key))
}

fn misshapen(app: &AppId, kind: u8, rest: &[u8]) -> StoreError {
    damaged(keys::SYNC, &key(app, kind, &[rest]), "a key of another shape")
}

// ---- how far an app was pulled ----------------------------------------------------------------

#[derive(Encode, Decode)]
struct StoredRecord {
    #[n(0)]
    generation: Option<Generation>,
    #[n(1)]
    start: Option<StartId>,
    #[n(2)]
    cursor: Option<ByteVec>,
    #[n(3)]
    position: Position,
    #[n(4)]
    reached: Position,
    #[n(5)]
    complete: bool,
    #[n(6)]
    lost: Vec<(DeviceId, Incarnation)>,
    #[n(7)]
    refill: bool,
}

/// How far an app was pulled; the beginning if nothing is stored.
pub fn record(source: &impl Reader, app: &AppId) -> Result<AppRecord, StoreError> {
    let Some(stored) = read::<StoredRecord>(source, &key(app, RECORD, &[]))? else {
        return Ok(AppRecord::default());
    };
    let lost = stored.lost.into_iter();
    Ok(AppRecord {
        generation: stored.generation,
        start: stored.start,
        cursor: stored.cursor.map(Into::into),
        position: stored.position,
        reached: stored.reached,
        complete: stored.complete,
        lost: lost.map(|(device, incarnation)| Replica { device, incarnation }).collect(),
        refill: stored.refill,
    })
}

/// Stores how far an app was pulled.
pub fn put_record(txn: &mut Txn<'_>, app: &AppId, record: &AppRecord) -> Result<(), StoreError> {
    let stored = StoredRecord {
        generation: record.generation,
        start: record.start,
        cursor: record.cursor.clone().map(Into::into),
        position: record.position,
        reached: record.reached,
        complete: record.complete,
        lost: record.lost.iter().map(|lost| (lost.device, lost.incarnation)).collect(),
        refill: record.refill,
    };
    write(txn, key(app, RECORD, &[]), &stored)
}

// ---- lanes of others --------------------------------------------------------------------------

#[derive(Encode, Decode)]
struct StoredLane {
    #[n(0)]
    seq: Seq,
    #[n(1)]
    hash: Option<Hash>,
    #[n(2)]
    position: Position,
    #[n(3)]
    gaps: Vec<Seq>,
}

/// The lanes of other replicas.
pub fn lanes(
    source: &impl Reader,
    app: &AppId,
) -> Result<BTreeMap<LaneKey, LaneState>, StoreError> {
    let mut lanes = BTreeMap::new();
    each(source, app, LANE, |rest, value| {
        let Some((lane, [])) = lane_of(rest) else { return Err(misshapen(app, LANE, rest)) };
        let stored: StoredLane =
            minicbor::decode(value).map_err(|error| damaged(keys::SYNC, rest, error))?;
        let StoredLane { seq, hash, position, gaps } = stored;
        lanes.insert(lane, LaneState { seq, hash, position, gaps: gaps.into_iter().collect() });
        Ok(())
    })?;
    Ok(lanes)
}

/// Stores a lane of another replica.
pub fn put_lane(
    txn: &mut Txn<'_>,
    app: &AppId,
    lane: &LaneKey,
    state: &LaneState,
) -> Result<(), StoreError> {
    let stored = StoredLane {
        seq: state.seq,
        hash: state.hash,
        position: state.position,
        gaps: state.gaps.iter().copied().collect(),
    };
    write(txn, key(app, LANE, &[&lane_bytes(lane)]), &stored)
}

/// Forgets how far the lanes of these tables are known, of every replica, with what waits in them.
pub fn forget_lanes(
    txn: &mut Txn<'_>,
    app: &AppId,
    tags: &BTreeSet<TableTag>,
) -> Result<(), StoreError> {
    for kind in [LANE, STAGED] {
        let mut found = Vec::new();
        each(txn, app, kind, |rest, _| {
            if lane_of(rest).is_some_and(|(lane, _)| tags.contains(&lane.tag)) {
                found.push(key(app, kind, &[rest]));
            }
            Ok(())
        })?;
        found.into_iter().try_for_each(|key| txn.delete(keys::SYNC, key))?;
    }
    Ok(())
}

// ---- blobs that wait --------------------------------------------------------------------------

/// A blob that waits for the one before it.
#[derive(Debug, Clone, Encode, Decode)]
pub struct StagedBlob {
    /// Where it stood.
    #[n(0)]
    pub position: Position,
    /// Its bytes.
    #[n(1)]
    pub bytes: ByteVec,
}

fn staged_key(app: &AppId, lane: &LaneKey, seq: Seq) -> Vec<u8> {
    key(app, STAGED, &[&lane_bytes(lane), &seq.0.to_be_bytes()])
}

/// Every staged blob.
pub fn staged_blobs(source: &impl Reader, app: &AppId) -> Result<Vec<StagedBlob>, StoreError> {
    let mut blobs = Vec::new();
    each(source, app, STAGED, |rest, value| {
        let blob = minicbor::decode(value).map_err(|error| damaged(keys::SYNC, rest, error))?;
        blobs.push(blob);
        Ok(())
    })?;
    Ok(blobs)
}

/// One staged blob.
pub fn staged_blob(
    source: &impl Reader,
    app: &AppId,
    lane: &LaneKey,
    seq: Seq,
) -> Result<Option<StagedBlob>, StoreError> {
    read(source, &staged_key(app, lane, seq))
}

/// Stages a blob.
pub fn stage(
    txn: &mut Txn<'_>,
    app: &AppId,
    lane: &LaneKey,
    seq: Seq,
    blob: &StagedBlob,
) -> Result<(), StoreError> {
    write(txn, staged_key(app, lane, seq), blob)
}

/// Forgets a staged blob.
pub fn unstage(txn: &mut Txn<'_>, app: &AppId, lane: &LaneKey, seq: Seq) -> Result<(), StoreError> {
    txn.delete(keys::SYNC, staged_key(app, lane, seq))
}

// ---- quarantine -------------------------------------------------------------------------------

/// An entry that did not verify or open: kept, counted, shown, tried again.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Quarantined {
    /// Its bytes; none if the server itself could not read it.
    #[n(0)]
    pub bytes: Option<ByteVec>,
    /// Its lane and number, where they are proved.
    #[n(1)]
    pub place: Option<(DeviceId, Incarnation, TableTag, Seq)>,
    /// It accounts for a hole in some lane.
    #[n(2)]
    pub explained: bool,
    /// When it came, Unix milliseconds.
    #[n(3)]
    pub at_ms: i64,
}

/// Where an entry lies in quarantine: its position, and which of those at that position.
///
/// The same entry has the same key however it was pulled, whatever else came with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuarantineKey {
    /// Where it stands on the server.
    pub position: Position,
    /// Which of the entries at that position: named by its bytes, or counted.
    pub index: u32,
}

/// Set in the index of an entry that is named by its bytes.
const BY_BYTES: u32 = 1 << 31;

impl QuarantineKey {
    /// Of an entry that has bytes.
    pub fn of(position: Position, bytes: &[u8]) -> Self {
        let hash = blake3::hash(bytes);
        let first = hash.as_bytes().first_chunk().copied().unwrap_or_default();
        Self { position, index: u32::from_be_bytes(first) | BY_BYTES }
    }

    /// Of an entry that the server itself could not read, the `count`th of those at its position.
    pub fn damaged(position: Position, count: u32) -> Self {
        Self { position, index: count & !BY_BYTES }
    }
}

fn quarantine_key(app: &AppId, at: QuarantineKey) -> Vec<u8> {
    key(app, QUARANTINE, &[&at.position.0.to_be_bytes(), &at.index.to_be_bytes()])
}

/// Everything in quarantine.
pub fn quarantine(
    source: &impl Reader,
    app: &AppId,
) -> Result<BTreeMap<QuarantineKey, Quarantined>, StoreError> {
    let mut found = BTreeMap::new();
    each(source, app, QUARANTINE, |rest, value| {
        let shape = rest.split_first_chunk().and_then(|(position, index)| {
            let index = <[u8; 4]>::try_from(index).ok()?;
            Some((u64::from_be_bytes(*position), u32::from_be_bytes(index)))
        });
        let Some((position, index)) = shape else { return Err(misshapen(app, QUARANTINE, rest)) };
        let at = QuarantineKey { position: Position(position), index };
        let entry = minicbor::decode(value).map_err(|error| damaged(keys::SYNC, rest, error))?;
        found.insert(at, entry);
        Ok(())
    })?;
    Ok(found)
}

/// Where the first entries in quarantine stand: at most `most` entries, each position once.
pub fn quarantine_positions(
    source: &impl Reader,
    app: &AppId,
    most: usize,
) -> Result<Vec<Position>, StoreError> {
    let prefix = key(app, QUARANTINE, &[]);
    let page = source.range(keys::SYNC, &Scan::prefix(&prefix, most))?;
    let mut positions = Vec::new();
    for (key, _) in &page {
        let rest = key.strip_prefix(prefix.as_slice()).unwrap_or_default();
        let (position, _) =
            rest.split_first_chunk().ok_or_else(|| misshapen(app, QUARANTINE, rest))?;
        positions.push(Position(u64::from_be_bytes(*position)));
    }
    positions.dedup();
    Ok(positions)
}

/// How much lies in quarantine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct QuarantineTotal {
    /// Entries.
    #[n(0)]
    pub entries: u64,
    /// Bytes of them that are kept.
    #[n(1)]
    pub bytes: u64,
}

/// Most bytes that are kept in an app's quarantine. What comes beyond is counted and shown, but its
/// bytes are not kept: a server must not be able to fill the disk with rubbish.
const QUARANTINE_BYTES: u64 = 64 << 20;

/// Most entries that are noted in an app's quarantine; what comes beyond is only counted.
const QUARANTINE_ENTRIES: u64 = 100_000;

/// How much lies in quarantine.
pub fn quarantine_total(source: &impl Reader, app: &AppId) -> Result<QuarantineTotal, StoreError> {
    Ok(read(source, &key(app, QUARANTINE_TOTAL, &[]))?.unwrap_or_default())
}

/// Puts an entry into quarantine, or replaces what is noted of it.
pub fn put_quarantine(
    txn: &mut Txn<'_>,
    app: &AppId,
    at: QuarantineKey,
    entry: &Quarantined,
) -> Result<(), StoreError> {
    let mut total = quarantine_total(txn, app)?;
    let key = quarantine_key(app, at);
    match read::<Quarantined>(txn, &key)? {
        Some(known) => total.bytes = total.bytes.saturating_sub(known.size()),
        None if total.entries >= QUARANTINE_ENTRIES => {
            total.entries = total.entries.saturating_add(1);
            return write(txn, self::key(app, QUARANTINE_TOTAL, &[]), &total);
        }
        None => total.entries = total.entries.saturating_add(1),
    }
    let mut entry = entry.clone();
    if total.bytes.saturating_add(entry.size()) > QUARANTINE_BYTES {
        entry.bytes = None;
    }
    total.bytes = total.bytes.saturating_add(entry.size());
    write(txn, self::key(app, QUARANTINE_TOTAL, &[]), &total)?;
    write(txn, key, &entry)
}

impl Quarantined {
    fn size(&self) -> u64 {
        self.bytes.as_ref().map_or(0, |bytes| u64::try_from(bytes.len()).unwrap_or(u64::MAX))
    }
}

/// Takes an entry out of quarantine.
pub fn delete_quarantine(
    txn: &mut Txn<'_>,
    app: &AppId,
    at: QuarantineKey,
) -> Result<(), StoreError> {
    let key = quarantine_key(app, at);
    let Some(known) = read::<Quarantined>(txn, &key)? else { return Ok(()) };
    let mut total = quarantine_total(txn, app)?;
    total.entries = total.entries.saturating_sub(1);
    total.bytes = total.bytes.saturating_sub(known.size());
    write(txn, self::key(app, QUARANTINE_TOTAL, &[]), &total)?;
    txn.delete(keys::SYNC, key)
}

// ---- manifests of others ----------------------------------------------------------------------

/// The newest accepted manifest of every other replica, as bytes.
pub fn manifests(
    source: &impl Reader,
    app: &AppId,
) -> Result<BTreeMap<Replica, Vec<u8>>, StoreError> {
    let mut found = BTreeMap::new();
    each(source, app, MANIFEST, |rest, value| {
        let Some((replica, [])) = replica_of(rest) else {
            return Err(misshapen(app, MANIFEST, rest));
        };
        found.insert(replica, value.to_vec());
        Ok(())
    })?;
    Ok(found)
}

/// Stores a manifest of another replica.
pub fn put_manifest(
    txn: &mut Txn<'_>,
    app: &AppId,
    replica: &Replica,
    bytes: &[u8],
) -> Result<(), StoreError> {
    txn.put(keys::SYNC, key(app, MANIFEST, &[&replica_bytes(replica)]), bytes)
}

/// What the server must show at least of each replica, as a linked device said.
pub fn floors(
    source: &impl Reader,
    app: &AppId,
) -> Result<BTreeMap<Replica, ManifestMark>, StoreError> {
    let mut floors = BTreeMap::new();
    each(source, app, FLOOR, |rest, value| {
        let Some((replica, [])) = replica_of(rest) else { return Err(misshapen(app, FLOOR, rest)) };
        let mark = minicbor::decode(value).map_err(|error| damaged(keys::SYNC, rest, error))?;
        floors.insert(replica, mark);
        Ok(())
    })?;
    Ok(floors)
}

/// Stores what the server must show at least of a replica.
pub fn put_floor(
    txn: &mut Txn<'_>,
    app: &AppId,
    replica: &Replica,
    mark: &ManifestMark,
) -> Result<(), StoreError> {
    write(txn, key(app, FLOOR, &[&replica_bytes(replica)]), mark)
}

/// Forgets what the server must show at least, in every app.
pub fn clear_floors(txn: &mut Txn<'_>) -> Result<(), StoreError> {
    for app in apps(txn)? {
        clear(txn, &app, FLOOR)?;
    }
    Ok(())
}

// ---- own lanes, manifests and the frozen push -------------------------------------------------

/// This replica's own state in an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct OwnRecord {
    /// The incarnation that the rest is about.
    #[n(0)]
    pub incarnation: Incarnation,
    /// Number of the last manifest that was signed.
    #[n(1)]
    pub n: ManifestNumber,
    /// Number of the last one that the server was known to hold.
    #[n(2)]
    pub acked: ManifestNumber,
}

/// This replica's own state in an app; a fresh one for an incarnation that is not the stored one.
pub fn own(
    source: &impl Reader,
    app: &AppId,
    incarnation: Incarnation,
) -> Result<OwnRecord, StoreError> {
    let stored = read::<OwnRecord>(source, &key(app, OWN, &[]))?;
    let (n, acked) = (ManifestNumber(0), ManifestNumber(0));
    let fresh = OwnRecord { incarnation, n, acked };
    Ok(stored.filter(|own| own.incarnation == incarnation).unwrap_or(fresh))
}

/// Stores this replica's own state in an app.
pub fn put_own(txn: &mut Txn<'_>, app: &AppId, own: &OwnRecord) -> Result<(), StoreError> {
    write(txn, key(app, OWN, &[]), own)
}

/// A head of an own lane: with everything frozen, and as the server has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnLane {
    /// With everything that is frozen.
    pub frozen: LaneHead,
    /// With everything that the server took.
    pub acked: LaneHead,
}

#[derive(Encode, Decode)]
struct StoredOwnLane {
    #[n(0)]
    seq: Seq,
    #[n(1)]
    hash: Hash,
    #[n(2)]
    acked_seq: Seq,
    #[n(3)]
    acked_hash: Hash,
}

/// The own lanes of the present incarnation.
pub fn own_lanes(
    source: &impl Reader,
    app: &AppId,
) -> Result<BTreeMap<TableTag, OwnLane>, StoreError> {
    let mut lanes = BTreeMap::new();
    each(source, app, OWN_LANE, |rest, value| {
        let Some(tag) = TableTag::from_slice(rest) else {
            return Err(misshapen(app, OWN_LANE, rest));
        };
        let stored: StoredOwnLane =
            minicbor::decode(value).map_err(|error| damaged(keys::SYNC, rest, error))?;
        let frozen = LaneHead { seq: stored.seq, hash: stored.hash };
        let acked = LaneHead { seq: stored.acked_seq, hash: stored.acked_hash };
        lanes.insert(tag, OwnLane { frozen, acked });
        Ok(())
    })?;
    Ok(lanes)
}

/// Stores the head of an own lane.
pub fn put_own_lane(
    txn: &mut Txn<'_>,
    app: &AppId,
    tag: TableTag,
    lane: &OwnLane,
) -> Result<(), StoreError> {
    let stored = StoredOwnLane {
        seq: lane.frozen.seq,
        hash: lane.frozen.hash,
        acked_seq: lane.acked.seq,
        acked_hash: lane.acked.hash,
    };
    write(txn, key(app, OWN_LANE, &[&tag.0]), &stored)
}

/// Forgets the own lanes, because the incarnation they belong to is over.
pub fn clear_own_lanes(txn: &mut Txn<'_>, app: &AppId) -> Result<(), StoreError> {
    clear(txn, app, OWN_LANE)
}

/// A push as it will be sent, until the server answers. Its blobs lie beside it.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct FrozenPush {
    /// The incarnation that it was frozen under.
    #[n(0)]
    pub incarnation: Incarnation,
    /// Number of its manifest.
    #[n(1)]
    pub n: ManifestNumber,
    /// The signed manifest.
    #[n(2)]
    pub manifest: ByteVec,
    /// How many blobs it has.
    #[n(3)]
    pub blobs: u32,
    /// The outbox up to here is in it; 0 for a manifest without blobs.
    #[n(4)]
    pub through: u64,
    /// When it was frozen, Unix milliseconds.
    #[n(5)]
    pub at_ms: i64,
}

impl FrozenPush {
    /// The last transaction of the outbox that is in it.
    pub fn through(&self) -> Option<LogPosition> {
        (self.through > 0).then_some(LogPosition(self.through))
    }
}

/// The frozen push, if there is one.
pub fn frozen(source: &impl Reader, app: &AppId) -> Result<Option<FrozenPush>, StoreError> {
    read(source, &key(app, FROZEN, &[]))
}

/// The frozen push's blobs, in their order.
pub fn frozen_blobs(source: &impl Reader, app: &AppId) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut blobs = Vec::new();
    each(source, app, FROZEN_BLOB, |_, value| {
        blobs.push(value.to_vec());
        Ok(())
    })?;
    Ok(blobs)
}

/// Stores a frozen push. `blobs` is none where only its manifest is another one.
pub fn put_frozen(
    txn: &mut Txn<'_>,
    app: &AppId,
    frozen: &FrozenPush,
    blobs: Option<Vec<Vec<u8>>>,
) -> Result<(), StoreError> {
    write(txn, key(app, FROZEN, &[]), frozen)?;
    for (index, blob) in (0_u32..).zip(blobs.into_iter().flatten()) {
        txn.put(keys::SYNC, key(app, FROZEN_BLOB, &[&index.to_be_bytes()]), blob)?;
    }
    Ok(())
}

/// Forgets the frozen push.
pub fn clear_frozen(txn: &mut Txn<'_>, app: &AppId) -> Result<(), StoreError> {
    txn.delete(keys::SYNC, key(app, FROZEN, &[]))?;
    clear(txn, app, FROZEN_BLOB)
}

/// Every app that the sync side keeps something of.
pub fn apps(source: &impl Reader) -> Result<BTreeSet<AppId>, StoreError> {
    let mut apps = BTreeSet::new();
    let mut scan = Scan::all(1);
    while let Some((key, _)) = source.range(keys::SYNC, &scan)?.into_iter().next() {
        let name = key.split(|byte| *byte == 0).next().unwrap_or_default();
        let app: Option<AppId> = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok());
        let app = app.ok_or_else(|| damaged(keys::SYNC, &key, "not an app's"))?;
        // The next app's keys begin above everything that begins with this one's.
        let mut end = keys::app(&app);
        end.pop();
        end.push(1);
        scan = Scan::all(1).after(&end);
        apps.insert(app);
    }
    Ok(apps)
}
