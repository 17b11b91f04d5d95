//! A page of a pull: verified and opened before anything is believed, then stored with its cursor
//! in one transaction.

use std::collections::{BTreeMap, BTreeSet};

use tidings_engine::{
    Arrived, BlobFact, ChainVerdict, EntryFact, LaneKey, ManifestFact, PageFacts, PagePlan, Source,
    Unreadable,
};
use tidings_proof::{Relation, Replica as ReplicaId, SignedManifest, VerifyError};
use tidings_tables::Body;
use tidings_wire::sync::{ChainHead, Entry, Item, PullResponse};
use tidings_wire::{AppId, DeviceId, Incarnation, Position, Seq, limits};

use super::records::{self, QuarantineKey, Quarantined, StagedBlob};
use crate::replica::{RemotePush, Replica, RowDelta};
use crate::store::{CommitError, Durability, StoreError, Txn};
use crate::vault::{NotOpened, Unlocked};

/// A page with everything that could be opened of it.
#[derive(Debug)]
pub struct OpenedPage {
    /// What the engine judges.
    pub facts: PageFacts,
    entries: Vec<OpenedEntry>,
    manifests: Vec<(ReplicaId, Vec<u8>)>,
    /// Unlinked devices of which something came that does not count.
    pub revoked: BTreeSet<DeviceId>,
}

#[derive(Debug)]
struct OpenedEntry {
    at: QuarantineKey,
    bytes: Option<Vec<u8>>,
    place: Option<(LaneKey, Seq)>,
    body: Option<Body>,
}

impl OpenedPage {
    /// The devices that stamped rows of this page more than ten minutes after `now`, with how far
    /// ahead they were at most, in milliseconds.
    pub fn ahead(&self, now: i64) -> BTreeMap<DeviceId, u64> {
        const TOLERANCE: u64 = 10 * 60 * 1_000;
        let now = u64::try_from(now).unwrap_or(0);
        let mut ahead = BTreeMap::new();
        for entry in &self.entries {
            let (Some((lane, _)), Some(body)) = (entry.place, &entry.body) else { continue };
            let stamps = body.deltas.iter().map(|(_, delta)| delta.version().millis());
            let by = stamps.max().unwrap_or(0).saturating_sub(now);
            if by > TOLERANCE {
                let most = ahead.entry(lane.replica.device).or_insert(by);
                *most = by.max(*most);
            }
        }
        ahead
    }
}

/// How a head that somebody named stands to the pinned chain.
pub fn chain_verdict(unlocked: &Unlocked, head: ChainHead) -> ChainVerdict {
    match unlocked.chain.relation(head) {
        Relation::Same | Relation::Earlier => ChainVerdict::Known,
        Relation::Later => ChainVerdict::Ahead,
        Relation::Fork => ChainVerdict::Fork,
    }
}

/// Verifies and opens every entry and manifest of an answer. Slow: not for async threads.
pub fn open_page(unlocked: &Unlocked, app: &AppId, response: PullResponse) -> OpenedPage {
    let mut entries = Vec::with_capacity(response.entries.len());
    let mut facts = Vec::with_capacity(response.entries.len());
    let mut damaged = BTreeMap::new();
    let mut revoked = BTreeSet::new();
    for Entry { position, item, .. } in response.entries {
        let at = match &item {
            Item::Blob(bytes) | Item::Run(bytes) | Item::Part(_, bytes) => {
                QuarantineKey::of(position, bytes)
            }
            Item::Damaged => {
                let count = damaged.entry(position).or_insert(0_u32);
                *count = count.saturating_add(1);
                QuarantineKey::damaged(position, *count)
            }
        };
        // What does not count of an unlinked device is as if it had not come: in its place may
        // belong something that does.
        let Some((arrived, entry)) = open_entry(unlocked, app, at, item, &mut revoked) else {
            continue;
        };
        facts.push(EntryFact { position, arrived });
        entries.push(entry);
    }
    let mut manifests = Vec::new();
    let mut manifest_facts = Vec::new();
    for bytes in response.manifests {
        let verified = SignedManifest::decode(&bytes)
            .ok()
            .filter(|signed| signed.manifest.app == *app)
            .and_then(|signed| match signed.verify(&unlocked.chain) {
                Ok(verified) => Some(verified),
                Err(VerifyError::RevokedAuthor(device)) => {
                    revoked.insert(device);
                    None
                }
                Err(_) => None,
            });
        if let Some(verified) = verified {
            let verdict = chain_verdict(unlocked, verified.manifest().chain);
            manifests.push((verified.manifest().replica, bytes.into()));
            manifest_facts.push(ManifestFact::new(&verified, verdict));
        }
    }
    let cursor: Vec<u8> = response.cursor.into();
    OpenedPage {
        facts: PageFacts {
            generation: response.generation,
            start: response.start,
            reset: response.reset.map(|reset| reset.common),
            entries: facts,
            cursor: if cursor.len() <= limits::CURSOR { cursor } else { Vec::new() },
            position: response.position,
            part: response.part,
            has_more: response.has_more,
            head: response.head,
            heads: response.manifest_heads,
            manifests: manifest_facts,
            chain: chain_verdict(unlocked, response.chain),
            // Before the lanes of unlinked devices are anchored, nothing of them can be judged:
            // that takes reading the account first, as a missing key does.
            epoch_known: unlocked.keyring.contains(response.epoch) && unlocked.is_anchored(app),
        },
        entries,
        manifests,
        revoked,
    }
}

