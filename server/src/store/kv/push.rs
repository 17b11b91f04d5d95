//! Pushes: repeats first, then the order of lanes, chain and manifest, all or nothing.

use std::collections::{BTreeMap, BTreeSet};

use tidings_kv::{Reader, Scan, Txn};
use tidings_proof::{LaneHead, Replica};
use tidings_wire::{Hash, Position, Seq, TableTag};

use super::account;
use super::keys::{self, Place, Prefix};
use super::records::{
    AccountRecord, AppRecord, LaneRecord, LogRecord, Row as _, TagRecord, UsageRecord, damaged,
};
use super::{KvStore, manifest, open, table};
use crate::store::{Push, Pushed, Refusal};

/// Rows in one read of an index.
const PAGE: usize = 1_000;

/// Most entries of a table that are looked through for a blob below its lane's head. Only a
/// device that lost its memory sends one; it takes a new incarnation either way.
const LOOK_BACK: usize = 200_000;

impl KvStore {
    /// Pushes; where a blob stands below its lane's head, finds out what stood there, beside the
    /// committer, because that may take a while.
    pub(super) async fn push_blobs(&self, push: Push) -> Result<Pushed, Refusal> {
        let last = push.blobs.last().map(|blob| (blob.tag, blob.seq, blob.hash));
        let (account, app, replica) =
            (push.account, push.manifest.app.clone(), push.manifest.replica);
        let below = match self.write(move |txn| append(txn, &push)).await? {
            Outcome::Pushed(pushed) => return Ok(pushed),
            Outcome::Below(tag, seq) => (tag, seq),
        };
        self.read(move |kv| {
            let Some(record) = account::app(kv, account, &app)? else {
                return Err(Refusal::LaneFork);
            };
            let prefix = account::prefix(account, &record);
            if let Some((tag, seq, hash)) = last
                && let Found::At(position, found) = find(kv, prefix, replica, tag, seq)?
                && found == hash
            {
                // A whole push from before the last one: it is there.
                return Ok(Pushed {
                    position: Some(position),
                    head: record.head,
                    already: true,
                    first_of_app: false,
                    manifest: manifest::head(kv, prefix, replica)?,
                    chain: account::record(kv, account)?.row.head,
                });
            }
            match find(kv, prefix, replica, below.0, below.1)? {
                Found::Nowhere => Err(Refusal::LaneBehind),
                Found::At(..) | Found::TooFar => Err(Refusal::LaneFork),
            }
        })
        .await
    }
}

/// What a job did with a push.
enum Outcome {
    Pushed(Pushed),
    /// This blob is below its lane's head.
    Below(TableTag, Seq),
}

/// Everything of one push that is on its way into the store.
struct Writing<'a, 'b> {
    txn: &'a mut Txn<'b>,
    push: &'a Push,
    account: AccountRecord,
    app: AppRecord,
    prefix: Prefix,
}

fn append(txn: &mut Txn<'_>, push: &Push) -> Result<Outcome, Refusal> {
    let mut account = account::record(txn, push.account)?;
    let app =
        account::app_or_new(txn, push.account, &mut account, &push.manifest.app, push.limits.apps)?;
    let first_of_app = app.head == Position(0) && !push.blobs.is_empty();
    let prefix = account::prefix(push.account, &app);
    let mut writing = Writing { txn, push, account, app, prefix };
    let pushed = |writing: &Writing<'_, '_>, position, already| -> Result<Outcome, Refusal> {
        Ok(Outcome::Pushed(Pushed {
            position,
            head: writing.app.head,
            already,
            first_of_app: first_of_app && !already,
            manifest: manifest::head(writing.txn, prefix, push.manifest.replica)?,
            chain: writing.account.row.head,
        }))
    };
    if let Some(position) = writing.repeat()? {
        writing.take_newer_manifest()?;
        return pushed(&writing, position, true);
    }
    let lanes = match writing.check_lanes()? {
        Lanes::Follow(lanes) => lanes,
        Lanes::Below(tag, seq) => return Ok(Outcome::Below(tag, seq)),
    };
    if !writing.chain_is_current() {
        return Err(Refusal::ChainMoved(writing.account.row.head));
    }
    if let Some(held) = manifest::head(writing.txn, prefix, push.manifest.replica)?
        && push.manifest.mark.n <= held.n
    {
        return Err(Refusal::ManifestBehind(held.n.0));
    }
    let position = if push.blobs.is_empty() {
        writing.write_manifest()?;
        None
    } else {
        writing.check_heads(&lanes)?;
        Some(writing.write_blobs(lanes)?)
    };
    pushed(&writing, position, false)
}

/// The lanes that a push goes on with.
type Moved = BTreeMap<TableTag, MovedLane>;

/// A lane before and after a push.
#[derive(Debug, Clone, Copy)]
struct MovedLane {
    before: Option<LaneRecord>,
    after: LaneHead,
}

enum Lanes {
    /// All blobs follow.
    Follow(Moved),
    Below(TableTag, Seq),
}

