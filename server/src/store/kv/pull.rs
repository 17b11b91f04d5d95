//! Pulls: a page of the log that never ends inside a push, and the manifests that go with it, as
//! of one moment.

use tidings_kv::Scan;
use tidings_proof::Blob;
use tidings_wire::sync::{Anchor, Entry, Item, ManifestHead};
use tidings_wire::{Position, Seq};

use super::keys::{self, Place, Prefix};
use super::page::Source;
use super::records::{AppRecord, LaneRecord, LogRecord, Row as _, damaged};
use super::walk::{Step, Stored, Walk};
use super::{KvStore, account, manifest, table};
use crate::clock::Millis;
use crate::store::{Page, Pull, Refusal};

/// Blobs that one page looks at at most: the caller's own are passed over without being sent, and
/// a page of nothing else must end too.
const LOOKED_AT: usize = 20_000;
/// Their bytes.
const LOOKED_AT_BYTES: usize = 32 << 20;
/// Rows in one read of lanes.
const LANES: usize = 1_000;

impl KvStore {
    /// Reads a page.
    pub(super) async fn pull_page(&self, pull: Pull) -> Result<Page, Refusal> {
        let (account, app) = (pull.account, pull.app.clone());
        self.consistently(account, app, move |source| read(source, &pull)).await
    }
}

fn read(source: &dyn Source, pull: &Pull) -> Result<Page, Refusal> {
    let account = Some(account::record(source, pull.account)?.row);
    let Some(app) = account::app(source, pull.account, &pull.app)? else {
        return Ok(Page { account, position: pull.after, ..Page::default() });
    };
    let prefix = account::prefix(pull.account, &app);
    let mut page = Page { account, head: app.head, ..Page::default() };
    read_manifests(source, prefix, pull, &mut page)?;
    let first = match pull.since {
        None => Position(0),
        Some(since) => first_since(source, prefix, &app, since)?,
    };
    if pull.since.is_some() && pull.after == Position(0) {
        read_quiet_lanes(source, prefix, pull, first, &mut page)?;
    }
    let after = pull.after.max(Position(first.0.saturating_sub(1)));
    Reading { walk: Walk::after(source, prefix, after, pull.tags.as_ref()), pull, first }
        .entries(&app, after, &mut page)?;
    Ok(page)
}

/// All newest manifests, and those that the caller lacks.
fn read_manifests(
    source: &dyn Source,
    prefix: Prefix,
    pull: &Pull,
    page: &mut Page,
) -> Result<(), Refusal> {
    let mut bytes = 0;
    for (replica, mark) in manifest::heads(source, prefix.as_bytes())? {
        let (device, incarnation) = (replica.device, replica.incarnation);
        page.manifest_heads.push(ManifestHead { device, incarnation, n: mark.n, hash: mark.hash });
        let known = pull.known.get(&replica).is_some_and(|n| *n == mark.n.0);
        if known || bytes >= manifest::ANSWER_BYTES {
            continue;
        }
        let held = source.get(table::MANIFESTS, &prefix.replica(replica))?;
        let held = held.ok_or_else(|| damaged("manifest", "only its head is there"))?;
        bytes += held.len();
        page.manifests.push(held);
    }
    Ok(())
}

/// The first position whose push was received at or after an instant. Receive times never fall
/// along the log, so that this is a search by halves.
fn first_since(
    source: &dyn Source,
    prefix: Prefix,
    app: &AppRecord,
    since: Millis,
) -> Result<Position, Refusal> {
    let (mut low, mut high) = (0, app.head.0.saturating_add(1));
    while low < high {
        let middle = low + (high - low) / 2;
        let from = prefix.log(Place::first(Position(middle)));
        let end = prefix.log(Place { position: app.head, index: u16::MAX });
        let mut scan = Scan::between(&from, &end, 1);
        let next = loop {
            let Some((key, value)) = source.survey(table::LOG, &scan)?.pop() else { break None };
            let place = Place::of_key(&key).ok_or_else(|| damaged("log entry", "bad key"))?;
            match value.ok().and_then(|value| LogRecord::received(&value).ok()) {
                Some(received) => break Some((place.position, received)),
                // A damaged record has no time of its own; the next one's will do.
                None => scan = scan.after(&key),
            }
        };
        match next {
            Some((position, received)) if received < since => low = position.0.saturating_add(1),
            Some(_) => high = middle,
            None => high = middle,
        }
    }
    Ok(Position(low))
}

