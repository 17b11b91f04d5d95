//! What the tests share: the engines, and a store of each in a directory of its own.

use std::path::Path;

use tempfile::TempDir;
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

/// Bytes that look random and depend on the seed only (splitmix64).
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(length + 8);
    // A plain loop: the tests are not optimised, and make many megabytes of it.
    while bytes.len() < length {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// A number below `limit` that depends on the seed only.
pub fn pick(seed: u64, limit: u64) -> u64 {
    u64::from_le_bytes(noise(seed, 8).try_into().unwrap()) % limit
}

/// How often a loop runs: `ordinary`, or what `TIDINGS_KV_ROUNDS` says for a long run at night.
pub fn rounds(ordinary: u64) -> u64 {
    std::env::var("TIDINGS_KV_ROUNDS").map_or(ordinary, |rounds| rounds.parse().unwrap())
}
