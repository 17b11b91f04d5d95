//! `tidings-server compact`: disk space that deleted data took comes back, beside a running server
//! and without one, and what a full disk and a closed store say.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde_json::Value;
use tidings_proof::{LaneHead, Replica};
use tidings_server::Millis;
use tidings_server::config::StoreLocation;
use tidings_server::store::kv::{KvStore, Start};
use tidings_server::store::{NewAccount, NewBlob, NewManifest, Pull, Push, PushLimits, Store};
use tidings_wire::sync::{ChainHead, ManifestMark};
use tidings_wire::{
    AccountId, AppId, ChainIndex, DeviceId, Hash, Incarnation, ManifestNumber, Position, Seq,
    TableTag,
};

use crate::cli::{Running, run, text};

const HEAD: ChainHead = ChainHead { index: ChainIndex(0), hash: Hash([3; 32]) };
const REPLICA: Replica = Replica { device: DeviceId([4; 16]), incarnation: Incarnation([5; 8]) };
const TAG: TableTag = TableTag([1; 16]);
const BLOB: usize = 60_000;

fn app() -> AppId {
    "notes".parse().unwrap()
}

/// Puts so many blobs into a new account.
async fn fill(store: &KvStore, account: AccountId, blobs: u64) {
    let new = NewAccount {
        account,
        genesis: vec![1],
        head: HEAD,
        wraps: Vec::new(),
        invite: None,
        invite_needed: false,
        now: Millis(1),
    };
    store.create_account(new).await.unwrap();
    let mut prev = Hash::ZERO;
    let pushed: Vec<_> = (1..=blobs)
        .map(|n| {
            let hash = Hash([n as u8; 32]);
            let bytes = tidings_disk::noise(n, BLOB).into();
            let blob = NewBlob { tag: TAG, seq: Seq(n), prev, hash, bytes };
            prev = hash;
            blob
        })
        .collect();
    let manifest = NewManifest {
        app: app(),
        replica: REPLICA,
        mark: ManifestMark { n: ManifestNumber(1), hash: prev },
        lanes: BTreeMap::from([(TAG, LaneHead { seq: Seq(blobs), hash: prev })]),
        chain: HEAD,
        bytes: vec![9],
    };
    let limits = PushLimits { bytes: None, blobs: None, apps: 9, lanes: 9, replicas: 9 };
    let (chain, now) = (HEAD, Millis(2));
    store.push(Push { account, chain, blobs: pushed, manifest, now, limits }).await.unwrap();
}

const KEPT: AccountId = AccountId([1; 16]);
const GONE: AccountId = AccountId([2; 16]);

/// A store of which most was deleted.
async fn churned(location: &StoreLocation) {
    let store = KvStore::open(location, Start::Serve, None).unwrap();
    fill(&store, KEPT, 60).await;
    fill(&store, GONE, 700).await;
    store.delete_account(GONE).await.unwrap();
    store.close().await.unwrap();
}

/// What is kept is there, byte for byte.
async fn whole(location: &StoreLocation) {
    let store = KvStore::open(location, Start::Command, None).unwrap();
    let own = Replica { device: DeviceId([8; 16]), ..REPLICA };
    let pull = Pull {
        account: KEPT,
        app: app(),
        own,
        after: Position(0),
        tags: None,
        since: None,
        limit: 100,
        bytes: 100 << 20,
        known: BTreeMap::new(),
    };
    let page = store.pull(pull).await.unwrap();
    assert_eq!(page.entries.len(), 60);
    for (n, entry) in (1..).zip(&page.entries) {
        let tidings_wire::sync::Item::Blob(bytes) = &entry.item else { panic!("{entry:?}") };
        assert!(bytes.to_vec() == tidings_disk::noise(n, BLOB));
    }
    store.close().await.unwrap();
}

/// Bytes that a directory takes, as `du` counts them.
fn du(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let size = |entry: std::fs::DirEntry| match entry.metadata().unwrap() {
        meta if meta.is_dir() => du(&entry.path()),
        meta => meta.blocks() * 512,
    };
    entries.map(size).sum()
}

fn compacted(home: &Path, store: &str) -> (u64, u64) {
    let out = run(home, &["compact", "--json", "--store", store]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let done: Value = serde_json::from_slice(&out.stdout).unwrap();
    (done["before"].as_u64().unwrap(), done["after"].as_u64().unwrap())
}

async fn gives_space_back(engine: &str, beside_a_server: bool) {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    let location = match engine {
        "sled" => StoreLocation::Sled(dir.clone()),
        _ => StoreLocation::Redb(dir.clone()),
    };
    churned(&location).await;
    let live = 60 * BLOB as u64;
    assert!(du(&dir) > 6 * live, "{} bytes", du(&dir));
    let store = format!("{engine}:{}", dir.display());
    let server = beside_a_server.then(|| Running::start(home.path(), &["--store", &store]));
    let (before, after) = compacted(home.path(), &store);
    let now = du(&dir);
    eprintln!("{engine}: {before} -> {after}, du {now}, live {live}");
    assert!(now <= 4 * live, "{now} bytes on disk, {live} live");
    assert!(after <= before && after <= now);
    if let Some(mut server) = server {
        assert_eq!(server.client().get("/readyz").await.status, 200);
        server.signal("-TERM");
        assert_eq!(server.wait(), Some(0));
    }
    whole(&location).await;
}

#[tokio::test]
async fn space_comes_back_on_sled() {
    gives_space_back("sled", false).await;
}

#[tokio::test]
async fn space_comes_back_on_sled_beside_a_server() {
    gives_space_back("sled", true).await;
}

#[tokio::test]
async fn space_comes_back_on_redb() {
    gives_space_back("redb", false).await;
}

#[tokio::test]
async fn space_comes_back_on_redb_beside_a_server() {
    gives_space_back("redb", true).await;
}

#[test]
fn people_read_what_was_gained_or_why_not() {
    let home = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", home.path().join("store").display());
    let out = run(home.path(), &["compact", "--store", &store]);
    let said = text(&out.stdout);
    assert!(said.starts_with("The store took ") || said.starts_with("There was nothing"), "{said}");
    let out = run(home.path(), &["compact", "--store", "memory:"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("the store is in memory"), "{}", text(&out.stderr));
}