/// Anchors of the lanes that end before what passes `since`.
fn read_quiet_lanes(
    source: &dyn Source,
    prefix: Prefix,
    pull: &Pull,
    first: Position,
    page: &mut Page,
) -> Result<(), Refusal> {
    let mut scan = Scan::prefix(prefix.as_bytes(), LANES);
    loop {
        let rows = source.range(table::LANES, &scan)?;
        let full = scan.is_full(rows.len(), 0);
        let last = rows.last().map(|(key, _)| key.clone());
        for (key, value) in rows {
            let (replica, tag) = keys::lane_of(&key).ok_or_else(|| damaged("lane", "bad key"))?;
            let lane = LaneRecord::decode(&value)?;
            let asked = pull.tags.as_ref().is_none_or(|tags| tags.contains(&tag));
            if asked && replica != pull.own && lane.position < first {
                page.anchors.push(Anchor {
                    device: replica.device,
                    incarnation: replica.incarnation,
                    tag,
                    seq: lane.head.seq,
                    hash: lane.head.hash,
                });
            }
        }
        match last {
            Some(last) if full => scan = scan.after(&last),
            _ => return Ok(()),
        }
    }
}

struct Reading<'a> {
    walk: Walk<'a>,
    pull: &'a Pull,
    /// The first position that passes `since`.
    first: Position,
}

impl Reading<'_> {
    /// Fills the page push by push.
    fn entries(mut self, app: &AppRecord, after: Position, page: &mut Page) -> Result<(), Refusal> {
        page.position = after;
        let (mut looked_at, mut looked_at_bytes, mut page_bytes) = (0, 0, 0);
        let mut waiting = self.walk.next()?;
        while let Some(step) = waiting.take() {
            let position = step.place.position;
            let mut group = Vec::new();
            let mut group_bytes = 0;
            let mut next = Some(step);
            while let Some(step) = next.take() {
                if step.place.position != position {
                    waiting = Some(step);
                    break;
                }
                looked_at += 1;
                looked_at_bytes += step.size;
                if step.replica != Some(self.pull.own) {
                    group_bytes += step.size;
                    group.push(step);
                }
                next = self.walk.next()?;
            }
            let fits = page.entries.is_empty()
                || (page.entries.len() + group.len() <= self.pull.limit
                    && page_bytes + group_bytes <= self.pull.bytes);
            if !group.is_empty() && !fits {
                page.has_more = true;
                return Ok(());
            }
            page_bytes += group_bytes;
            for step in group {
                self.add(step, page)?;
            }
            page.position = position;
            if waiting.is_some() && (looked_at >= LOOKED_AT || looked_at_bytes >= LOOKED_AT_BYTES) {
                page.has_more = true;
                return Ok(());
            }
        }
        page.position = app.head.max(after);
        Ok(())
    }

    fn add(&self, mut step: Step, page: &mut Page) -> Result<(), Refusal> {
        let position = step.place.position;
        let (received, item) = match self.walk.record(&mut step)? {
            Stored::Damaged => (Millis(0), Item::Damaged),
            Stored::Whole(record) => {
                if self.pull.since.is_some() && record.before < self.first {
                    page.anchors.extend(anchor(&record));
                }
                (record.received, Item::Blob(record.blob.into()))
            }
        };
        page.entries.push(Entry { position, received_ms: received.0, item });
        Ok(())
    }
}

/// What stands before a blob in its lane; nothing before the first.
fn anchor(record: &LogRecord) -> Option<Anchor> {
    let blob = Blob::parse(&record.blob).ok()?;
    let header = blob.header();
    let before = header.seq.0.checked_sub(1).filter(|seq| *seq > 0)?;
    Some(Anchor {
        device: header.lane.replica.device,
        incarnation: header.lane.replica.incarnation,
        tag: header.lane.tag,
        seq: Seq(before),
        hash: header.prev,
    })
}