impl Writing<'_, '_> {
    fn replica(&self) -> Replica {
        self.push.manifest.replica
    }

    /// The signatures were checked against the account's chain as it is, and the manifest names it.
    fn chain_is_current(&self) -> bool {
        let head = self.account.row.head;
        self.push.chain == head && self.push.manifest.chain == head
    }

    fn lane(&self, tag: TableTag) -> Result<Option<LaneRecord>, Refusal> {
        let bytes = self.txn.get(table::LANES, &self.prefix.lane(self.replica(), tag))?;
        bytes.map(|bytes| LaneRecord::decode(&bytes)).transpose()
    }

    /// Whether this push is there already; then where. A bare manifest is there when it is the
    /// one that is held.
    fn repeat(&self) -> Result<Option<Option<Position>>, Refusal> {
        let Some(last) = self.push.blobs.last() else {
            let held = manifest::head(self.txn, self.prefix, self.replica())?;
            return Ok((held == Some(self.push.manifest.mark)).then_some(None));
        };
        let lane = self.lane(last.tag)?;
        let same = |lane: &LaneRecord| lane.head == LaneHead { seq: last.seq, hash: last.hash };
        Ok(lane.filter(same).map(|lane| Some(lane.position)))
    }

    /// With a repeat a newer manifest may come, signed after `chain_moved` had crossed with the
    /// answer that was lost. It is worth as much as a bare one.
    fn take_newer_manifest(&mut self) -> Result<(), Refusal> {
        let held = manifest::head(self.txn, self.prefix, self.replica())?;
        let newer = held.is_none_or(|held| held.n < self.push.manifest.mark.n);
        let fits = newer && self.chain_is_current() && self.check_heads(&Moved::new()).is_ok();
        if fits { self.write_manifest() } else { Ok(()) }
    }

    /// Every blob follows its lane's head.
    fn check_lanes(&self) -> Result<Lanes, Refusal> {
        let mut moved = Moved::new();
        for blob in &self.push.blobs {
            let lane = match moved.get(&blob.tag) {
                Some(lane) => *lane,
                None => {
                    let before = self.lane(blob.tag)?;
                    let after = before.map_or(LaneHead::EMPTY, |lane| lane.head);
                    MovedLane { before, after }
                }
            };
            let head = lane.after;
            if blob.seq.0 > head.seq.0.saturating_add(1) {
                return Err(Refusal::LaneGap { have: head.seq, sent: blob.seq });
            }
            if blob.seq < head.seq {
                return Ok(Lanes::Below(blob.tag, blob.seq));
            }
            if blob.seq == head.seq || blob.prev != head.hash {
                return Err(Refusal::LaneFork);
            }
            let after = LaneHead { seq: blob.seq, hash: blob.hash };
            moved.insert(blob.tag, MovedLane { after, ..lane });
        }
        Ok(Lanes::Follow(moved))
    }

    /// The manifest names its replica's lanes as they are once `moved` are in.
    fn check_heads(&self, moved: &Moved) -> Result<(), Refusal> {
        let mut named: BTreeSet<TableTag> = BTreeSet::new();
        for (tag, lane) in moved {
            if self.push.manifest.lanes.get(tag) != Some(&lane.after) {
                return Err(Refusal::ManifestHeads);
            }
            named.insert(*tag);
        }
        let below = self.prefix.replica(self.replica());
        let mut scan = Scan::prefix(&below, PAGE);
        loop {
            let rows = self.txn.range(table::LANES, &scan)?;
            let full = scan.is_full(rows.len(), 0);
            let last = rows.last().map(|(key, _)| key.clone());
            for (key, value) in rows {
                let (_, tag) = keys::lane_of(&key).ok_or_else(|| damaged("lane", "bad key"))?;
                if named.insert(tag) {
                    let head = LaneRecord::decode(&value)?.head;
                    self.check_head(tag, head)?;
                }
            }
            match last {
                Some(last) if full => scan = scan.after(&last),
                _ => break,
            }
        }
        for tag in self.push.manifest.lanes.keys().filter(|tag| !named.contains(tag)) {
            self.check_head(*tag, LaneHead::EMPTY)?;
        }
        Ok(())
    }

    /// The manifest names the head of a lane that this push does not touch. Where it names a later
    /// one, what lies between was acknowledged once, and lost: the device has to know.
    fn check_head(&self, tag: TableTag, have: LaneHead) -> Result<(), Refusal> {
        match self.push.manifest.lanes.get(&tag) {
            Some(named) if *named == have => Ok(()),
            Some(named) if named.seq > have.seq => {
                Err(Refusal::LaneGap { have: have.seq, sent: named.seq })
            }
            _ => Err(Refusal::ManifestHeads),
        }
    }

    /// Writes a manifest without blobs.
    fn write_manifest(&mut self) -> Result<(), Refusal> {
        self.put_manifest()?;
        self.app.version = open::next_number(self.txn)?;
        self.put_rows()
    }

