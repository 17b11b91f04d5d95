//! Freezing: a prefix of the outbox becomes a push whose bytes never change again.
//!
//! Whole local transactions, merged per row, packed per table, sealed at the end of this replica's
//! lanes, with the manifest over them; all of it stored before the first byte is sent. The outbox
//! keeps what is frozen until the server has answered.

use std::collections::{BTreeMap, BTreeSet};

use tidings_crypto::SealError;
use tidings_engine::Testimony;
use tidings_proof::{LaneHead, Manifest};
use tidings_tables::{Delta, RowId, TableName, pack};
use tidings_wire::local::LogPosition;
use tidings_wire::{AppId, Incarnation, ManifestNumber, Stamp, TableTag, limits};

use super::records::{self, FrozenPush, OwnLane, OwnRecord};
use crate::replica::outbox::{self, OutboxTx};
use crate::replica::{Replica, RowDelta, meta};
use crate::store::{Reader, StoreError, Txn};
use crate::vault::Unlocked;

/// A push that was sealed and is to be stored.
#[derive(Debug)]
pub struct Freshly {
    push: FrozenPush,
    blobs: Vec<Vec<u8>>,
    lanes: BTreeMap<TableTag, OwnLane>,
    own: OwnRecord,
    /// The greatest stamp in it.
    latest: Stamp,
    /// What the push says of rows that were written more than once: less than the replica's rows
    /// remember of what they replaced.
    merged: Vec<RowDelta>,
    /// The lanes as they were found: another freezing in between makes this one void.
    found: BTreeMap<TableTag, OwnLane>,
}

/// Why nothing could be frozen.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FreezeError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Sealing or signing.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The secret of the first epoch, of which table tags come, is not here.
    #[error("the first epoch's secret is not here")]
    NoTags,
}

/// Who freezes, and what the manifest says beside the lanes.
#[derive(Debug, Clone, Copy)]
pub struct Freezer<'a> {
    /// Keys and chain.
    pub unlocked: &'a Unlocked,
    /// The app.
    pub app: &'a AppId,
    /// This life of the replica.
    pub incarnation: Incarnation,
    /// What the manifest says of others.
    pub testimony: &'a Testimony,
    /// This computer's time, Unix milliseconds.
    pub now_ms: i64,
}

impl Freezer<'_> {
    /// Seals a prefix of the outbox of at most `max_bytes`; none if it is empty.
    ///
    /// # Errors
    /// [`FreezeError`]; nothing changed.
    pub fn freeze(
        &self,
        source: &impl Reader,
        max_bytes: usize,
    ) -> Result<Option<Freshly>, FreezeError> {
        let transactions = outbox::prefix(source, self.app, max_bytes)?;
        let Some(mut batch) = Batch::of(transactions) else { return Ok(None) };
        let found = records::own_lanes(source, self.app)?;
        let mut lanes = found.clone();
        let writer = self.unlocked.lanes(self.app, self.incarnation);
        let mut blobs = Vec::new();
        for (table, deltas) in &batch.tables {
            let tag = self.unlocked.tag(self.app, table.as_str()).ok_or(FreezeError::NoTags)?;
            let empty = OwnLane { frozen: LaneHead::EMPTY, acked: LaneHead::EMPTY };
            let lane = lanes.entry(tag).or_insert(empty);
            for body in pack(table, deltas) {
                let blob = writer.append(tag, lane.frozen, &body.bytes)?;
                lane.frozen = blob.head;
                blobs.push(blob.bytes);
            }
        }
        let own = self.next(source)?;
        let manifest = self.manifest(own.n, &lanes)?;
        let push = FrozenPush {
            incarnation: self.incarnation,
            n: own.n,
            manifest: manifest.into(),
            blobs: u32::try_from(blobs.len()).unwrap_or(u32::MAX),
            through: batch.through.0,
            at_ms: self.now_ms,
        };
        let (latest, merged) = (batch.latest, batch.merged());
        Ok(Some(Freshly { push, blobs, lanes, own, latest, merged, found }))
    }

    /// Signs a manifest over the lanes as they stand, without blobs.
    ///
    /// # Errors
    /// [`FreezeError`]; nothing changed.
    pub fn bare(&self, source: &impl Reader) -> Result<Freshly, FreezeError> {
        let found = records::own_lanes(source, self.app)?;
        let own = self.next(source)?;
        let push = FrozenPush {
            incarnation: self.incarnation,
            n: own.n,
            manifest: self.manifest(own.n, &found)?.into(),
            blobs: 0,
            through: 0,
            at_ms: self.now_ms,
        };
        let (latest, merged) = (Stamp::ZERO, Vec::new());
        Ok(Freshly { push, blobs: Vec::new(), lanes: BTreeMap::new(), own, latest, merged, found })
    }

    /// Signs a new manifest for the blobs that are frozen, in place of the old one; none if
    /// nothing is.
    ///
    /// # Errors
    /// [`FreezeError`].
    pub fn resign(&self, txn: &mut Txn<'_>) -> Result<Option<ManifestNumber>, FreezeError> {
        let Some(mut push) = records::frozen(txn, self.app)? else { return Ok(None) };
        let lanes = records::own_lanes(txn, self.app)?;
        let own = self.next(txn)?;
        push.n = own.n;
        push.manifest = self.manifest(own.n, &lanes)?.into();
        records::put_own(txn, self.app, &own)?;
        records::put_frozen(txn, self.app, &push, None)?;
        Ok(Some(own.n))
    }

    /// The own record with the next manifest's number.
    fn next(&self, source: &impl Reader) -> Result<OwnRecord, StoreError> {
        let mut own = records::own(source, self.app, self.incarnation)?;
        own.n = ManifestNumber(own.n.0.saturating_add(1));
        Ok(own)
    }

    fn manifest(
        &self,
        n: ManifestNumber,
        lanes: &BTreeMap<TableTag, OwnLane>,
    ) -> Result<Vec<u8>, FreezeError> {
        let mut apps = self.testimony.apps.clone();
        apps.insert(self.app.clone());
        let manifest = Manifest {
            account: self.unlocked.record.account,
            app: self.app.clone(),
            replica: self.unlocked.replica(self.incarnation),
            n,
            time_ms: u64::try_from(self.now_ms).unwrap_or(0),
            lanes: lanes.iter().map(|(tag, lane)| (*tag, lane.frozen)).collect(),
            runs: BTreeSet::new(),
            seen: self.testimony.seen.clone(),
            apps,
            wants: self.testimony.wants.clone(),
            chain: self.unlocked.chain.head(),
        };
        Ok(self.unlocked.sign(manifest)?.encode())
    }
}

