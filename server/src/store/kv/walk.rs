//! Walking the log after a position: all of it, or the blobs of some tables merged in order, with
//! as little read as the caller needs.

use std::collections::{BTreeSet, VecDeque};

use tidings_kv::Scan;
use tidings_proof::{Blob, Replica};
use tidings_wire::{Position, TableTag};

use super::keys::{Place, Prefix};
use super::page::Source;
use super::records::{LogRecord, Row as _, TagRecord, damaged};
use super::{account, table};
use crate::store::{HeadersPage, HeadersRead, Refusal};

/// Rows in one read of an index.
const INDEX_ROWS: usize = 256;
/// Rows in one read of the log.
const LOG_ROWS: usize = 256;
/// Bytes in one read of the log.
const LOG_BYTES: usize = 1 << 20;

/// A blob that the walk came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) place: Place,
    /// Its author; unknown where the record is damaged.
    pub(crate) replica: Option<Replica>,
    /// Bytes of the blob.
    pub(crate) size: usize,
    /// The record, where the walk had to read it.
    pub(crate) record: Option<Stored>,
}

/// A record of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stored {
    Whole(LogRecord),
    Damaged,
}

/// A walk over the log of an app.
pub(crate) struct Walk<'a> {
    source: &'a dyn Source,
    prefix: Prefix,
    ways: Vec<Way>,
}

/// One index that is followed.
struct Way {
    table: &'static str,
    scan: Option<Scan>,
    ahead: VecDeque<Step>,
}

impl<'a> Walk<'a> {
    /// Begins after a position; `tags` restricts it to tables.
    pub(crate) fn after(
        source: &'a dyn Source,
        prefix: Prefix,
        after: Position,
        tags: Option<&BTreeSet<TableTag>>,
    ) -> Self {
        let from = Place::first(Position(after.0.saturating_add(1)));
        let end = Place { position: Position(u64::MAX), index: u16::MAX };
        let way = |table, lo: Vec<u8>, hi: Vec<u8>, rows| Way {
            table,
            scan: Some(Scan::between(&lo, &hi, rows).bytes(LOG_BYTES)),
            ahead: VecDeque::new(),
        };
        let ways = match tags {
            None => vec![way(table::LOG, prefix.log(from), prefix.log(end), LOG_ROWS)],
            Some(tags) => tags
                .iter()
                .map(|tag| {
                    let (lo, hi) = (prefix.tagged(*tag, from), prefix.tagged(*tag, end));
                    way(table::TAGS, lo, hi, INDEX_ROWS)
                })
                .collect(),
        };
        Self { source, prefix, ways }
    }

    /// The next blob in the order of the log.
    pub(crate) fn next(&mut self) -> Result<Option<Step>, Refusal> {
        for way in &mut self.ways {
            way.fill(self.source)?;
        }
        let place = |way: &Way| way.ahead.front().map(|step| step.place);
        let first = self.ways.iter_mut().filter(|way| place(way).is_some());
        let first = first.min_by_key(|way| place(way));
        Ok(first.and_then(|way| way.ahead.pop_front()))
    }

    /// The record of a step.
    pub(crate) fn record(&self, step: &mut Step) -> Result<Stored, Refusal> {
        if let Some(record) = step.record.take() {
            return Ok(record);
        }
        let key = self.prefix.log(step.place);
        let exact =
            Scan::bounds(std::ops::Bound::Included(key.clone()), std::ops::Bound::Included(key), 1);
        let row = self.source.survey(table::LOG, &exact)?.pop();
        match row {
            Some((_, value)) => Ok(stored(value)),
            None => Err(damaged("log", "the index names an entry that is not there")),
        }
    }
}

impl Way {
    fn fill(&mut self, source: &dyn Source) -> Result<(), Refusal> {
        if !self.ahead.is_empty() {
            return Ok(());
        }
        let Some(scan) = self.scan.take() else { return Ok(()) };
        let rows = source.survey(self.table, &scan)?;
        let bytes: usize =
            rows.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum();
        let last = rows.last().map(|(key, _)| key.clone());
        if let Some(last) = last.filter(|_| scan.is_full(rows.len(), bytes)) {
            self.scan = Some(scan.after(&last));
        }
        for (key, value) in rows {
            let place = Place::of_key(&key).ok_or_else(|| damaged("log entry", "bad key"))?;
            self.ahead.push_back(if self.table == table::LOG {
                log_step(place, stored(value))
            } else {
                tag_step(place, value)
            });
        }
        Ok(())
    }
}

fn log_step(place: Place, record: Stored) -> Step {
    let (replica, size) = match &record {
        Stored::Whole(record) => (
            Blob::parse(&record.blob).ok().map(|blob| blob.header().lane.replica),
            record.blob.len(),
        ),
        Stored::Damaged => (None, 0),
    };
    Step { place, replica, size, record: Some(record) }
}

/// A damaged index entry still says where its blob stands.
fn tag_step<E>(place: Place, value: Result<Vec<u8>, E>) -> Step {
    let record = value.ok().and_then(|value| TagRecord::decode(&value).ok());
    Step {
        place,
        replica: record.map(|record| record.replica),
        size: record.map_or(0, |record| record.size as usize),
        record: None,
    }
}

/// A record whose checksum failed, or that cannot be read, is an entry without bytes.
fn stored<E>(value: Result<Vec<u8>, E>) -> Stored {
    value
        .ok()
        .and_then(|value| LogRecord::decode(&value).ok())
        .map_or(Stored::Damaged, Stored::Whole)
}

/// Signed headers of one lane.
pub(crate) fn headers(source: &dyn Source, read: &HeadersRead) -> Result<HeadersPage, Refusal> {
    account::record(source, read.account)?;
    let mut page = HeadersPage { headers: Vec::new(), has_more: false };
    let Some(app) = account::app(source, read.account, &read.app)? else { return Ok(page) };
    let prefix = account::prefix(read.account, &app);
    let mut scan = Scan::prefix(&prefix.tag(read.tag), INDEX_ROWS);
    loop {
        let rows = source.range(table::TAGS, &scan)?;
        let full = scan.is_full(rows.len(), 0);
        let last = rows.last().map(|(key, _)| key.clone());
        for (key, value) in rows {
            let record = TagRecord::decode(&value)?;
            if record.replica != read.replica || record.seq < read.from {
                continue;
            }
            if page.headers.len() >= read.limit {
                page.has_more = true;
                return Ok(page);
            }
            let place = Place::of_key(&key).ok_or_else(|| damaged("tag entry", "bad key"))?;
            let Some(bytes) = source.get(table::LOG, &prefix.log(place))? else {
                return Err(damaged("log", "the index names an entry that is not there"));
            };
            let blob = LogRecord::decode(&bytes)?.blob;
            let parsed = Blob::parse(&blob).map_err(|error| damaged("blob", error))?;
            page.headers.push(parsed.signed_header().encode());
        }
        match last {
            Some(last) if full => scan = scan.after(&last),
            _ => return Ok(page),
        }
    }
}
