//! The replica without an API: what lies where after writes, pulls, trims and stops.

use std::sync::Arc;

use tidings_tables::json::parse;
use tidings_tables::{Object, Row, RowId, TableName, Value, ops};
use tidings_wire::local::{ChangeKind, LogPosition, Origin, SyncState};
use tidings_wire::{AppId, Incarnation, Stamp};

use super::*;

const NOW: i64 = 1_790_000_000_000;
const START: u64 = 1_790_000_000 << 20;

fn app() -> AppId {
    "notes".parse().unwrap()
}

fn table(name: &str) -> TableName {
    TableName::new(name).unwrap()
}

fn id(name: &str) -> RowId {
    RowId::new(name).unwrap()
}

fn columns(text: &str) -> Object {
    match parse(text.as_bytes()).unwrap() {
        Value::Object(members) => members,
        other => panic!("{other} is no object"),
    }
}

struct Bench {
    replica: Replica,
    store: Store,
    clock: Clock,
    status: Status,
}

impl Bench {
    fn new() -> Self {
        Self::over(Store::memory().unwrap())
    }

    fn over(store: Store) -> Self {
        let (clock, status) = (Clock::manual(NOW), Status::new("test"));
        let replica = Replica::open(store.clone(), clock.clone(), status.clone()).unwrap();
        Self { replica, store, clock, status }
    }

    async fn put(&self, row: &str, text: &str) -> LogPosition {
        let operation = Operation {
            table: table("t"),
            id: id(row),
            verb: Verb::Put(columns(text)),
            condition: None,
        };
        self.write(vec![operation]).await
    }

    async fn write(&self, operations: Vec<Operation>) -> LogPosition {
        let origin = Origin { client: "c".into(), mutation_id: Some("m".into()) };
        let request = WriteRequest { operations, atomic: true, origin };
        self.replica.write(&app(), request).await.unwrap().position
    }

    async fn apply(&self, rows: &[(&str, i64, &str)], bulk: bool) -> LogPosition {
        let deltas = rows.iter().map(|(row, millis, text)| RowDelta {
            table: table("t"),
            row: id(row),
            delta: ops::put(&Row::default(), columns(text), stamp(*millis)).unwrap().delta,
        });
        let push = RemotePush { deltas: deltas.collect(), bulk };
        let app = app();
        let applied = self.replica.apply(&app, vec![push], Durability::Relaxed, |_| Ok(()));
        applied.await.unwrap().position
    }

    fn record(&self) -> AppRecord {
        self.store.read_blocking(|source| meta::app(source, &app())).unwrap().unwrap()
    }

    fn identity(&self) -> ReplicaRecord {
        self.store.read_blocking(|source: &Snapshot| Replica::identity(source)).unwrap()
    }

    fn entries(&self) -> Vec<Entry> {
        let read = |source: &Snapshot| {
            log::read(source, &app(), LogPosition(0), LogPosition(u64::MAX), 9_999, usize::MAX)
        };
        self.store.read_blocking(read).unwrap()
    }

    fn row(&self, row: &str) -> Option<StoredRow> {
        let read = |source: &Snapshot| Replica::row(source, &app(), &table("t"), &id(row));
        self.store.read_blocking(read).unwrap()
    }

    fn outbox(&self, max_bytes: usize) -> Vec<OutboxTx> {
        let read = |source: &Snapshot| outbox::prefix(source, &app(), max_bytes);
        self.store.read_blocking(read).unwrap()
    }
}

fn stamp(millis: i64) -> Stamp {
    Stamp::new(u64::try_from(millis).unwrap(), 0, Incarnation([7; 8]))
}