/// Opens one entry; none if it is of an unlinked device and does not count.
fn open_entry(
    unlocked: &Unlocked,
    app: &AppId,
    at: QuarantineKey,
    item: Item,
    revoked: &mut BTreeSet<DeviceId>,
) -> Option<(Arrived, OpenedEntry)> {
    let bytes: Vec<u8> = match item {
        Item::Blob(bytes) => bytes.into(),
        // Runs come with compaction; until then they are kept for the release that reads them.
        Item::Run(bytes) | Item::Part(_, bytes) => {
            let entry = OpenedEntry { at, bytes: Some(bytes.into()), place: None, body: None };
            return Some((Arrived::Unreadable(Unreadable::NeedsNewer), entry));
        }
        Item::Damaged => {
            let entry = OpenedEntry { at, bytes: None, place: None, body: None };
            return Some((Arrived::Unreadable(Unreadable::Damaged), entry));
        }
    };
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let (header, hash, body) = match unlocked.open(app, &bytes) {
        Ok(opened) => (opened.header, opened.hash, Some(opened.body)),
        Err(NotOpened::Sealed { header, hash }) => (*header, hash, None),
        Err(error) => {
            let reason = match error {
                NotOpened::NeedsNewer => Unreadable::NeedsNewer,
                NotOpened::Revoked(device) => {
                    revoked.insert(device);
                    return None;
                }
                _ => Unreadable::Unverified,
            };
            let entry = OpenedEntry { at, bytes: Some(bytes), place: None, body: None };
            return Some((Arrived::Unreadable(reason), entry));
        }
    };
    let lane = LaneKey { replica: header.lane.replica, tag: header.lane.tag };
    let (seq, prev, opens) = (header.seq, header.prev, body.is_some());
    let fact = BlobFact { lane, seq, prev, hash, size, opens };
    let entry = OpenedEntry { at, bytes: Some(bytes), place: Some((lane, seq)), body };
    Some((Arrived::Blob(fact), entry))
}

/// The facts of a stored blob that waits, as they were when it came; none if it does not verify
/// any more.
pub fn staged_fact(
    unlocked: &Unlocked,
    app: &AppId,
    blob: &StagedBlob,
) -> Option<tidings_engine::StagedFact> {
    let at = QuarantineKey::of(blob.position, &blob.bytes);
    let item = Item::Blob(blob.bytes.clone());
    match open_entry(unlocked, app, at, item, &mut BTreeSet::new())? {
        (Arrived::Blob(fact), _) => {
            Some(tidings_engine::StagedFact { blob: fact, position: blob.position })
        }
        (Arrived::Unreadable(_), _) => None,
    }
}

/// Stores what the plan says of a page: rows, log, lanes, manifests, quarantine and cursor; unless
/// a new incarnation was taken since it was planned, which begins anew in all of these.
///
/// # Errors
/// Nothing was stored then.
pub async fn store_page(
    replica: &Replica,
    unlocked: &Unlocked,
    page: OpenedPage,
    plan: &PagePlan,
    planned_for: Incarnation,
    now_ms: i64,
) -> Result<(), CommitError<StoreError>> {
    let app = plan.app.clone();
    let OpenedPage { entries, manifests, .. } = page;
    let (waiting, settled) = read_waiting(replica, &app, plan).await?;
    let mut entries: Vec<Option<OpenedEntry>> = entries.into_iter().map(Some).collect();

    let mut pushes: Vec<(Position, RemotePush)> = Vec::new();
    for (position, source) in &plan.apply {
        let body = match source {
            Source::Entry(index) => entries
                .get_mut(*index)
                .and_then(|entry| entry.as_mut().and_then(|entry| entry.body.take())),
            // An earlier page has applied it, and the plan did not know of that yet.
            Source::Staged(lane, seq) if settled.contains(&(*lane, *seq)) => continue,
            Source::Staged(lane, seq) => waiting
                .get(&(*lane, *seq))
                .and_then(|blob| unlocked.open(&app, &blob.bytes).ok())
                .map(|opened| opened.body),
        };
        let Some(body) = body else {
            let what = "a blob that opened before does not open now".to_owned();
            return Err(CommitError::Panicked(what));
        };
        match pushes.last_mut() {
            Some((last, push)) if last == position => push.deltas.extend(deltas(body)),
            _ => {
                let push = RemotePush { deltas: deltas(body).collect(), bulk: false };
                pushes.push((*position, push));
            }
        }
    }
    let pushes = pushes.into_iter().map(|(_, push)| push).collect();
    let mut take = |index: &usize| entries.get_mut(*index).and_then(Option::take);
    let quarantined: Vec<OpenedEntry> = plan.quarantine.iter().filter_map(&mut take).collect();
    let staged: Vec<OpenedEntry> = plan.stage.iter().filter_map(&mut take).collect();
    // Sealed bytes of what is applied would only lie beside its rows.
    drop(entries);
    let accepted: Vec<(ReplicaId, Vec<u8>)> =
        plan.manifests.iter().filter_map(|index| manifests.get(*index).cloned()).collect();
    let durability = if plan.durable { Durability::Synced } else { Durability::Relaxed };
    let plan = plan.clone();
    let also_app = app.clone();
    let also = move |txn: &mut Txn<'_>| {
        let app = &also_app;
        if Replica::identity(txn)?.incarnation != planned_for {
            let reason = "this replica took a new incarnation meanwhile".into();
            return Err(StoreError::Unreadable { reason });
        }
        for entry in quarantined {
            put_quarantine(txn, app, entry, now_ms)?;
        }
        for entry in staged {
            if let (Some((lane, seq)), Some(bytes)) = (entry.place, entry.bytes) {
                let blob = StagedBlob { position: entry.at.position, bytes: bytes.into() };
                records::stage(txn, app, &lane, seq, &blob)?;
            }
        }
        settle_quarantine(txn, app, &plan)?;
        unstage(txn, app, &plan, &waiting, now_ms)?;
        for (lane, state) in &plan.lanes {
            records::put_lane(txn, app, lane, state)?;
        }
        for (replica, bytes) in &accepted {
            records::put_manifest(txn, app, replica, bytes)?;
        }
        records::put_record(txn, app, &plan.record)
    };
    replica.apply(&app, pushes, durability, also).await?;
    Ok(())
}

