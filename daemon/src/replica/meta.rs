//! The small records beside the rows: of the replica, of each app and of each table.

use minicbor::{Decode, Encode};
use tidings_tables::TableName;
use tidings_wire::local::LogPosition;
use tidings_wire::{AppId, Incarnation, Stamp};

use super::keys;
use crate::store::{Reader, Scan, StoreError, Txn, damaged};

/// How many positions an app reserves at a time.
pub const RESERVE: u64 = 1 << 20;
/// Most lost stretches that are remembered apart.
const LOST: usize = 64;

/// The replica: who it is and the last stamp that it gave or saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ReplicaRecord {
    /// This life of the replica.
    #[n(0)]
    pub incarnation: Incarnation,
    /// The greatest stamp given or seen.
    #[n(1)]
    pub last_stamp: Stamp,
    /// The greatest stamp that others know: received from them, or frozen to be sent.
    #[n(2)]
    pub shown: Option<Stamp>,
}

impl ReplicaRecord {
    /// The greatest stamp that others know.
    pub fn shown(&self) -> Stamp {
        self.shown.unwrap_or(Stamp::ZERO)
    }

    /// Notes a stamp that others know.
    pub fn show(&mut self, stamp: Stamp) {
        self.shown = Some(self.shown().max(stamp));
    }
}

/// One app: where its log stands and what is in it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct AppRecord {
    /// The last position given.
    #[n(0)]
    pub head: u64,
    /// Positions up to here may have been given, also in commits that the disk lost.
    #[n(1)]
    pub reserve: u64,
    /// The last position that was trimmed away.
    #[n(2)]
    pub floor: u64,
    /// Entries in the log.
    #[n(3)]
    pub log_entries: u64,
    /// Bytes of these.
    #[n(4)]
    pub log_bytes: u64,
    /// Transactions in the outbox.
    #[n(5)]
    pub pending: u64,
    /// Every own change at or below this is on the server.
    #[n(6)]
    pub pushed: u64,
    /// Stretches of positions, first and last, whose changes an unclean stop may have lost.
    #[n(7)]
    pub lost: Vec<(u64, u64)>,
}

impl AppRecord {
    /// A new app. Its positions begin at the time, so that every one of an older life of the
    /// store lies below.
    pub fn new(now_millis: i64) -> Self {
        let seconds = u64::try_from(now_millis / 1_000).unwrap_or(0);
        // Up to here positions stay exact in a double, with room for centuries of changes.
        let start = seconds.clamp(1, 1 << 32) << 20;
        Self {
            head: start,
            reserve: start,
            floor: start,
            log_entries: 0,
            log_bytes: 0,
            pending: 0,
            pushed: start,
            lost: Vec::new(),
        }
    }

    /// Gives the next position.
    pub fn advance(&mut self) -> LogPosition {
        self.head += 1;
        LogPosition(self.head)
    }

    /// Whether the next commit should be a durable one, which [`reserve`](Self::reserve)s more.
    /// Half a block is left then, more than any one commit gives.
    pub fn is_reserve_low(&self) -> bool {
        self.reserve < self.head + RESERVE / 2
    }

    /// Reserves another block where the last one runs low. The commit has to be durable.
    pub fn reserve(&mut self) {
        if self.is_reserve_low() {
            self.reserve = self.head + RESERVE;
        }
    }

    /// After an unclean stop: goes on above the reserve and remembers what may have been lost.
    pub fn skip_reserve(&mut self) {
        if self.reserve <= self.head {
            return;
        }
        self.lost.push((self.head + 1, self.reserve));
        // One further, so that the head itself is no lost position.
        self.head = self.reserve + 1;
        // The oldest two become one, which only makes somebody read a table anew.
        if self.lost.len() > LOST
            && let (Some((first, _)), Some(second)) =
                (self.lost.first().copied(), self.lost.get_mut(1))
        {
            second.0 = first;
            self.lost.remove(0);
        }
    }

    /// Whether a client that stopped at this position may have missed a change that the log does
    /// not hold, or seen one that no log ever held.
    pub fn is_expired(&self, position: LogPosition) -> bool {
        position.0 < self.floor
            || position.0 > self.head
            || self.lost.iter().any(|(first, last)| (*first..=*last).contains(&position.0))
    }

