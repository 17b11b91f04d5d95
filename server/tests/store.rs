//! One suite over every store: what the server relies on, below HTTP.

use std::collections::{BTreeMap, BTreeSet};

use tidings_proof::{Chain, LaneHead, Replica, SignedManifest};
use tidings_server::Millis;
use tidings_server::config::StoreLocation;
use tidings_server::store::kv::{KvStore, Start};
use tidings_server::store::{
    ChainAppend, HeadersRead, Invite, NewAccount, NewBlob, NewManifest, Pull, Push, PushLimits,
    Pushed, Refusal, Store,
};
use tidings_wire::sync::{DevicePull, Item};
use tidings_wire::{AccountId, Epoch, Hash, Position, Seq, TableTag};

use crate::fixture::device::{app, wrap};
use crate::fixture::{Book, Device, tag};

/// Every engine; directories live as long as the test.
fn engines() -> Vec<(KvStore, tempfile::TempDir)> {
    ["memory", "sled", "redb"]
        .into_iter()
        .map(|engine| {
            let dir = tempfile::tempdir().unwrap();
            let location = match engine {
                "sled" => StoreLocation::Sled(dir.path().join("s")),
                "redb" => StoreLocation::Redb(dir.path().join("s")),
                _ => StoreLocation::Memory,
            };
            (KvStore::open(&location, Start::Serve, None).unwrap(), dir)
        })
        .collect()
}

const NO_LIMITS: PushLimits =
    PushLimits { bytes: None, blobs: None, apps: u64::MAX, lanes: u64::MAX, replicas: u64::MAX };

fn new_account(device: &Device, invite: Option<Hash>) -> (NewAccount, Chain) {
    let genesis = device.genesis();
    let chain = Chain::begin(&genesis).unwrap();
    let new = NewAccount {
        account: chain.account(),
        genesis: genesis.encode(),
        head: chain.head(),
        wraps: vec![(device.id, wrap(Epoch(0), device.id).encode())],
        invite,
        invite_needed: invite.is_some(),
        now: Millis(1_000),
    };
    (new, chain)
}

/// Signs and verifies a push of one table.
fn push(book: &mut Book, chain: &Chain, tag: TableTag, count: usize, now: u64) -> Push {
    let blobs = (0..count)
        .map(|_| {
            let bytes = book.blob(chain, tag, 60);
            let blob = tidings_proof::Blob::parse(&bytes).unwrap();
            let (header, hash) = (blob.header().clone(), blob.hash());
            NewBlob { tag, seq: header.seq, prev: header.prev, hash, bytes: bytes.clone().into() }
        })
        .collect();
    let bytes = book.manifest(chain);
    let verified = SignedManifest::decode(&bytes).unwrap().verify(chain).unwrap();
    let manifest = NewManifest {
        app: book.app.clone(),
        replica: book.device.replica(),
        mark: verified.mark(),
        lanes: verified.manifest().lanes.clone(),
        chain: chain.head(),
        bytes,
    };
    let (account, chain) = (chain.account(), chain.head());
    Push { account, chain, blobs, manifest, now: Millis(now), limits: NO_LIMITS }
}

fn pull(account: AccountId, name: &str) -> Pull {
    Pull {
        account,
        app: app(name),
        own: Replica {
            device: tidings_wire::DeviceId([0xee; 16]),
            incarnation: tidings_wire::Incarnation([0xee; 8]),
        },
        after: Position(0),
        tags: None,
        since: None,
        limit: 1_000,
        bytes: 4 << 20,
        known: BTreeMap::new(),
    }
}