    /// Writes blobs and manifest under the next position.
    fn write_blobs(&mut self, moved: Moved) -> Result<Position, Refusal> {
        let begun = moved.values().filter(|lane| lane.before.is_none()).count();
        self.app.lanes = self.app.lanes.saturating_add(u32::try_from(begun).unwrap_or(u32::MAX));
        if begun > 0 && u64::from(self.app.lanes) > self.push.limits.lanes {
            return Err(Refusal::Quota("tables"));
        }
        self.charge()?;
        let number = open::next_number(self.txn)?;
        let position = Position(number);
        // A clock that was set back must not make `since` miss what came later.
        let received = self.push.now.max(self.app.received);
        let mut usage: BTreeMap<TableTag, UsageRecord> = BTreeMap::new();
        // Where each lane's last blob stands by now.
        let mut last: BTreeMap<TableTag, Position> = BTreeMap::new();
        for (index, blob) in self.push.blobs.iter().enumerate() {
            let index = u16::try_from(index).map_err(|_| damaged("push", "too many blobs"))?;
            let place = Place { position, index };
            let before = match last.insert(blob.tag, position) {
                Some(before) => before,
                None => moved
                    .get(&blob.tag)
                    .and_then(|lane| lane.before)
                    .map_or(Position(0), |lane| lane.position),
            };
            let log = LogRecord::encoded(received, before, &blob.bytes);
            self.txn.put(table::LOG, self.prefix.log(place), log)?;
            let size = u32::try_from(blob.bytes.len()).unwrap_or(u32::MAX);
            let replica = self.push.manifest.replica;
            let tagged = TagRecord { replica, seq: blob.seq, hash: blob.hash, size };
            self.txn.put(table::TAGS, self.prefix.tagged(blob.tag, place), tagged.encode())?;
            let used = usage.entry(blob.tag).or_default();
            used.blobs += 1;
            used.bytes += u64::from(size);
        }
        for (tag, lane) in moved {
            let key = self.prefix.lane(self.replica(), tag);
            let record = LaneRecord { head: lane.after, position };
            self.txn.put(table::LANES, key, record.encode())?;
        }
        for (tag, added) in usage {
            let key = self.prefix.tag(tag);
            let before = match self.txn.get(table::USAGE, &key)? {
                Some(bytes) => UsageRecord::decode(&bytes)?,
                None => UsageRecord::default(),
            };
            let blobs = before.blobs.saturating_add(added.blobs);
            let bytes = before.bytes.saturating_add(added.bytes);
            self.txn.put(table::USAGE, key, UsageRecord { blobs, bytes }.encode())?;
        }
        self.put_manifest()?;
        self.app.head = position;
        self.app.received = received;
        self.app.version = number;
        self.put_rows()?;
        Ok(position)
    }

    /// Counts the push against the account's quota.
    fn charge(&mut self) -> Result<(), Refusal> {
        let sizes = self.push.blobs.iter().map(|blob| blob.bytes.len() as u64);
        let row = &mut self.account.row;
        row.bytes = row.bytes.saturating_add(sizes.sum());
        row.blobs = row.blobs.saturating_add(self.push.blobs.len() as u64);
        if self.push.limits.bytes.is_some_and(|most| row.bytes > most) {
            return Err(Refusal::Quota("bytes"));
        }
        if self.push.limits.blobs.is_some_and(|most| row.blobs > most) {
            return Err(Refusal::Quota("blobs"));
        }
        Ok(())
    }

    fn put_manifest(&mut self) -> Result<(), Refusal> {
        let manifest = (self.prefix, &self.push.manifest);
        manifest::put(self.txn, &mut self.account, &mut self.app, manifest, self.push.limits)
    }

    fn put_rows(&mut self) -> Result<(), Refusal> {
        account::put_app(self.txn, self.push.account, &self.push.manifest.app, &self.app)?;
        account::put(self.txn, self.push.account, &self.account)
    }
}

/// Where a blob of a lane stands.
enum Found {
    At(Position, Hash),
    /// It is not there: compacted away.
    Nowhere,
    /// So far back that nobody looked.
    TooFar,
}

/// Looks for a blob of a lane, newest first.
fn find(
    reader: &impl Reader,
    prefix: Prefix,
    replica: Replica,
    tag: TableTag,
    seq: Seq,
) -> Result<Found, Refusal> {
    let mut scan = Scan::prefix(&prefix.tag(tag), PAGE).reversed();
    for _ in 0..LOOK_BACK / PAGE {
        let rows = reader.range(table::TAGS, &scan)?;
        let full = scan.is_full(rows.len(), 0);
        let last = rows.last().map(|(key, _)| key.clone());
        for (key, value) in rows {
            let record = TagRecord::decode(&value)?;
            if record.replica != replica || record.seq > seq {
                continue;
            }
            let place = Place::of_key(&key).ok_or_else(|| damaged("tag entry", "bad key"))?;
            let found = record.seq == seq;
            return Ok(if found { Found::At(place.position, record.hash) } else { Found::Nowhere });
        }
        match last {
            Some(last) if full => scan = scan.after(&last),
            _ => return Ok(Found::Nowhere),
        }
    }
    Ok(Found::TooFar)
}