impl Freshly {
    /// Stores it, unless something else was frozen or a new incarnation taken since it was sealed.
    /// Gives the number of the manifest of what is frozen now.
    ///
    /// # Errors
    /// The store.
    pub fn store(
        self,
        txn: &mut Txn<'_>,
        app: &AppId,
        incarnation: Incarnation,
    ) -> Result<Option<ManifestNumber>, StoreError> {
        if let Some(frozen) = records::frozen(txn, app)? {
            return Ok(Some(frozen.n));
        }
        let before = records::own(txn, app, incarnation)?;
        let current = incarnation == self.push.incarnation
            && before.n < self.push.n
            && records::own_lanes(txn, app)? == self.found;
        if !current {
            return Ok(None);
        }
        records::put_own(txn, app, &self.own)?;
        for (tag, lane) in &self.lanes {
            if self.found.get(tag) != Some(lane) {
                records::put_own_lane(txn, app, *tag, lane)?;
            }
        }
        let mut replica = Replica::identity(txn)?;
        replica.show(self.latest);
        meta::put_replica(txn, &replica)?;
        for RowDelta { table, row, delta } in &self.merged {
            Replica::remember(txn, app, table, row, delta)?;
        }
        records::put_frozen(txn, app, &self.push, Some(self.blobs))?;
        Ok(Some(self.push.n))
    }
}

/// What a server took leaves the outbox, with its lanes and its manifest noted as held.
///
/// # Errors
/// The store.
pub fn settle(
    txn: &mut Txn<'_>,
    app: &AppId,
    incarnation: Incarnation,
    n: ManifestNumber,
) -> Result<(), StoreError> {
    let Some(frozen) = records::frozen(txn, app)? else { return Ok(()) };
    if frozen.incarnation != incarnation || frozen.n != n {
        // A new incarnation was taken while the push was on its way: its rows are sent again.
        return Ok(());
    }
    if let Some(through) = frozen.through() {
        outbox::remove_through(txn, app, through)?;
    }
    let mut own = records::own(txn, app, incarnation)?;
    own.acked = own.acked.max(n);
    records::put_own(txn, app, &own)?;
    for (tag, mut lane) in records::own_lanes(txn, app)? {
        if lane.acked != lane.frozen {
            lane.acked = lane.frozen;
            records::put_own_lane(txn, app, tag, &lane)?;
        }
    }
    records::clear_frozen(txn, app)
}

/// Transactions merged per row.
struct Batch {
    tables: BTreeMap<TableName, BTreeMap<RowId, Delta>>,
    /// Rows that occur more than once.
    again: BTreeSet<(TableName, RowId)>,
    through: LogPosition,
    latest: Stamp,
}

impl Batch {
    /// Merges whole transactions, as many as one push may name tables for.
    fn of(transactions: Vec<OutboxTx>) -> Option<Self> {
        let mut batch = Self {
            tables: BTreeMap::new(),
            again: BTreeSet::new(),
            through: LogPosition(0),
            latest: Stamp::ZERO,
        };
        for transaction in transactions {
            let new = transaction.deltas.iter().filter(|d| !batch.tables.contains_key(&d.table));
            let full = batch.tables.len().saturating_add(new.count()) > MOST_TABLES;
            if full && batch.through.0 > 0 {
                break;
            }
            batch.through = transaction.position;
            for delta in transaction.deltas {
                batch.latest = batch.latest.max(delta.delta.version());
                let rows = batch.tables.entry(delta.table.clone()).or_default();
                match rows.get_mut(&delta.row) {
                    None => {
                        rows.insert(delta.row, delta.delta);
                    }
                    Some(merged) => {
                        merged.append(&delta.delta);
                        batch.again.insert((delta.table, delta.row));
                    }
                }
            }
        }
        (batch.through.0 > 0).then_some(batch)
    }

    /// Rows that were written more than once, with what the push says of them.
    fn merged(&mut self) -> Vec<RowDelta> {
        let again = std::mem::take(&mut self.again).into_iter();
        let delta = |(table, row): (TableName, RowId)| {
            let delta = self.tables.get_mut(&table)?.remove(&row)?;
            Some(RowDelta { table, row, delta })
        };
        again.filter_map(delta).collect()
    }
}

/// Most tables in one push, so that its blobs stay below the limit: each has one at least, and
/// the largest push body fills this many more.
const MOST_TABLES: usize = limits::PUSH_BLOBS - 2 * (limits::PUSH_BODY / limits::BLOB_BODY);
