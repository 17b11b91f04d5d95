//! Records that are not what was written: served as entries without bytes, never skipped and never
//! in the way of the others.

use std::collections::{BTreeMap, BTreeSet};

use tidings_proof::{LaneHead, Replica};
use tidings_wire::sync::{ChainHead, Item, ManifestMark};
use tidings_wire::{
    AccountId, AppId, ChainIndex, DeviceId, Hash, Incarnation, ManifestNumber, Position, Seq,
    TableTag,
};

use super::keys::{Place, Prefix};
use super::{KvStore, Start, table};
use crate::clock::Millis;
use crate::config::StoreLocation;
use crate::store::{NewAccount, NewBlob, NewManifest, Pull, Push, PushLimits, Refusal, Store as _};

const ACCOUNT: AccountId = AccountId([1; 16]);
const HEAD: ChainHead = ChainHead { index: ChainIndex(0), hash: Hash([3; 32]) };
const REPLICA: Replica = Replica { device: DeviceId([4; 16]), incarnation: Incarnation([5; 8]) };

fn tag(seq: u64) -> TableTag {
    TableTag([(seq % 2) as u8; 16])
}

async fn filled(blobs: u64) -> KvStore {
    let store = KvStore::open(&StoreLocation::Memory, Start::Serve, None).unwrap();
    let new = NewAccount {
        account: ACCOUNT,
        genesis: vec![1],
        head: HEAD,
        wraps: Vec::new(),
        invite: None,
        invite_needed: false,
        now: Millis(1),
    };
    store.create_account(new).await.unwrap();
    let mut lanes: BTreeMap<TableTag, LaneHead> = BTreeMap::new();
    for n in 1..=blobs {
        let head = lanes.get(&tag(n)).copied().unwrap_or(LaneHead::EMPTY);
        let (seq, hash) = (Seq(head.seq.0 + 1), Hash([n as u8; 32]));
        let bytes = vec![n as u8; 50].into();
        let blob = NewBlob { tag: tag(n), seq, prev: head.hash, hash, bytes };
        lanes.insert(tag(n), LaneHead { seq, hash });
        let manifest = NewManifest {
            app: app(),
            replica: REPLICA,
            mark: ManifestMark { n: ManifestNumber(n), hash },
            lanes: lanes.clone(),
            chain: HEAD,
            bytes: vec![9],
        };
        let limits = PushLimits { bytes: None, blobs: None, apps: 9, lanes: 9, replicas: 9 };
        let push = Push {
            account: ACCOUNT,
            chain: HEAD,
            blobs: vec![blob],
            manifest,
            now: Millis(n * 10),
            limits,
        };
        store.push(push).await.unwrap();
    }
    store
}

fn app() -> AppId {
    "notes".parse().unwrap()
}

fn pull() -> Pull {
    Pull {
        account: ACCOUNT,
        app: app(),
        own: Replica { device: DeviceId([9; 16]), incarnation: Incarnation([9; 8]) },
        after: Position(0),
        tags: None,
        since: None,
        limit: 1_000,
        bytes: 1 << 20,
        known: BTreeMap::new(),
    }
}

fn spoil(store: &KvStore, table: &'static str, key: Vec<u8>) {
    store
        .kv
        .run(move |txn| -> Result<(), Refusal> { Ok(txn.put(table, key, b"spoiled".to_vec())?) })
        .unwrap();
}

#[tokio::test]
async fn a_damaged_record_keeps_its_place_and_harms_no_other() {
    let store = filled(9).await;
    let prefix = Prefix::new(ACCOUNT, 1);
    spoil(&store, table::LOG, prefix.log(Place::first(Position(4))));
    for tags in [None, Some(BTreeSet::from([tag(0), tag(1)]))] {
        let page = store.pull(Pull { tags, ..pull() }).await.unwrap();
        let positions: Vec<u64> = page.entries.iter().map(|entry| entry.position.0).collect();
        assert_eq!(positions, (1..=9).collect::<Vec<_>>());
        for entry in &page.entries {
            let damaged = entry.item == Item::Damaged;
            assert_eq!(damaged, entry.position == Position(4));
        }
    }
    // It has no time, so that it passes wherever it may.
    for (since, count) in [(35, 6), (40, 6), (45, 6), (51, 4), (0, 9)] {
        let page = store.pull(Pull { since: Some(Millis(since)), ..pull() }).await.unwrap();
        assert_eq!(page.entries.len(), count, "since {since}");
    }
}

#[tokio::test]
async fn a_damaged_index_entry_does_not_hide_its_blob() {
    let store = filled(4).await;
    let prefix = Prefix::new(ACCOUNT, 1);
    spoil(&store, table::TAGS, prefix.tagged(tag(2), Place::first(Position(2))));
    let page = store.pull(Pull { tags: Some([tag(2)].into()), ..pull() }).await.unwrap();
    assert_eq!(page.entries.len(), 2);
    assert!(page.entries.iter().all(|entry| entry.item != Item::Damaged));
}

#[tokio::test]
async fn a_removal_that_was_cut_short_is_finished_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let location = StoreLocation::Redb(dir.path().join("s"));
    let store = KvStore::open(&location, Start::Serve, None).unwrap();
    let new = NewAccount {
        account: ACCOUNT,
        genesis: vec![1],
        head: HEAD,
        wraps: Vec::new(),
        invite: None,
        invite_needed: false,
        now: Millis(1),
    };
    store.create_account(new).await.unwrap();
    store
        .kv
        .run(|txn| {
            let record = super::account::record(txn, ACCOUNT)?;
            let removing = super::records::AccountRecord { removing: true, ..record };
            super::account::put(txn, ACCOUNT, &removing)
        })
        .unwrap();
    assert_eq!(store.account(ACCOUNT).await, Err(Refusal::NoAccount));
    store.close().await.unwrap();
    drop(store);
    let store = KvStore::open(&location, Start::Serve, None).unwrap();
    let left = super::usage::all(&store.kv, table::CHAIN, &ACCOUNT.0).unwrap();
    assert!(left.is_empty());
    let left = super::usage::all(&store.kv, table::ACCOUNTS, &ACCOUNT.0).unwrap();
    assert!(left.is_empty());
}
