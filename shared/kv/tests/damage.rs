//! Damaged files: never a wrong answer, never a hang, never an uncaught panic.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::Read,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::mpsc,
    time::Duration,
};

use tempfile::TempDir;
use tidings_kv::{
    Batch, Durability, Engine, EngineKind, ErrorKind, OpenCheck, Options, Reader, Scan, Store,
    StoreError, View, Write,
    engine::{RedbEngine, SledEngine},
};

use crate::support::{self, each_durable, noise, open, options, pick, put};

const RECORDS: u64 = 200;

fn value(n: u64) -> Vec<u8> {
    let length = if n.is_multiple_of(20) { 70_000 } else { pick(n, 3000) };
    noise(n, usize::try_from(length).unwrap())
}

fn filled(dir: &Path, engine: EngineKind) {
    let store = open(dir, engine).unwrap();
    for step in 0..20u64 {
        store
            .run(move |txn| {
                (0..RECORDS / 20).try_for_each(|n| {
                    let n = n * 20 + step;
                    txn.put("rows", n.to_be_bytes(), value(n))
                })
            })
            .unwrap();
    }
    store.close().unwrap();
}

/// What a damaged store did.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It was not opened, or its structures were found damaged.
    Refused,
    /// It opened and named the damaged records.
    Reported,
    /// Everything is as it was written.
    Harmless,
}

fn outcome(dir: &Path, engine: EngineKind) -> Result<Outcome, String> {
    let options = Options { check: OpenCheck::Full, ..options(engine) };
    let store = match Store::open(dir, options) {
        Ok(store) => store,
        Err(error) if error.kind() == ErrorKind::Damaged => {
            eprintln!("refused: {error}");
            return Ok(Outcome::Refused);
        }
        Err(error) => {
            eprintln!("not called damage: {error}");
            return Ok(Outcome::Refused);
        }
    };
    let mut reported = false;
    for n in 0..RECORDS {
        match store.get("rows", &n.to_be_bytes()) {
            Ok(Some(found)) if found == value(n) => {}
            Err(error) if error.kind() == ErrorKind::Damaged => reported = true,
            Err(error) => return Err(format!("record {n}: {error}")),
            Ok(found) => {
                return Err(format!("record {n}: a wrong answer, {:?}", found.map(|v| v.len())));
            }
        }
    }
    match store.check() {
        Ok(report) if report.damaged > 0 => reported = true,
        Err(error) if error.kind() == ErrorKind::Damaged => reported = true,
        Err(error) => return Err(error.to_string()),
        Ok(report) if report.records != RECORDS && !reported => return Err(format!("{report:?}")),
        Ok(_) => {}
    }
    Ok(if reported { Outcome::Reported } else { Outcome::Harmless })
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if fs::metadata(&path).unwrap().len() > 0 && !path.ends_with("LOCK.holder") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Somewhere in a file's first megabyte, or where it has other bytes than zeros.
fn somewhere(path: &Path, seed: u64) -> u64 {
    let mut bytes = Vec::new();
    fs::File::open(path).unwrap().take(4 << 20).read_to_end(&mut bytes).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) as u64 + 1;
    pick(seed, used)
}

fn damage(path: &Path, seed: u64) -> String {
    let at = somewhere(path, seed);
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    match seed % 5 {
        0..3 => {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            byte[0] ^= 1 << pick(seed + 9, 8);
            file.write_all_at(&byte, at).unwrap();
            format!("{}: flipped byte {at}", path.display())
        }
        3 => {
            let length = file.metadata().unwrap().len();
            let at = at / 4096 * 4096;
            let zeros = vec![0; usize::try_from((length - at).min(4096)).unwrap()];
            file.write_all_at(&zeros, at).unwrap();
            format!("{}: zeroed the block at {at}", path.display())
        }
        _ => {
            file.set_len(at).unwrap();
            format!("{}: cut at {at}", path.display())
        }
    }
}