#[tokio::test]
async fn an_account_is_created_once_and_an_invite_used_once() {
    for (store, _dir) in engines() {
        let code = Hash([5; 32]);
        let (new, chain) = new_account(&Device::new(), Some(code));
        assert_eq!(store.create_account(new.clone()).await, Err(Refusal::InviteInvalid));
        let invite = Invite { created: Millis(0), expires: Millis(1_000), note: "past".to_owned() };
        store.add_invite(code, invite.clone()).await.unwrap();
        assert_eq!(store.create_account(new.clone()).await, Err(Refusal::InviteInvalid));
        assert_eq!(store.account(chain.account()).await, Err(Refusal::NoAccount));
        let open = Invite { expires: Millis(2_000), ..invite };
        store.add_invite(code, open.clone()).await.unwrap();
        assert_eq!(store.invites(Millis(1_500)).await.unwrap(), [(code, open)]);
        assert!(store.invites(Millis(2_000)).await.unwrap().is_empty());
        store.create_account(new.clone()).await.unwrap();
        assert!(store.invites(Millis(0)).await.unwrap().is_empty());
        store.create_account(new).await.unwrap();
        let (other, _) = new_account(&Device::new(), Some(code));
        assert_eq!(store.create_account(other).await, Err(Refusal::InviteInvalid));
        let row = store.account(chain.account()).await.unwrap();
        assert_eq!((row.head, row.epoch, row.bytes), (chain.head(), Epoch(0), 0));
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_push_is_whole_and_reads_back_byte_for_byte() {
    for (store, _dir) in engines() {
        let device = Device::new();
        let (new, chain) = new_account(&device, None);
        store.create_account(new).await.unwrap();
        let mut book = Book::new(&device, "notes");
        let first = push(&mut book, &chain, tag(1), 3, 10);
        let done = store.push(first.clone()).await.unwrap();
        assert!(done.first_of_app && !done.already);
        // The clock went back: what is received later is never marked earlier.
        let second = push(&mut book, &chain, tag(2), 2, 5);
        let done = store.push(second.clone()).await.unwrap();
        assert!(!done.first_of_app);
        let page = store.pull(pull(chain.account(), "notes")).await.unwrap();
        let sent = first.blobs.iter().chain(&second.blobs).map(|blob| blob.bytes.to_vec());
        let read = page.entries.iter().map(|entry| match &entry.item {
            Item::Blob(bytes) => bytes.to_vec(),
            other => panic!("{other:?}"),
        });
        assert!(sent.eq(read));
        assert!(page.entries.iter().all(|entry| entry.received_ms == 10));
        assert_eq!(page.manifests, std::slice::from_ref(&second.manifest.bytes));
        assert_eq!(page.head, done.position.unwrap());

        // A hole: nothing of the push is kept, not even what would have followed.
        let mut torn = push(&mut book.clone(), &chain, tag(1), 3, 10);
        torn.blobs.remove(1);
        let gap = Refusal::LaneGap { have: Seq(4), sent: Seq(6) };
        assert_eq!(store.push(torn).await, Err(gap));
        let again = store.pull(pull(chain.account(), "notes")).await.unwrap();
        assert_eq!(again, page);
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn repeats_come_before_every_other_check() {
    for (store, _dir) in engines() {
        let device = Device::new();
        let (new, mut chain) = new_account(&device, None);
        store.create_account(new).await.unwrap();
        let mut book = Book::new(&device, "notes");
        let sent = push(&mut book, &chain, tag(1), 2, 10);
        let done = store.push(sent.clone()).await.unwrap();
        append(&store, &device, &mut chain).await.unwrap();
        let again = store.push(sent.clone()).await.unwrap();
        assert_eq!(
            again,
            Pushed { already: true, first_of_app: false, chain: chain.head(), ..done }
        );
        let mut other = push(&mut book.clone(), &chain, tag(1), 1, 10);
        other.chain = sent.chain;
        assert_eq!(store.push(other).await, Err(Refusal::ChainMoved(chain.head())));
        let limits = PushLimits { bytes: Some(10), ..NO_LIMITS };
        let mut full = push(&mut book.clone(), &chain, tag(1), 1, 10);
        full.limits = limits;
        assert_eq!(store.push(full).await, Err(Refusal::Quota("bytes")));
        let again = store.push(Push { limits, ..sent }).await.unwrap();
        assert!(again.already);
        store.close().await.unwrap();
    }
}

/// Appends an entry that names the device.
async fn append(store: &KvStore, device: &Device, chain: &mut Chain) -> Result<(), Refusal> {
    append_within(store, device, chain, 1 << 20).await
}

async fn append_within(
    store: &KvStore,
    device: &Device,
    chain: &mut Chain,
    most_bytes: u64,
) -> Result<(), Refusal> {
    let body = tidings_proof::EntryBody::Name { device: device.id, sealed: vec![1; 40] };
    let entry = device.entry(chain, body);
    let before = chain.head();
    chain.extend(&entry).unwrap();
    let append = ChainAppend {
        account: chain.account(),
        before,
        after: chain.head(),
        entry: entry.encode(),
        epoch: chain.newest_epoch(),
        wraps: Vec::new(),
        earlier: None,
        revoked: BTreeSet::new(),
        cuts: BTreeSet::new(),
        most: 1_000,
        most_bytes,
    };
    store.append_chain(append).await
}

#[tokio::test]
async fn a_chain_is_read_in_pages_and_appended_by_compare_and_set() {
    for (store, _dir) in engines() {
        let device = Device::new();
        let (new, mut chain) = new_account(&device, None);
        store.create_account(new).await.unwrap();
        let mut stale = chain.clone();
        for _ in 0..5 {
            append(&store, &device, &mut chain).await.unwrap();
        }
        let page = store.chain(chain.account(), 1, 3).await.unwrap();
        assert_eq!((page.entries.len(), page.head), (3, chain.head()));
        let error = append(&store, &device, &mut stale).await;
        assert_eq!(error, Err(Refusal::ChainMoved(chain.head())));
        assert_eq!(store.chain(chain.account(), 6, 3).await.unwrap().entries.len(), 0);
        let ring = store.keyring(chain.account(), device.id).await.unwrap();
        assert_eq!(ring.len(), 1);
        assert!(ring[0].wrap.is_some());
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn pages_merge_tags_in_order_and_skip_the_callers_own() {
    for (store, _dir) in engines() {
        let device = Device::new();
        let (new, chain) = new_account(&device, None);
        store.create_account(new).await.unwrap();
        let account = chain.account();
        let mut one = Book::new(&device, "notes");
        let mut twin = device.clone();
        twin.incarnation = tidings_wire::Incarnation([3; 8]);
        let mut two = Book::new(&twin, "notes");
        for round in 0..300u64 {
            let table = tag((round % 5) as u8);
            let book = if round % 3 == 0 { &mut two } else { &mut one };
            store.push(push(book, &chain, table, 1, round)).await.unwrap();
        }
        let count = |pull: Pull| {
            let store = &store;
            async move {
                let mut pull = pull;
                let (mut entries, mut pages) = (Vec::new(), 0);
                loop {
                    let page = store.pull(pull.clone()).await.unwrap();
                    assert!(page.position > pull.after || page.entries.is_empty());
                    entries.extend(page.entries);
                    pages += 1;
                    pull.after = page.position;
                    if !page.has_more {
                        assert_eq!(page.position, page.head);
                        assert!(entries.is_sorted_by_key(|entry| entry.position));
                        return (entries.len(), pages);
                    }
                }
            }
        };
        let all = pull(account, "notes");
        assert_eq!(count(all.clone()).await, (300, 1));
        assert_eq!(count(Pull { limit: 7, ..all.clone() }).await, (300, 43));
        let own = Pull { own: twin.replica(), ..all.clone() };
        assert_eq!(count(own.clone()).await, (200, 1));
        let tags = Some(BTreeSet::from([tag(1), tag(4)]));
        assert_eq!(count(Pull { tags: tags.clone(), ..all.clone() }).await, (120, 1));
        let some = Pull { tags, limit: 11, ..own };
        assert_eq!(count(some).await, (80, 8));
        let since = Pull { since: Some(Millis(290)), ..all.clone() };
        assert_eq!(count(since).await, (10, 1));
        let known = BTreeMap::from([(device.replica(), one.n)]);
        let page = store.pull(Pull { known, limit: 1, ..all }).await.unwrap();
        assert_eq!((page.manifest_heads.len(), page.manifests.len()), (2, 1));

        let (replica, table) = (device.replica(), tag(1));
        let read = HeadersRead {
            account,
            app: app("notes"),
            replica,
            tag: table,
            from: Seq(1),
            limit: 1_000,
        };
        let headers = store.headers(read).await.unwrap();
        assert_eq!(headers.headers.len() as u64, one.lanes[&table].seq.0);
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn accounts_are_apart_and_removed_whole() {
    for (store, _dir) in engines() {
        let (one, two) = (Device::new(), Device::new());
        let (new_one, chain_one) = new_account(&one, None);
        let (new_two, chain_two) = new_account(&two, None);
        store.create_account(new_one.clone()).await.unwrap();
        store.create_account(new_two).await.unwrap();
        let mut book_one = Book::new(&one, "notes");
        let mut book_two = Book::new(&two, "notes");
        for _ in 0..40 {
            store.push(push(&mut book_one, &chain_one, tag(1), 20, 5)).await.unwrap();
        }
        store.push(push(&mut book_two, &chain_two, tag(1), 2, 5)).await.unwrap();
        store.note_pull(
            chain_one.account(),
            DevicePull {
                app_id: app("notes"),
                device_id: one.id,
                incarnation: one.incarnation,
                position: Position(7),
                at_ms: 9,
            },
        );
        let usage = store.usage(chain_one.account()).await.unwrap();
        assert_eq!(usage.account.blobs, 800);
        store.delete_account(chain_one.account()).await.unwrap();
        for _ in 0..2 {
            assert_eq!(store.account(chain_one.account()).await, Err(Refusal::NoAccount));
            assert_eq!(store.apps(chain_one.account()).await, Err(Refusal::NoAccount));
            let gone = store.push(push(&mut book_one, &chain_one, tag(1), 1, 5)).await;
            assert_eq!(gone, Err(Refusal::NoAccount));
            let gone = store.pull(pull(chain_one.account(), "notes")).await;
            assert_eq!(gone, Err(Refusal::NoAccount));
        }
        let page = store.pull(pull(chain_two.account(), "notes")).await.unwrap();
        assert_eq!(page.entries.len(), 2);
        // The same account again begins with nothing.
        store.create_account(new_one).await.unwrap();
        assert!(store.apps(chain_one.account()).await.unwrap().is_empty());
        let page = store.pull(pull(chain_one.account(), "notes")).await.unwrap();
        assert_eq!((page.entries.len(), page.head), (0, Position(0)));
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn manifests_and_chains_have_their_limits() {
    for (store, _dir) in engines() {
        let device = Device::new();
        let (new, mut chain) = new_account(&device, None);
        store.create_account(new).await.unwrap();
        let mut book = Book::new(&device, "notes");
        let first = push(&mut book, &chain, tag(1), 1, 5);
        let sizes = (first.blobs[0].bytes.len() + first.manifest.bytes.len()) as u64;
        store.push(first).await.unwrap();
        let bytes = || async { store.account(chain.account()).await.unwrap().bytes };
        assert_eq!(bytes().await, sizes);
        // A manifest takes the place of the one before, and a full account may still send one.
        let full = PushLimits { bytes: Some(sizes), ..NO_LIMITS };
        let bare = push(&mut book, &chain, tag(1), 0, 5);
        store.push(Push { limits: full, ..bare }).await.unwrap();
        assert_eq!(bytes().await, sizes);
        let more = push(&mut book.clone(), &chain, tag(1), 1, 5);
        assert_eq!(store.push(Push { limits: full, ..more }).await, Err(Refusal::Quota("bytes")));
        // Replicas without end.
        let few = PushLimits { replicas: 2, ..NO_LIMITS };
        for n in 0..3u8 {
            let mut copy = device.clone();
            copy.incarnation = tidings_wire::Incarnation([n; 8]);
            let mut book = Book::new(&copy, "notes");
            let bare = push(&mut book, &chain, tag(1), 0, 5);
            let manifest = bare.manifest.clone();
            let pushed = store.push(Push { limits: few, ..bare }).await;
            let put = store.put_manifests(chain.account(), chain.head(), vec![manifest], few).await;
            match n {
                0 => assert!(pushed.is_ok() && put == Ok(0)),
                _ => {
                    assert_eq!(pushed, Err(Refusal::Quota("replicas")));
                    assert_eq!(put, Err(Refusal::Quota("replicas")));
                }
            }
        }
        // Nor does a chain grow for ever.
        let mut entries = 0;
        while let Ok(()) = append_within(&store, &device, &mut chain, 8_000).await {
            entries += 1;
        }
        assert!((5..100).contains(&entries), "{entries}");
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn what_was_verified_before_a_revocation_is_not_put_back_after_it() {
    for (store, _dir) in engines() {
        let device = Device::new();
        let (new, mut chain) = new_account(&device, None);
        store.create_account(new).await.unwrap();
        let mut book = Book::new(&device, "notes");
        let verified_at = chain.head();
        let beyond = push(&mut book, &chain, tag(1), 0, 5).manifest;
        append(&store, &device, &mut chain).await.unwrap();
        let put = store.put_manifests(chain.account(), verified_at, vec![beyond], NO_LIMITS).await;
        assert_eq!(put, Err(Refusal::ChainMoved(chain.head())));
        assert!(store.manifests(chain.account(), device.id).await.unwrap().is_empty());
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn what_was_stored_is_there_after_a_restart() {
    for engine in ["sled", "redb"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let location = match engine {
            "sled" => StoreLocation::Sled(path),
            _ => StoreLocation::Redb(path),
        };
        let device = Device::new();
        let (new, chain) = new_account(&device, None);
        let store = KvStore::open(&location, Start::Serve, None).unwrap();
        store.create_account(new).await.unwrap();
        let mut book = Book::new(&device, "notes");
        store.push(push(&mut book, &chain, tag(1), 5, 5)).await.unwrap();
        let before = store.pull(pull(chain.account(), "notes")).await.unwrap();
        let (key, generation) = (*store.token_key(), store.timeline().generation);
        store.close().await.unwrap();
        drop(store);

        // A command in between writes no start.
        let store = KvStore::open(&location, Start::Command, None).unwrap();
        assert_eq!(store.timeline().starts.len(), 1);
        store.close().await.unwrap();
        drop(store);
        let store = KvStore::open(&location, Start::Serve, None).unwrap();
        assert_eq!((*store.token_key(), store.timeline().generation), (key, generation));
        let starts = &store.timeline().starts;
        assert_eq!((starts.len(), starts[1].1), (2, before.head));
        assert_eq!(store.pull(pull(chain.account(), "notes")).await.unwrap(), before);
        let next = store.push(push(&mut book, &chain, tag(1), 1, 5)).await.unwrap();
        assert!(next.position.unwrap() > before.head);
        let lane = book.lanes[&tag(1)];
        assert_eq!(lane, LaneHead { seq: Seq(6), ..lane });
        store.close().await.unwrap();
    }
}
