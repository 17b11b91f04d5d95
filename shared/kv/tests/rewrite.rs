//! The rewrite of grown files while the store goes on: nothing changes but their size.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use tempfile::TempDir;
use tidings_kv::{Compaction, EngineKind, ErrorKind, Options, Reader, Scan, Store, StoreError};

use crate::support::{each_durable, noise, open, options, pick, put};

/// Names of sled's directories in a store.
pub fn homes(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut homes: Vec<_> = names
        .map(|name| name.into_string().unwrap())
        .filter(|name| name.starts_with("sled."))
        .collect();
    homes.sort();
    homes
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a store holds must be what a model does.
fn same(store: &Store, table: &str, prefix: &[u8], model: &Rows) {
    let rows = store.range(table, &Scan::prefix(prefix, usize::MAX)).unwrap();
    assert!(rows.into_iter().eq(model.clone()), "{table} differs from what was written");
}

/// Mostly short values, of 100 bytes to 64 KiB in all.
fn length(seed: u64) -> usize {
    let length = match pick(seed, 10) {
        0..7 => 100 + pick(seed + 1, 1900),
        7..9 => 2000 + pick(seed + 1, 14_000),
        _ => 16_000 + pick(seed + 1, 49_537),
    };
    usize::try_from(length).unwrap()
}

/// Overwrites, adds and removes rows at random until `bytes` were written; the model follows.
fn churn(store: &Store, model: &mut Rows, keys: u64, bytes: usize, mut seed: u64) {
    let mut written = 0;
    while written < bytes {
        let mut writes = Vec::new();
        for _ in 0..16 {
            seed += 1;
            let key = pick(seed, keys).to_be_bytes().to_vec();
            if pick(seed + 1, 8) == 0 {
                model.remove(&key);
                writes.push((key, None));
            } else {
                let value = noise(seed, length(seed));
                written += value.len();
                model.insert(key.clone(), value.clone());
                writes.push((key, Some(value)));
            }
        }
        let job = move |txn: &mut tidings_kv::Txn<'_>| {
            writes.into_iter().try_for_each(|(key, value)| match value {
                Some(value) => txn.put("rows", key, value),
                None => txn.delete("rows", key),
            })
        };
        store.run(job).unwrap();
    }
}

fn bytes(model: &Rows) -> u64 {
    model.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
}

#[test]
fn churned_files_shrink_to_what_is_live() {
    each_durable(|dir, engine| {
        // Not before it is asked.
        let options = Options { rewrite_ratio: 0, ..options(engine) };
        let store = Store::open(dir, options.clone()).unwrap();
        let mut model = Rows::new();
        // About 5 MB live, and ten times that written.
        churn(&store, &mut model, 1200, 50 << 20, 1);
        let before = store.disk_size().unwrap();
        let done = store.compact().unwrap();
        let after = store.disk_size().unwrap();
        let live = bytes(&model);
        eprintln!("{live} live: {before} → {after}, {done:?}");
        if engine == EngineKind::Sled {
            assert!(before > 4 * live, "{before} bytes for {live} before");
        }
        assert!(after <= 4 * live, "{after} bytes for {live} after");
        same(&store, "rows", b"", &model);
        assert_eq!(store.check().unwrap().damaged, 0);
        store.close().unwrap();
        let store = Store::open(dir, options).unwrap();
        assert!(store.disk_size().unwrap() <= 4 * live, "opening made it grow");
        same(&store, "rows", b"", &model);
        churn(&store, &mut model, 1200, 1 << 20, 7);
        same(&store, "rows", b"", &model);
    });
}

#[test]
fn grown_files_are_rewritten_by_themselves() {
    let dir = TempDir::new().unwrap();
    let options = || Options { rewrite_floor: 8 << 20, ..options(EngineKind::Sled) };
    let store = Store::open(dir.path(), options()).unwrap();
    let mut model = Rows::new();
    churn(&store, &mut model, 1200, 50 << 20, 1);
    // Whatever has begun comes to its end; joining it would begin another.
    while store.rewrite().is_some() || homes(dir.path()).len() > 1 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let live = store.live_size().unwrap().unwrap();
    assert!(live > bytes(&model));
    assert_ne!(homes(dir.path()), ["sled.1"]);
    // Between two looks a segment may come on top.
    let size = store.disk_size().unwrap();
    assert!(size <= 4 * live + (8 << 20), "{size} bytes for {live}");
    same(&store, "rows", b"", &model);
    // A small store stays as it is.
    let small = TempDir::new().unwrap();
    let store = open(small.path(), EngineKind::Sled).unwrap();
    churn(&store, &mut Rows::new(), 10, 5 << 20, 1);
    assert_eq!(homes(small.path()), ["sled.1"]);
}