fn survives(engine: EngineKind) {
    let home = TempDir::new().unwrap();
    let good = home.path().join("good");
    filled(&good, engine);
    let names: Vec<PathBuf> =
        files(&good).iter().map(|path| path.strip_prefix(&good).unwrap().to_owned()).collect();
    let data = if engine == EngineKind::Sled { "sled.1/db" } else { "data.redb" };
    let untouched = home.path().join("untouched");
    copy(&good, &untouched);
    assert_eq!(outcome(&untouched, engine), Ok(Outcome::Harmless));
    let mut counts = [0; 3];
    for seed in 0..support::rounds(60) {
        let dir = home.path().join(format!("bad.{seed}"));
        copy(&good, &dir);
        // Mostly the data itself, sometimes any file.
        let name = match seed % 4 {
            0 => names[usize::try_from(pick(seed, names.len() as u64)).unwrap()].clone(),
            _ => PathBuf::from(data),
        };
        let what = damage(&dir.join(name), seed);
        let (sender, receiver) = mpsc::channel();
        let bad = dir.clone();
        std::thread::spawn(move || sender.send(outcome(&bad, engine)));
        match receiver.recv_timeout(Duration::from_secs(60)) {
            Ok(Ok(outcome)) => counts[outcome as usize] += 1,
            Ok(Err(wrong)) => panic!("{engine}, seed {seed}, {what}: {wrong}"),
            Err(error) => panic!("{engine}, seed {seed}, {what}: hang or panic: {error}"),
        }
        fs::remove_dir_all(dir).unwrap();
    }
    eprintln!("{engine}: [refused, reported, harmless] = {counts:?}");
    assert!(counts[0] > 0);
}

#[test]
fn sled_never_answers_from_damage() {
    survives(EngineKind::Sled);
}

#[test]
fn redb_never_answers_from_damage() {
    survives(EngineKind::Redb);
}

/// A store that was killed, its file cut at any byte of what the last commits wrote: earlier ones
/// are there in order, or the damage is told; it is never empty, and never has a hole.
#[test]
fn a_file_cut_anywhere_in_its_end_is_never_an_empty_store() {
    for (engine, data) in [(EngineKind::Sled, "sled.1/db"), (EngineKind::Redb, "data.redb")] {
        let home = TempDir::new().unwrap();
        let killed = home.path().join("killed");
        let store = open(&killed, engine).unwrap();
        let size = || fs::metadata(killed.join(data)).unwrap().len();
        (0..8).for_each(|n| put(&store, "rows", &[n], &noise(n.into(), 50)));
        let from = size();
        (8..10).for_each(|n| put(&store, "rows", &[n], &noise(n.into(), 50)));
        let to = size();
        // As a kill leaves it: not closed, the marker behind.
        let copied = home.path().join("copied");
        copy(&killed, &copied);
        store.close().unwrap();
        let from = if from < to { from } else { to - 300 };
        let mut counts = BTreeMap::<String, u64>::new();
        // Every byte in a long run at night.
        let step = usize::try_from(13 / support::rounds(1)).unwrap().max(1);
        for at in (from..to).step_by(step) {
            let dir = home.path().join("cut");
            copy(&copied, &dir);
            let file = OpenOptions::new().write(true).open(dir.join(data)).unwrap();
            file.set_len(at).unwrap();
            let shown = match open(&dir, engine) {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Damaged, "{engine}, cut at {at}: {error}");
                    "damaged".to_owned()
                }
                Ok(store) => {
                    let rows = store.range("rows", &Scan::all(99)).unwrap();
                    let rows: Vec<_> =
                        rows.into_iter().map(|(key, value)| (key[0], value)).collect();
                    let whole = rows.iter().map(|(n, _)| (*n, noise((*n).into(), 50)));
                    assert!(whole.eq(rows.iter().cloned()) && rows.len() >= 7, "{engine}, {at}");
                    assert!((0..).zip(&rows).all(|(n, row)| n == row.0), "{engine}, {at}: a hole");
                    store.close().unwrap();
                    format!("{} rows", rows.len())
                }
            };
            *counts.entry(shown).or_default() += 1;
            fs::remove_dir_all(&dir).unwrap();
        }
        eprintln!("{engine}, cut at {from}..{to}: {counts:?}");
    }
}

