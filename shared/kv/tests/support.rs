//! What the tests share: the engines, and a store of each in a directory of its own.

use std::path::Path;

use tempfile::TempDir;
pub use tidings_disk::{noise, pick};
use tidings_kv::{EngineKind, Options, Store, StoreError};

pub const TABLES: &[&str] = &["blobs", "rows"];
pub const DURABLE: [EngineKind; 2] = [EngineKind::Sled, EngineKind::Redb];
pub const ALL: [EngineKind; 3] = [EngineKind::Sled, EngineKind::Redb, EngineKind::Memory];

pub fn options(engine: EngineKind) -> Options {
    Options::new(engine, "tests", TABLES)
}

pub fn open(dir: &Path, engine: EngineKind) -> Result<Store, StoreError> {
    Store::open(dir, options(engine))
}

/// Runs a test on a fresh store of every engine.
pub fn each(test: impl Fn(&Store)) {
    for engine in ALL {
        let dir = TempDir::new().unwrap();
        let store = open(&dir.path().join("store"), engine).unwrap();
        eprintln!("engine {engine}");
        test(&store);
        store.close().unwrap();
    }
}

/// Runs a test on an empty directory for every engine that keeps anything.
pub fn each_durable(test: impl Fn(&Path, EngineKind)) {
    for engine in DURABLE {
        let dir = TempDir::new().unwrap();
        eprintln!("engine {engine}");
        test(&dir.path().join("store"), engine);
    }
}

pub fn put(store: &Store, table: &'static str, key: &[u8], value: &[u8]) {
    let (key, value) = (key.to_vec(), value.to_vec());
    store.run(move |txn| txn.put(table, key, value)).unwrap();
}

/// How often a loop runs: `ordinary`, or what `TIDINGS_KV_ROUNDS` says for a long run at night.
pub fn rounds(ordinary: u64) -> u64 {
    std::env::var("TIDINGS_KV_ROUNDS").map_or(ordinary, |rounds| rounds.parse().unwrap())
}
