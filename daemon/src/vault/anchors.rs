//! What counts of devices that were unlinked: the hashes of their lanes up to the cut.
//!
//! A device that was unlinked can still sign, and a server that works with it could serve blobs
//! that it back-dated. So nothing of such a device is shown before its lane is anchored: the
//! chain's entry names its last manifest, that names the lane's last blob, and the signed headers
//! before it lead back to what is known here. What is not among their hashes does not count.

use std::collections::BTreeMap;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use tidings_kv::Scan;
use tidings_proof::{LaneHead, Replica};
use tidings_wire::{AppId, DeviceId, Hash, Incarnation, Seq, TableTag};

use crate::replica::keys;
use crate::store::{Reader, StoreError, Txn, damaged};

/// The anchored lanes of the account's unlinked devices.
#[derive(Debug, Clone, Default)]
pub struct Anchors {
    replicas: BTreeMap<(AppId, Replica), Anchored>,
}

/// The lanes of one replica: those that the manifest of its cut names, and no others.
pub type Anchored = BTreeMap<TableTag, Anchor>;

/// One lane up to its cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    /// Number of the first blob whose hash is kept; those before it were applied before.
    pub from: Seq,
    /// The hashes from there up to the cut.
    pub hashes: Vec<Hash>,
}

/// Whether a blob of an unlinked device counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// It is one of those before the cut.
    Yes,
    /// It is beyond the cut, or in place of one before it.
    No,
    /// Its lane is not anchored yet.
    Unknown,
}

impl Anchors {
    /// Whether a blob counts.
    pub fn judge(&self, app: &AppId, replica: Replica, tag: TableTag, head: LaneHead) -> Counts {
        let Some(lanes) = self.replicas.get(&(app.clone(), replica)) else {
            return Counts::Unknown;
        };
        let Some(anchor) = lanes.get(&tag) else { return Counts::No };
        let Some(after) = head.seq.0.checked_sub(anchor.from.0) else { return Counts::Yes };
        let hash = usize::try_from(after).ok().and_then(|at| anchor.hashes.get(at));
        if hash == Some(&head.hash) { Counts::Yes } else { Counts::No }
    }

    /// Whether the lanes of a replica are anchored.
    pub fn contains(&self, app: &AppId, replica: Replica) -> bool {
        self.replicas.contains_key(&(app.clone(), replica))
    }

    /// Takes the lanes of a replica.
    pub fn insert(&mut self, app: AppId, replica: Replica, lanes: Anchored) {
        self.replicas.insert((app, replica), lanes);
    }
}

/// What the keys begin with; app, NUL, device and incarnation follow.
const ANCHORS: &[u8] = b"anchors\0";

#[derive(Encode, Decode)]
struct StoredLane {
    #[n(0)]
    tag: TableTag,
    #[n(1)]
    from: Seq,
    #[n(2)]
    hashes: ByteVec,
}

pub(super) fn read(source: &impl Reader) -> Result<Anchors, StoreError> {
    let mut anchors = Anchors::default();
    let mut scan = Scan::prefix(ANCHORS, 64);
    loop {
        let page = source.range(keys::VAULT, &scan)?;
        for (key, value) in &page {
            let (app, replica) =
                place(key).ok_or_else(|| damaged(keys::VAULT, key, "not an anchor's key"))?;
            anchors.insert(app, replica, decode(key, value)?);
        }
        match page.last() {
            Some((key, _)) => scan = scan.after(key),
            None => return Ok(anchors),
        }
    }
}

pub(super) fn write(
    txn: &mut Txn<'_>,
    app: &AppId,
    replica: Replica,
    lanes: &Anchored,
) -> Result<(), StoreError> {
    let key = [
        ANCHORS,
        app.as_str().as_bytes(),
        b"\0",
        &replica.device.0[..],
        &replica.incarnation.0[..],
    ]
    .concat();
    let lanes = lanes.iter().map(|(tag, anchor)| {
        let hashes: Vec<u8> = anchor.hashes.iter().flat_map(|hash| hash.0).collect();
        StoredLane { tag: *tag, from: anchor.from, hashes: hashes.into() }
    });
    let lanes: Vec<StoredLane> = lanes.collect();
    let bytes = minicbor::to_vec(&lanes).map_err(|error| damaged(keys::VAULT, &key, error))?;
    txn.put(keys::VAULT, key, bytes)
}

fn place(key: &[u8]) -> Option<(AppId, Replica)> {
    let rest = key.strip_prefix(ANCHORS)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let (app, rest) = rest.split_at_checked(end)?;
    let (device, rest) = rest.get(1..)?.split_first_chunk()?;
    let incarnation = Incarnation(rest.try_into().ok()?);
    let app = std::str::from_utf8(app).ok()?.parse().ok()?;
    Some((app, Replica { device: DeviceId(*device), incarnation }))
}

fn decode(key: &[u8], value: &[u8]) -> Result<Anchored, StoreError> {
    let lanes: Vec<StoredLane> =
        minicbor::decode(value).map_err(|error| damaged(keys::VAULT, key, error))?;
    let lanes = lanes.into_iter().map(|lane| {
        let (hashes, rest) = lane.hashes.as_chunks::<{ Hash::LEN }>();
        if !rest.is_empty() {
            return Err(damaged(keys::VAULT, key, "not a list of hashes"));
        }
        let hashes = hashes.iter().map(|hash| Hash(*hash)).collect();
        Ok((lane.tag, Anchor { from: lane.from, hashes }))
    });
    lanes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(seq: u64, byte: u8) -> LaneHead {
        LaneHead { seq: Seq(seq), hash: Hash([byte; 32]) }
    }

    #[test]
    fn only_the_blobs_before_the_cut_count() {
        let app: AppId = "notes".parse().unwrap();
        let other: AppId = "other".parse().unwrap();
        let replica = Replica { device: DeviceId([1; 16]), incarnation: Incarnation([2; 8]) };
        let (tag, unnamed) = (TableTag([3; 16]), TableTag([4; 16]));
        let mut anchors = Anchors::default();
        assert_eq!(anchors.judge(&app, replica, tag, head(1, 1)), Counts::Unknown);
        let hashes = vec![Hash([3; 32]), Hash([4; 32])];
        let lanes = Anchored::from([(tag, Anchor { from: Seq(3), hashes })]);
        anchors.insert(app.clone(), replica, lanes);
        for (head, counts) in [
            (head(2, 9), Counts::Yes),
            (head(3, 3), Counts::Yes),
            (head(3, 9), Counts::No),
            (head(4, 4), Counts::Yes),
            (head(5, 5), Counts::No),
            (head(u64::MAX, 5), Counts::No),
        ] {
            assert_eq!(anchors.judge(&app, replica, tag, head), counts, "{head:?}");
        }
        assert_eq!(anchors.judge(&app, replica, unnamed, head(1, 1)), Counts::No);
        assert_eq!(anchors.judge(&other, replica, tag, head(1, 1)), Counts::Unknown);
    }

    #[test]
    fn keys_and_values_read_back() {
        let app: AppId = "notes".parse().unwrap();
        let replica = Replica { device: DeviceId([0; 16]), incarnation: Incarnation([0; 8]) };
        let key = [ANCHORS, b"notes\0", &[0; 24]].concat();
        assert_eq!(place(&key), Some((app, replica)));
        for cut in 0..key.len() {
            assert_eq!(place(&key[..cut]), None, "{cut}");
        }
    }
}