/// What [`OpenCheck::Full`] is for: a damaged key in a page of redb's tree hides its row.
#[test]
fn only_the_full_check_finds_a_row_that_damage_hides() {
    let home = TempDir::new().unwrap();
    let dir = home.path();
    let store = open(dir, EngineKind::Redb).unwrap();
    for n in 0..100u32 {
        put(&store, "rows", format!("the key of row {n:03}").as_bytes(), b"a value");
    }
    store.close().unwrap();
    let path = dir.join("data.redb");
    let mut bytes = fs::read(&path).unwrap();
    let key = b"the key of row 050";
    // Older pages hold it, too.
    let places: Vec<_> = bytes.windows(key.len()).enumerate().collect();
    let places: Vec<_> =
        places.into_iter().filter(|(_, window)| window == key).map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at + key.len() - 1] = b'X';
    }
    fs::write(&path, bytes).unwrap();
    let opened = |check| Store::open(dir, Options { check, ..options(EngineKind::Redb) });
    assert_eq!(opened(OpenCheck::Full).unwrap_err().kind(), ErrorKind::Damaged);
    let store = opened(OpenCheck::Quick).unwrap();
    assert_eq!(store.get("rows", key).unwrap(), None);
    // Whoever meets the row, or checks, learns of it.
    assert_eq!(store.range("rows", &Scan::all(999)).unwrap_err().kind(), ErrorKind::Damaged);
    assert_eq!(store.check().unwrap_err().kind(), ErrorKind::Damaged);
}

/// Changes a stored record through the engine, below every checksum of the engine's own.
fn alter(dir: &Path, engine: EngineKind, change: impl Fn(&dyn Engine) -> Vec<Write>) {
    let tables = &["blobs", "rows", "_meta", "_parts"];
    let engine: Box<dyn Engine> = match engine {
        EngineKind::Sled => Box::new(SledEngine::open(dir, tables, 1 << 20).unwrap()),
        _ => Box::new(RedbEngine::open(dir, tables, 1 << 20, OpenCheck::Quick).unwrap()),
    };
    let writes = change(engine.as_ref());
    engine.commit(&Batch::new(writes), Durability::Synced).unwrap();
    engine.close().unwrap();
}

#[test]
fn a_record_altered_below_the_engine_is_damage_and_its_neighbours_are_not() {
    each_durable(|dir, engine| {
        let store = open(dir, engine).unwrap();
        for key in [b"a", b"b", b"c"] {
            put(&store, "rows", key, b"some value");
        }
        put(&store, "blobs", b"big", &noise(1, 150_000));
        store.close().unwrap();
        alter(dir, engine, |engine| {
            let mut record = engine.get("rows", b"b").unwrap().unwrap();
            record[5] ^= 1;
            let parts = View::range(engine, "_parts", &Scan::all(9)).unwrap();
            let (part, _) = parts[1].clone();
            vec![
                Write { table: "rows", key: b"b".to_vec(), value: Some(record) },
                Write { table: "_parts", key: part, value: None },
            ]
        });
        let store = open(dir, engine).unwrap();
        let damaged = |error: StoreError| assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        damaged(store.get("rows", b"b").unwrap_err());
        damaged(store.range("rows", &Scan::all(9)).unwrap_err());
        damaged(store.get("blobs", b"big").unwrap_err());
        assert_eq!(store.get("rows", b"a").unwrap().unwrap(), b"some value");
        let found = store.survey("rows", &Scan::all(9)).unwrap();
        let whole: Vec<_> = found.iter().map(|(key, value)| (key[0], value.is_ok())).collect();
        assert_eq!(whole, [(b'a', true), (b'b', false), (b'c', true)]);
        let report = store.check().unwrap();
        assert_eq!((report.records, report.damaged), (4, 2));
        let keys: Vec<_> = report.first.iter().map(|damaged| damaged.key.as_slice()).collect();
        assert_eq!(keys, [b"big".as_slice(), b"b".as_slice()]);
        // A good value heals the key.
        put(&store, "rows", b"b", b"new");
        put(&store, "blobs", b"big", b"new");
        assert_eq!(store.check().unwrap().damaged, 0);
    });
}