    /// Raises the floor.
    pub fn trim_to(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
        let floor = self.floor;
        self.lost.retain(|(_, last)| *last > floor);
    }
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct TableRecord {
    /// Rows that it shows.
    #[n(0)]
    pub rows: u64,
    /// What the app declared, as JSON.
    #[n(1)]
    pub declared: Option<String>,
}

/// Reads the replica's record.
pub fn replica(source: &impl Reader) -> Result<Option<ReplicaRecord>, StoreError> {
    read(source, keys::REPLICA)
}

/// Reads an app's record.
pub fn app(source: &impl Reader, app: &AppId) -> Result<Option<AppRecord>, StoreError> {
    read(source, &keys::app_record(app))
}

/// Reads every app's record, by name.
pub fn apps(source: &impl Reader) -> Result<Vec<(AppId, AppRecord)>, StoreError> {
    let rows = named(source, keys::APPS)?;
    let app = |(name, record, key): (String, AppRecord, Vec<u8>)| {
        let app = name.parse().map_err(|error| damaged(keys::META, &key, error))?;
        Ok((app, record))
    };
    rows.into_iter().map(app).collect()
}

/// Reads the record of every table of an app, by name.
pub fn tables(
    source: &impl Reader,
    app: &AppId,
) -> Result<Vec<(TableName, TableRecord)>, StoreError> {
    let rows = named(source, &keys::table_records(app))?;
    let table = |(name, record, key): (String, TableRecord, Vec<u8>)| {
        let table = TableName::new(name).map_err(|error| damaged(keys::META, &key, error))?;
        Ok((table, record))
    };
    rows.into_iter().map(table).collect()
}

/// Reads all records under a prefix: what follows it in the key, the record, the key.
fn named<T: for<'b> Decode<'b, ()>>(
    source: &impl Reader,
    prefix: &[u8],
) -> Result<Vec<(String, T, Vec<u8>)>, StoreError> {
    const PAGE: usize = 500;
    let mut found = Vec::new();
    let mut scan = Scan::prefix(prefix, PAGE);
    loop {
        let page = source.range(keys::META, &scan)?;
        let last = page.last().map(|(key, _)| key.clone());
        let full = page.len() >= PAGE;
        for (key, value) in page {
            let record = decode(&value, keys::META, &key)?;
            let name = keys::tail(&key, prefix)
                .ok_or_else(|| damaged(keys::META, &key, "a name that is not text"))?;
            found.push((name.to_owned(), record, key));
        }
        match last {
            Some(key) if full => scan = scan.after(&key),
            _ => return Ok(found),
        }
    }
}

/// Reads a table's record.
pub fn table(
    source: &impl Reader,
    app: &AppId,
    table: &TableName,
) -> Result<Option<TableRecord>, StoreError> {
    read(source, &keys::table_record(app, table))
}

/// Writes the replica's record.
pub fn put_replica(txn: &mut Txn<'_>, record: &ReplicaRecord) -> Result<(), StoreError> {
    write(txn, keys::REPLICA.to_vec(), record)
}

/// Writes an app's record.
pub fn put_app(txn: &mut Txn<'_>, app: &AppId, record: &AppRecord) -> Result<(), StoreError> {
    write(txn, keys::app_record(app), record)
}

/// Writes a table's record.
pub fn put_table(
    txn: &mut Txn<'_>,
    app: &AppId,
    table: &TableName,
    record: &TableRecord,
) -> Result<(), StoreError> {
    write(txn, keys::table_record(app, table), record)
}

fn read<T: for<'b> Decode<'b, ()>>(
    source: &impl Reader,
    key: &[u8],
) -> Result<Option<T>, StoreError> {
    source.get(keys::META, key)?.map(|bytes| decode(&bytes, keys::META, key)).transpose()
}

/// Decodes a stored record.
pub fn decode<T: for<'b> Decode<'b, ()>>(
    bytes: &[u8],
    table: &'static str,
    key: &[u8],
) -> Result<T, StoreError> {
    minicbor::decode(bytes).map_err(|error| damaged(table, key, error))
}

fn write(txn: &mut Txn<'_>, key: Vec<u8>, record: &impl Encode<()>) -> Result<(), StoreError> {
    txn.put(keys::META, key, encode(record))
}

/// Encodes a record. Writing to memory does not fail.
pub fn encode(record: &impl Encode<()>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = minicbor::encode(record, &mut bytes);
    debug_assert!(written.is_ok(), "a vector takes every byte");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_begin_at_the_time_and_stay_exact_in_a_double() {
        assert_eq!(AppRecord::new(1_790_000_000_999).head, 1_790_000_000 << 20);
        assert_eq!(AppRecord::new(-5).head, 1 << 20);
        assert!(AppRecord::new(i64::MAX).head <= 1 << 52);
    }

    #[test]
    fn an_unclean_stop_skips_the_reserve_and_remembers_it() {
        let mut app = AppRecord::new(1_000_000);
        let start = app.head;
        assert!(!app.is_expired(LogPosition(start)));
        assert_eq!(app.advance().0, start + 1);
        app.reserve();
        app.reserve();
        app.skip_reserve();
        assert_eq!(app.head, start + 2 + RESERVE);
        assert!(!app.is_expired(LogPosition(start + 1)), "acked and kept");
        assert!(app.is_expired(LogPosition(start + 2)), "maybe given, lost");
        assert!(app.is_expired(LogPosition(app.head - 1)), "the last of the lost");
        assert!(!app.is_expired(LogPosition(app.head)));
        assert_eq!(app.advance().0, start + RESERVE + 3);
        assert!(!app.is_expired(LogPosition(app.head)));
        assert!(app.is_expired(LogPosition(app.head + 1)), "above the head");
        app.trim_to(start + 1 + RESERVE);
        assert!(app.lost.is_empty());
        assert!(app.is_expired(LogPosition(start)), "trimmed");
        app.skip_reserve();
        app.skip_reserve();
        assert_eq!(app.lost.len(), 0, "nothing was reserved beyond the head");
    }

    #[test]
    fn many_unclean_stops_are_remembered_in_little_room() {
        let mut app = AppRecord::new(1_000_000);
        let start = app.head;
        for _ in 0..200 {
            app.advance();
            app.reserve();
            app.skip_reserve();
        }
        assert_eq!(app.lost.len(), LOST);
        assert!(app.is_expired(LogPosition(start + 2)));
    }
}