#[tokio::test]
async fn a_write_is_in_rows_log_and_outbox_at_one_position() {
    let bench = Bench::new();
    let position = bench.put("a", r#"{"n":1}"#).await;
    assert_eq!(position, LogPosition(START + 1));
    let row = bench.row("a").unwrap();
    assert_eq!((row.changed, row.named), (position, position));
    assert_eq!(row.state.version().millis(), NOW as u64);
    let [entry] = &bench.entries()[..] else { panic!() };
    assert_eq!(
        (entry.position, entry.tx, entry.tx_last, entry.at),
        (position, position, true, NOW)
    );
    assert_eq!(entry.origin, Origin { client: "c".into(), mutation_id: Some("m".into()) });
    let Event::Row { kind, old, new, .. } = &entry.event else { panic!() };
    assert_eq!((kind, old, new.as_ref()), (&ChangeKind::Insert, &None, row.image().as_ref()));
    let [tx] = &bench.outbox(1)[..] else { panic!() };
    assert_eq!((tx.position, tx.deltas.len()), (position, 1));
    assert_eq!(*bench.replica.head(&app()).borrow(), position);
    let status = bench.status.snapshot();
    assert_eq!((status.apps[0].position, status.apps[0].pending), (position, 1));
    assert_eq!((status.apps[0].pushed, status.state), (LogPosition(START), SyncState::Starting));
    let tables = bench.store.read_blocking(|source| meta::tables(source, &app())).unwrap();
    assert_eq!(tables, [(table("t"), TableRecord { rows: 1, declared: None })]);
}

#[tokio::test]
async fn stamps_rise_over_restarts_and_clocks_set_back() {
    let bench = Bench::new();
    bench.put("a", "{}").await;
    let first = bench.row("a").unwrap().state.version();
    bench.apply(&[("b", NOW + 50_000, "{}")], false).await;
    bench.clock.set(NOW - 1_000_000);
    let bench = Bench { replica: bench.replica.clone(), ..Bench::over(bench.store.clone()) };
    bench.clock.set(0);
    bench.put("a", "{}").await;
    let second = bench.row("a").unwrap().state.version();
    assert!(second > first && second > stamp(NOW + 50_000), "above all that was seen");
}

#[tokio::test]
async fn the_outbox_is_read_and_removed_in_whole_transactions() {
    let bench = Bench::new();
    let mut positions = Vec::new();
    for n in 0..5 {
        positions.push(bench.put("a", &format!(r#"{{"n":{n},"t":"{}"}}"#, "x".repeat(500))).await);
    }
    assert_eq!(bench.outbox(0).len(), 1, "at least one");
    let two = bench.outbox(1_500);
    assert_eq!(two.iter().map(|tx| tx.position).collect::<Vec<_>>(), positions[..2]);
    assert_eq!(bench.outbox(usize::MAX).len(), 5);
    let after = |source: &Snapshot| outbox::after(source, &app(), positions[2], usize::MAX);
    assert_eq!(bench.store.read_blocking(after).unwrap().len(), 2);

    let through = positions[1];
    let notes = app();
    let removed = bench.replica.update(&notes, Durability::Synced, move |txn| {
        outbox::remove_through(txn, &app(), through)
    });
    removed.await.unwrap();
    assert_eq!(bench.outbox(usize::MAX).len(), 3);
    let status = bench.status.snapshot();
    assert_eq!((status.apps[0].pending, status.apps[0].pushed), (3, through));
}

#[tokio::test]
async fn the_freeze_hook_runs_inside_the_write() {
    let bench = Bench::new();
    bench.replica.set_freeze_hook(Arc::new(|txn, app| {
        let seen = outbox::prefix(txn, app, usize::MAX)?;
        if seen.len() == 2 {
            return Err(StoreError::Busy);
        }
        txn.put(keys::SYNC, &b"frozen"[..], vec![u8::try_from(seen.len()).unwrap_or(0)])
    }));
    let mut changed = bench.replica.outbox_changed();
    changed.borrow_and_update();
    bench.put("a", "{}").await;
    assert!(changed.has_changed().unwrap());
    let frozen = bench.store.read_blocking(|source| source.get(keys::SYNC, b"frozen"));
    assert_eq!(frozen.unwrap(), Some(vec![1]));
    // Where it fails nothing of the write stays.
    let operation = Operation {
        table: table("t"),
        id: id("b"),
        verb: Verb::Put(Object::default()),
        condition: None,
    };
    let origin = Origin::default();
    let request = WriteRequest { operations: vec![operation], atomic: true, origin };
    assert!(bench.replica.write(&app(), request).await.is_err());
    assert_eq!((bench.row("b"), bench.outbox(usize::MAX).len()), (None, 1));
    assert_eq!(bench.record().head, START + 1);
}

#[tokio::test]
async fn a_page_is_applied_once_with_what_belongs_to_it() {
    let bench = Bench::new();
    bench.put("a", r#"{"n":"own"}"#).await;
    let rows = [("a", NOW - 5, r#"{"n":"older"}"#), ("b", NOW - 5, r#"{"n":1}"#)];
    let position = bench.apply(&rows, false).await;
    assert_eq!(bench.row("a").unwrap().image().unwrap().columns, columns(r#"{"n":"own"}"#));
    assert_eq!(bench.row("a").unwrap().changed, LogPosition(START + 1), "nothing visible");
    assert_eq!(bench.row("a").unwrap().named, position, "but it was named");
    let entries = bench.entries();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[1].origin.client, Origin::REMOTE);
    assert_eq!(bench.outbox(usize::MAX).len(), 1, "what came is not sent back");

    // The same page again says nothing to anybody.
    bench.apply(&rows, false).await;
    assert_eq!(bench.entries().len(), 2);

    // What is stored with it fails: nothing of it is stored.
    let delta = ops::put(&Row::default(), Object::default(), stamp(NOW)).unwrap().delta;
    let push = RemotePush {
        deltas: vec![RowDelta { table: table("t"), row: id("c"), delta }],
        bulk: false,
    };
    let failed = bench
        .replica
        .apply(&app(), vec![push], Durability::Synced, |_| Err(StoreError::Busy))
        .await;
    assert!(failed.is_err());
    assert_eq!(bench.row("c"), None);
}

#[tokio::test]
async fn many_rows_of_a_push_are_logged_as_one() {
    let bench = Bench::new();
    let names: Vec<String> = (0..1_001).map(|n| format!("r{n}")).collect();
    let rows: Vec<_> = names.iter().map(|name| (name.as_str(), NOW, "{}")).collect();
    let named = bench.apply(&rows[..1_000], false).await;
    assert_eq!(bench.entries().len(), 1_000);
    assert_eq!(named.0 - START, 1_000);
    let rows: Vec<_> = names.iter().map(|name| (name.as_str(), NOW + 1, "{}")).collect();
    let bulk = bench.apply(&rows, false).await;
    let entries = bench.entries();
    assert_eq!((entries.len(), &entries[1_000].event), (1_001, &Event::Bulk));
    assert_eq!(bench.row("r5").unwrap().changed, bulk);
    bench.apply(&[("r1", NOW + 2, "{}")], true).await;
    assert_eq!(bench.entries().last().unwrap().event, Event::Bulk, "a part of a run");
    let tables = bench.store.read_blocking(|source| meta::tables(source, &app())).unwrap();
    assert_eq!(tables[0].1.rows, 1_001);
}

#[tokio::test]
async fn rows_that_came_deleted_are_stored_and_not_told() {
    let bench = Bench::new();
    let names: Vec<String> = (0..1_600).map(|n| format!("r{n:04}")).collect();
    let row = |(n, name): (usize, &String)| {
        let text = if n % 2 == 0 { r#"{"_deletedAt":"then"}"# } else { r#"{"_deletedAt":null}"# };
        (name.clone(), NOW, text)
    };
    let rows: Vec<_> = names.iter().enumerate().map(row).collect();
    let rows: Vec<_> = rows.iter().map(|(name, at, text)| (name.as_str(), *at, *text)).collect();
    bench.apply(&rows, false).await;
    let entries = bench.entries();
    assert_eq!(entries.len(), 800, "few enough are seen to be named");
    assert!(entries.iter().all(|entry| matches!(entry.event, Event::Row { .. })));
    let again = Bench::new();
    again.apply(&rows, true).await;
    assert_eq!(again.entries().len(), 1);
    for bench in [bench, again] {
        let tables = bench.store.read_blocking(|source| meta::tables(source, &app())).unwrap();
        assert_eq!(tables[0].1.rows, 1_600);
        assert!(bench.row("r0000").unwrap().image().unwrap().is_soft_deleted());
    }
}

/// What a power cut would leave of a store: a copy of its files.
fn row_on_disk(dir: &std::path::Path, row: &str) -> Option<StoredRow> {
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(dir).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    let store = Store::open(copy.path(), |_| {}).unwrap();
    let key = id(row);
    store.read_blocking(|source| Replica::row(source, &app(), &table("t"), &key)).unwrap()
}

#[tokio::test]
async fn apps_hear_of_a_page_before_the_disk_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::over(Store::open(dir.path(), |_| {}).unwrap());
    // The first page reserves positions, which waits for the disk.
    bench.apply(&[("a", NOW, "{}")], false).await;
    assert!(row_on_disk(dir.path(), "a").is_some());
    let delta = ops::put(&Row::default(), Object::default(), stamp(NOW)).unwrap().delta;
    let deltas = vec![RowDelta { table: table("t"), row: id("b"), delta }];
    let push = RemotePush { deltas, bulk: false };
    let mut head = bench.replica.head(&app());
    head.mark_unchanged();
    let app = app();
    let applying = bench.replica.apply(&app, vec![push], Durability::Synced, |_| Ok(()));
    let mut applying = std::pin::pin!(applying);
    tokio::select! {
        biased;
        heard = head.changed() => heard.unwrap(),
        applied = &mut applying => panic!("{applied:?} before it was told"),
    }
    assert!(bench.row("b").is_some());
    assert!(row_on_disk(dir.path(), "b").is_none(), "nobody waited for the disk");
    applying.await.unwrap();
    assert!(row_on_disk(dir.path(), "b").is_some());
}

#[tokio::test]
async fn a_row_that_came_and_went_in_one_transaction_leaves_no_event() {
    let bench = Bench::new();
    let op = |verb| Operation { table: table("t"), id: id("x"), verb, condition: None };
    let position = bench.write(vec![op(Verb::Insert(Object::default())), op(Verb::Delete)]).await;
    assert_eq!((bench.entries().len(), position.0), (0, START + 1));
    assert_eq!(bench.outbox(usize::MAX)[0].position, position, "the others must not see it either");
    assert!(!bench.row("x").unwrap().state.is_alive());
}

#[tokio::test]
async fn the_log_stays_within_its_limits_in_whole_transactions() {
    let bench = Bench::new();
    bench.replica.limit_logs(log::Limits { entries: 10, bytes: 1 << 20 });
    let op = |n: usize| Operation {
        table: table("t"),
        id: id(&format!("r{n}")),
        verb: Verb::Put(Object::default()),
        condition: None,
    };
    for part in 0..20 {
        bench.write((0..3).map(|n| op(part * 3 + n)).collect()).await;
        let (record, entries) = (bench.record(), bench.entries());
        assert!(entries.len() <= 10 && entries.len() as u64 == record.log_entries);
        assert_eq!(entries[0].position, entries[0].tx, "a whole transaction");
        assert_eq!(record.floor + 1, entries[0].position.0);
    }
    // By age.
    bench.clock.set(NOW + 1_000);
    bench.put("late", "{}").await;
    while bench.replica.trim(&app(), NOW + 500).await.unwrap() {}
    assert_eq!(bench.entries().len(), 1);
    let record = bench.record();
    assert!(record.is_expired(LogPosition(START)) && !record.is_expired(LogPosition(record.floor)));
    // One entry larger than the limit goes too, at once.
    bench.put("big", &format!(r#"{{"t":"{}"}}"#, "x".repeat(200_000))).await;
    assert_eq!(bench.entries().len(), 2);
}

#[tokio::test]
async fn only_an_unclean_stop_skips_positions() {
    let bench = Bench::new();
    let first = bench.put("a", "{}").await;
    assert!(bench.record().reserve > first.0);
    // As after a crash: the same store, not closed.
    let bench = Bench::over(bench.store);
    let second = bench.put("a", "{}").await;
    assert!(second.0 > first.0 + meta::RESERVE);
    let record = bench.record();
    assert!(record.is_expired(LogPosition(first.0 + 1)), "may have been given and lost");
    assert!(!record.is_expired(first) && !record.is_expired(second));

    let dir = tempfile::tempdir().unwrap();
    let open = || Store::open(&dir.path().join("store"), |_| {}).unwrap();
    let bench = Bench::over(open());
    let first = bench.put("a", "{}").await;
    let incarnation = bench.identity().incarnation;
    bench.replica.close().unwrap();
    drop(bench);
    let bench = Bench::over(open());
    assert_eq!(bench.put("a", "{}").await.0, first.0 + 1);
    assert_eq!(bench.identity().incarnation, incarnation);
    bench.replica.close().unwrap();
}

#[tokio::test]
async fn relaxed_pages_never_leave_the_reserve() {
    let bench = Bench::new();
    // Not one position is given that was not reserved on the disk before, or with it.
    for n in 0..50 {
        bench.apply(&[("a", NOW + n, "{}")], false).await;
        let record = bench.record();
        assert!(record.head <= record.reserve);
    }
}

#[tokio::test]
async fn an_app_has_no_more_tables_than_its_manifests_can_name() {
    let bench = Bench::new();
    let put = |name: &str| Operation {
        table: table(name),
        id: id("1"),
        verb: Verb::Put(columns("{}")),
        condition: None,
    };
    let names: Vec<String> = (0..super::write::TABLES).map(|n| format!("t{n}")).collect();
    bench.write(names.iter().map(|name| put(name)).collect()).await;
    let origin = Origin { client: "c".into(), mutation_id: None };
    let operations = vec![put("one_more"), put("t7"), put("t8")];
    let request = WriteRequest { operations, atomic: false, origin };
    let written = bench.replica.write(&app(), request.clone()).await.unwrap();
    assert_eq!(written.results[0], Err(Refusal::TooManyTables));
    assert!(written.results[1].is_ok() && written.results[2].is_ok(), "they are there already");
    let refused = bench.replica.write(&app(), WriteRequest { atomic: true, ..request }).await;
    assert!(matches!(refused, Err(WriteError::Refused { index: 0, .. })), "{refused:?}");
}
