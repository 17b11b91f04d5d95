//! What readers see of a commit before it is durable, that the engine counts its bytes, and the
//! rewrite slice by slice.

use super::*;
use crate::Write;

fn batch(rows: &[(&str, Option<&str>)]) -> Batch {
    let write = |(key, value): &(&str, Option<&str>)| Write {
        table: "t",
        key: key.as_bytes().to_vec(),
        value: value.map(|value| value.as_bytes().to_vec()),
    };
    Batch::new(rows.iter().map(write).collect())
}

fn seen(engine: &SledEngine) -> String {
    let rows = engine.range("t", &Scan::all(99)).unwrap();
    let rows = rows.into_iter().map(|(key, value)| {
        assert_eq!(engine.get("t", &key).unwrap(), Some(value.clone()));
        String::from_utf8([key, value].concat()).unwrap()
    });
    rows.collect::<Vec<_>>().join(" ")
}

#[test]
fn readers_do_not_see_a_commit_before_its_sync() {
    let dir = tempfile::tempdir().unwrap();
    let engine = SledEngine::create(dir.path(), &["t"], 1 << 20).unwrap();
    let old = batch(&[("a", Some("1")), ("b", Some("1")), ("d", Some("1"))]);
    engine.commit(&old, Durability::Synced).unwrap();
    let new = batch(&[("a", Some("2")), ("b", None), ("c", Some("2"))]);
    engine.hide(&new).unwrap();
    engine.commit_without_sync(&new).unwrap();
    assert_eq!(seen(&engine), "a1 b1 d1");
    assert_eq!(engine.get("t", b"c").unwrap(), None);
    engine.reveal();
    assert_eq!(seen(&engine), "a2 c2 d1");
}

/// Everything in the tables, and that the engine's count of it is exact.
fn contents(engine: &SledEngine) -> Vec<Row> {
    let rows: Vec<Row> = TABLES
        .iter()
        .flat_map(|table| engine.range(table, &Scan::all(usize::MAX)).unwrap())
        .collect();
    let bytes: usize = rows.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert_eq!(engine.live_size().unwrap(), Some(bytes as u64));
    rows
}

/// A commit of some puts and deletes, all over the tables.
fn random(seed: &mut u64, most: u64) -> Batch {
    let mut next = |limit: u64| {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % limit
    };
    let writes = (0..next(most)).map(|_| {
        let value = vec![next(256) as u8; next(9000) as usize];
        Write {
            table: TABLES[next(TABLES.len() as u64) as usize],
            key: next(400).to_be_bytes().to_vec(),
            value: (next(3) > 0).then_some(value),
        }
    });
    Batch::new(writes.collect())
}

fn filled(dir: &Path) -> SledEngine {
    let engine = SledEngine::create(dir, TABLES, 1 << 20).unwrap();
    let mut seed = 1;
    for _ in 0..8 {
        engine.commit(&random(&mut seed, 200), Durability::Synced).unwrap();
    }
    engine
}

fn numbers(dir: &Path) -> Vec<u64> {
    names::all(dir).unwrap().into_iter().map(|(number, _)| number).collect()
}

const TABLES: &[&str] = &["a", "b", "c"];

#[test]
fn a_rewrite_follows_every_commit_made_between_its_slices() {
    for mut seed in 0..6u64 {
        let dir = tempfile::tempdir().unwrap();
        let engine = SledEngine::create(dir.path(), TABLES, 1 << 20).unwrap();
        // The same commits, and no rewrite.
        let model = super::super::MemoryEngine::new(TABLES);
        let write = |batch: Batch| {
            engine.commit(&batch, Durability::Synced).unwrap();
            model.commit(&batch, Durability::Synced).unwrap();
        };
        let expected = || -> Vec<Row> {
            let all = Scan::all(usize::MAX);
            TABLES.iter().flat_map(|table| model.range(table, &all).unwrap()).collect()
        };
        (0..8).for_each(|_| write(random(&mut seed, 200)));
        for number in 2..4 {
            let mut slices = 0;
            while engine.compact().unwrap() == Step::Underway {
                slices += 1;
                write(random(&mut seed, 20));
                assert!(contents(&engine) == expected());
            }
            assert!(slices > 10, "{slices} slices show little");
            assert_eq!(engine.rewrite(), None);
            assert_eq!(numbers(dir.path()), [number]);
            assert!(contents(&engine) == expected());
        }
        engine.close().unwrap();
        let engine = SledEngine::open(dir.path(), TABLES, 1 << 20).unwrap();
        assert!(contents(&engine) == expected());
    }
}

#[test]
fn a_rewrite_given_up_leaves_nothing_and_can_begin_again() {
    let dir = tempfile::tempdir().unwrap();
    let engine = filled(dir.path());
    let before = contents(&engine);
    for slices in 1..6 {
        (0..slices).for_each(|_| assert_eq!(engine.compact().unwrap(), Step::Underway));
        let Rewrite { copied, live } = engine.rewrite().unwrap_or(Rewrite { copied: 0, live: 1 });
        assert!(copied < live);
        assert_eq!(numbers(dir.path()).len(), 2);
        assert_eq!(engine.cancel_compaction(), None);
        assert_eq!((numbers(dir.path()), engine.rewrite()), (vec![1], None));
        assert!(contents(&engine) == before);
    }
    // Past the switch there is no way back.
    while names::current(dir.path()).unwrap() == 1 {
        assert_eq!(engine.compact().unwrap(), Step::Underway);
    }
    assert!(matches!(engine.cancel_compaction(), Some(Compaction::Rewritten { .. })));
    assert_eq!(numbers(dir.path()), [2]);
    assert!(contents(&engine) == before);
}

#[test]
fn rows_that_are_missing_stop_a_rewrite() {
    let dir = tempfile::tempdir().unwrap();
    let engine = filled(dir.path());
    engine.with(|home| home.lose("b")).unwrap();
    let error = loop {
        match engine.compact() {
            Ok(step) => assert_eq!(step, Step::Underway),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), crate::ErrorKind::Damaged, "{error}");
    assert_eq!(numbers(dir.path()), [1]);
}

#[test]
fn a_directory_without_a_count_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let engine = filled(dir.path());
    let before = contents(&engine);
    engine.with(Home::forget_count).unwrap();
    engine.close().unwrap();
    let engine = SledEngine::open(dir.path(), TABLES, 1 << 20).unwrap();
    assert!(contents(&engine) == before);
}