#[test]
fn readers_and_writers_go_on_meanwhile() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path(), EngineKind::Sled).unwrap();
    let fill = |txn: &mut tidings_kv::Txn<'_>| {
        (0..200u32).try_for_each(|n| txn.put("blobs", n.to_be_bytes(), noise(n.into(), 20_000)))
    };
    store.run(fill).unwrap();
    let (stop, meanwhile) = (AtomicBool::new(false), AtomicU64::new(0));
    let models: Vec<Rows> = std::thread::scope(|scope| {
        let (store, stop, meanwhile) = (&store, &stop, &meanwhile);
        let write = move |writer: u8| {
            let mut model = Rows::new();
            let mut seed = u64::from(writer) << 32;
            while !stop.load(Ordering::Relaxed) {
                seed += 1;
                let key = [&[writer][..], &pick(seed, 60).to_be_bytes()].concat();
                let value = match pick(seed + 1, 20) {
                    0..5 => None,
                    19 => Some(noise(seed, 100_000)),
                    _ => Some(noise(seed, length(seed))),
                };
                match value.clone() {
                    Some(value) => model.insert(key.clone(), value),
                    None => model.remove(&key),
                };
                let copying = store.rewrite().is_some();
                store
                    .run(move |txn| match value {
                        Some(value) => txn.put("rows", key, value),
                        None => txn.delete("rows", key),
                    })
                    .unwrap();
                meanwhile
                    .fetch_add(u64::from(copying && store.rewrite().is_some()), Ordering::Relaxed);
                // Nobody else writes these rows.
                if seed % 8 == 0 {
                    same(store, "rows", &[writer], &model);
                }
            }
            model
        };
        let writers: Vec<_> = (0..4).map(|writer| scope.spawn(move || write(writer))).collect();
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let rows = store.range("blobs", &Scan::all(1000)).unwrap();
                assert_eq!(rows.len(), 200);
                assert!((0u64..).zip(rows).all(|(n, row)| row.1 == noise(n, 20_000)));
            }
        });
        for number in 2..5 {
            assert!(matches!(store.compact(), Ok(Compaction::Rewritten { .. })));
            assert_eq!(homes(dir.path()), [format!("sled.{number}")]);
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert!(meanwhile.load(Ordering::Relaxed) > 20, "{meanwhile:?} commits within rewrites");
    let intact = |store: &Store| {
        for (writer, model) in (0u8..).zip(&models) {
            same(store, "rows", &[writer], model);
        }
        let report = store.check().unwrap();
        assert_eq!((report.damaged, report.orphans), (0, 0));
    };
    intact(&store);
    store.close().unwrap();
    intact(&open(dir.path(), EngineKind::Sled).unwrap());
}

/// A store of some megabytes.
fn filled(dir: &Path, options: Options) -> Store {
    let store = Store::open(dir, options).unwrap();
    for n in 0..30u32 {
        put(&store, "blobs", &n.to_be_bytes(), &noise(n.into(), 60_000));
    }
    store
}

#[test]
fn a_copy_gives_way_to_the_reserve() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), options(EngineKind::Sled)).close().unwrap();
    let scarce = Options { reserve: u64::MAX, ..options(EngineKind::Sled) };
    let store = Store::open(dir.path(), scarce).unwrap();
    let error = store.compact().unwrap_err();
    assert!(matches!(error, StoreError::StorageFull { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert_eq!((homes(dir.path()), store.rewrite()), (vec!["sled.1".to_owned()], None));
    assert!(store.failure().is_none());
    assert_eq!(store.get("blobs", &[0; 4]).unwrap().unwrap(), noise(0, 60_000));
}

#[test]
fn a_close_gives_a_rewrite_up() {
    let dir = TempDir::new().unwrap();
    let store = filled(dir.path(), options(EngineKind::Sled));
    let compacting = {
        let store = store.clone();
        std::thread::spawn(move || while store.compact().is_ok() {})
    };
    while store.rewrite().is_none() {}
    store.close().unwrap();
    compacting.join().unwrap();
    assert_eq!(store.compact(), Err(StoreError::Closed));
    assert_eq!(homes(dir.path()).len(), 1);
    let store = open(dir.path(), EngineKind::Sled).unwrap();
    assert!(store.was_clean());
    assert_eq!(store.check().unwrap().records, 30);
}

#[test]
fn leftovers_go_once_the_data_has_proved_right() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), options(EngineKind::Sled)).close().unwrap();
    let leftover = dir.path().join("sled.2");
    fs::create_dir(&leftover).unwrap();
    fs::write(leftover.join("db"), "half a copy").unwrap();
    // In a store that does not fit its marker nothing is removed.
    let marker = fs::read_to_string(dir.path().join("STORE")).unwrap();
    let current = fs::read(dir.path().join("CURRENT")).unwrap();
    fs::write(dir.path().join("CURRENT"), "sled.2\n").unwrap();
    assert_eq!(open(dir.path(), EngineKind::Sled).unwrap_err().kind(), ErrorKind::Damaged);
    assert_eq!(homes(dir.path()), ["sled.1", "sled.2"]);
    fs::write(dir.path().join("CURRENT"), current).unwrap();
    let other = TempDir::new().unwrap();
    filled(other.path(), options(EngineKind::Sled)).close().unwrap();
    fs::copy(other.path().join("STORE"), dir.path().join("STORE")).unwrap();
    assert_eq!(open(dir.path(), EngineKind::Sled).unwrap_err().kind(), ErrorKind::Damaged);
    assert_eq!(homes(dir.path()), ["sled.1", "sled.2"]);
    fs::write(dir.path().join("STORE"), marker).unwrap();
    let store = open(dir.path(), EngineKind::Sled).unwrap();
    assert_eq!(homes(dir.path()), ["sled.1"]);
    assert_eq!(store.check().unwrap().records, 30);
}