/// Rows of an opened body, as the replica takes them.
pub fn deltas(body: Body) -> impl Iterator<Item = RowDelta> {
    let table = body.table;
    body.deltas.into_iter().map(move |(row, delta)| RowDelta { table: table.clone(), row, delta })
}

type Waiting = BTreeMap<(LaneKey, Seq), StagedBlob>;

/// The staged blobs that the plan takes, and those of them that were taken before.
async fn read_waiting(
    replica: &Replica,
    app: &AppId,
    plan: &PagePlan,
) -> Result<(Waiting, BTreeSet<(LaneKey, Seq)>), StoreError> {
    if plan.unstage.is_empty() {
        return Ok(Default::default());
    }
    let (app, wanted) = (app.clone(), plan.unstage.clone());
    replica
        .read(move |source| {
            let (mut found, mut settled) = (Waiting::new(), BTreeSet::new());
            let lanes = records::lanes(source, &app)?;
            for (lane, seq) in wanted {
                if let Some(blob) = records::staged_blob(source, &app, &lane, seq)? {
                    found.insert((lane, seq), blob);
                } else if lanes.get(&lane).is_some_and(|known| known.seq >= seq) {
                    settled.insert((lane, seq));
                }
            }
            Ok::<_, StoreError>((found, settled))
        })
        .await
}

fn put_quarantine(
    txn: &mut Txn<'_>,
    app: &AppId,
    entry: OpenedEntry,
    now_ms: i64,
) -> Result<(), StoreError> {
    let place = entry
        .place
        .map(|(lane, seq)| (lane.replica.device, lane.replica.incarnation, lane.tag, seq));
    let bytes = entry.bytes.map(Into::into);
    let quarantined = Quarantined { bytes, place, explained: false, at_ms: now_ms };
    records::put_quarantine(txn, app, entry.at, &quarantined)
}

/// Forgets what came whole after all, and notes what explains a hole.
fn settle_quarantine(txn: &mut Txn<'_>, app: &AppId, plan: &PagePlan) -> Result<(), StoreError> {
    if plan.settled.is_empty() && plan.explained.is_empty() {
        return Ok(());
    }
    let mut explained = plan.explained.clone();
    for (at, mut entry) in records::quarantine(txn, app)? {
        let settled = entry.place.is_some_and(|(device, incarnation, tag, seq)| {
            let replica = ReplicaId { device, incarnation };
            plan.settled.contains(&(LaneKey { replica, tag }, seq))
        });
        if settled {
            records::delete_quarantine(txn, app, at)?;
        } else if entry.place.is_none()
            && !entry.explained
            && let Some(index) = explained.iter().position(|position| *position == at.position)
        {
            explained.swap_remove(index);
            entry.explained = true;
            records::put_quarantine(txn, app, at, &entry)?;
        }
    }
    Ok(())
}

/// Takes staged blobs away; some go into quarantine.
fn unstage(
    txn: &mut Txn<'_>,
    app: &AppId,
    plan: &PagePlan,
    waiting: &Waiting,
    now_ms: i64,
) -> Result<(), StoreError> {
    for (lane, seq) in &plan.unstage {
        if plan.quarantine_staged.contains(&(*lane, *seq))
            && let Some(blob) = waiting.get(&(*lane, *seq))
        {
            let at = QuarantineKey::of(blob.position, &blob.bytes);
            let bytes = Some(blob.bytes.to_vec());
            let entry = OpenedEntry { at, bytes, place: Some((*lane, *seq)), body: None };
            put_quarantine(txn, app, entry, now_ms)?;
        }
        records::unstage(txn, app, lane, *seq)?;
    }
    Ok(())
}
