//! Freezing, pages, quarantine and new incarnations over real stores and real keys, without a
//! network: what one replica freezes is handed to another as a page.

mod apart;

use std::sync::Arc;

use minicbor::bytes::ByteVec;
use tidings_crypto::{DeviceKeys, Keyring, entries, random};
use tidings_engine::{
    AccountFacts, ChainVerdict, Engine, EngineConfig, EngineStart, Output, PullOrder, RenewCause,
    Retried, Testimony, Time,
};
use tidings_proof::{Chain, SignedManifest};
use tidings_tables::{Object, RowId, TableName, Value};
use tidings_wire::local::{LogPosition, Origin};
use tidings_wire::sync::{Entry, Item, ManifestHead, PullResponse};
use tidings_wire::{AppId, Epoch, Generation, Position, Seq, ServerId, StartId, limits};

use super::freeze::{self, Freezer};
use super::gate::Gate;
use super::{page, quarantine, records, renew, start};
use crate::clock::Clock;
use crate::replica::{Operation, Replica, StoredRow, Verb, WriteRequest, outbox};
use crate::status::Status;
use crate::store::{Durability, Store, StoreError};
use crate::vault::{AccountRecord, Keystore, KeystoreKind, Secrets, Unlocked, Vault};

const NOW: i64 = 1_790_000_000_000;

fn app() -> AppId {
    "notes".parse().unwrap()
}

/// A computer of an account: replica and unlocked vault.
struct Computer {
    replica: Replica,
    vault: Vault,
    _dir: tempfile::TempDir,
}

impl Computer {
    async fn new(keys: Arc<DeviceKeys>, keyring: Keyring, chain: &[entries::NewEntry]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::memory().unwrap();
        let keystore = Keystore::new(dir.path().join("keys"), "test");
        let vault = Vault::new(store.clone(), keystore);
        let record = AccountRecord {
            account: keyring.account(),
            device: keys.id(),
            server: ServerId([0; 32]),
            url: "https://example.org".to_owned(),
            authority: None,
            keystore: KeystoreKind::File,
            name: "test".to_owned(),
            joining: false,
        };
        let entries = chain.iter().map(|new| new.entry.clone()).collect();
        vault.found(record, Secrets { keys, keyring }, entries).await.unwrap();
        let status = Status::new("test");
        let replica = Replica::open(store, Clock::manual(NOW), status).unwrap();
        replica.clock().learn_server_offset(0);
        Self { replica, vault, _dir: dir }
    }

    /// Two computers of one account.
    async fn pair() -> (Self, Self) {
        let [a, b, _] = Self::trio().await;
        (a, b)
    }

    /// Two computers of one account, and the second as it would be without the account's secret.
    async fn trio() -> [Self; 3] {
        let rng = &mut random::system();
        let (a, b) = (DeviceKeys::generate(rng), DeviceKeys::generate(rng));
        let mut genesis = entries::genesis(&a, rng).unwrap();
        let (epoch, secret) = genesis.secret.take().unwrap();
        let empty = Keyring::new(genesis.chain.account());
        let mut keyring = empty.clone();
        keyring.insert(&genesis.chain, epoch, secret).unwrap();
        let co = b.co_sign(genesis.chain.account(), genesis.chain.next_index());
        let added = entries::add_device(&a, &genesis.chain, &keyring, b.public(), co, rng).unwrap();
        let (chain, b) = ([genesis, added], Arc::new(b));
        [
            Self::new(Arc::new(a), keyring.clone(), &chain).await,
            Self::new(Arc::clone(&b), keyring, &chain).await,
            Self::new(b, empty, &chain).await,
        ]
    }

    fn unlocked(&self) -> Arc<Unlocked> {
        self.vault.unlocked().unwrap()
    }

    async fn put(&self, table: &str, row: &str, text: &str) -> LogPosition {
        let operation = Operation {
            table: TableName::new(table).unwrap(),
            id: RowId::new(row).unwrap(),
            verb: Verb::Put(Object::from([("t", Value::from(text))])),
            condition: None,
        };
        let origin = Origin { client: "test".to_owned(), mutation_id: None };
        let request = WriteRequest { operations: vec![operation], atomic: true, origin };
        self.replica.write(&app(), request).await.unwrap().position
    }

    fn row(&self, table: &str, row: &str) -> Option<StoredRow> {
        let (table, row) = (TableName::new(table).unwrap(), RowId::new(row).unwrap());
        let read = |source: &_| Replica::row(source, &app(), &table, &row);
        self.replica.store().read_blocking(read).unwrap()
    }

    fn text(&self, table: &str, row: &str) -> Option<String> {
        let columns = self.row(table, row)?.image()?.columns;
        Some(columns.get("t")?.to_string().trim_matches('"').to_owned())
    }

    /// Freezes up to so many bytes of the outbox; whether there was anything.
    async fn freeze(&self, max_bytes: usize) -> bool {
        let unlocked = self.unlocked();
        self.replica
            .update(&app(), Durability::Synced, move |txn| {
                let incarnation = Replica::identity(txn)?.incarnation;
                let (app, testimony) = (app(), Testimony::default());
                let freezer = Freezer {
                    unlocked: &unlocked,
                    app: &app,
                    incarnation,
                    testimony: &testimony,
                    now_ms: NOW,
                };
                match freezer.freeze(txn, max_bytes)? {
                    Some(sealed) => Ok(sealed.store(txn, &app, incarnation)?.is_some()),
                    None => Ok::<_, freeze::FreezeError>(false),
                }
            })
            .await
            .unwrap()
    }

    /// What is frozen: blobs and manifest.
    fn frozen(&self) -> (Vec<Vec<u8>>, SignedManifest) {
        self.replica
            .store()
            .read_blocking(|source| {
                let frozen = records::frozen(source, &app())?.unwrap();
                let manifest = SignedManifest::decode(&frozen.manifest).unwrap();
                Ok::<_, StoreError>((records::frozen_blobs(source, &app())?, manifest))
            })
            .unwrap()
    }

    async fn settle(&self) {
        self.replica
            .update(&app(), Durability::Synced, |txn| {
                let frozen = records::frozen(txn, &app())?.unwrap();
                freeze::settle(txn, &app(), frozen.incarnation, frozen.n)
            })
            .await
            .unwrap();
    }

    fn pending(&self) -> usize {
        self.replica
            .store()
            .read_blocking(|source| outbox::prefix(source, &app(), usize::MAX / 2))
            .unwrap()
            .len()
    }

    fn start(&self) -> EngineStart {
        let unlocked = self.unlocked();
        self.replica.store().read_blocking(|source| start::read(source, &unlocked)).unwrap()
    }

    /// Gives a page to a fresh engine over this store and stores what it makes of it.
    async fn take(&self, response: PullResponse) -> tidings_engine::PagePlan {
        self.take_with(self.unlocked(), response).await
    }

    /// The same with other keys than its own.
    async fn take_with(
        &self,
        unlocked: Arc<Unlocked>,
        response: PullResponse,
    ) -> tidings_engine::PagePlan {
        let now = Time::from_millis(1);
        let mut start = self.start();
        if start.apps.is_empty() {
            start.apps.push(tidings_engine::AppStart::new(app()));
        }
        let mut engine = Engine::new(EngineConfig::default(), 1, start, now);
        engine.handle_token(now, std::time::Duration::from_secs(900));
        let order = pull_order(&mut engine);
        let opened = page::open_page(&unlocked, &app(), response);
        let plan = match engine.handle_page(now, &order, &opened.facts) {
            Some(plan) => plan,
            None => {
                // A key is missing: reading the account does not bring it.
                let facts = AccountFacts {
                    chain: ChainVerdict::Known,
                    chain_shorter: false,
                    changed: false,
                    apps: [app()].into(),
                };
                engine.handle_account(now, facts);
                let order = pull_order(&mut engine);
                engine.handle_page(now, &order, &opened.facts).unwrap()
            }
        };
        let own = engine.own().incarnation;
        page::store_page(&self.replica, &unlocked, opened, &plan, own, NOW).await.unwrap();
        plan
    }
}

/// The pull that is ordered. What lies in quarantine stays there.
fn pull_order(engine: &mut Engine) -> PullOrder {
    loop {
        match engine.poll_output().expect("a pull is ordered") {
            Output::Pull(order) => return order,
            Output::RetryQuarantine(app) => {
                engine.handle_retried(Time::from_millis(1), &app, Some(Retried::default()));
            }
            _ => {}
        }
    }
}

/// A page of these entries, each at its own position, with these manifests.
fn response(chain: &Chain, blobs: Vec<Vec<u8>>, manifests: &[SignedManifest]) -> PullResponse {
    let entries = (1..).zip(blobs).map(|(at, blob)| Entry {
        position: Position(at),
        received_ms: 0,
        item: Item::Blob(blob.into()),
    });
    let entries: Vec<Entry> = entries.collect();
    let position = Position(entries.len() as u64);
    PullResponse {
        generation: Generation([1; 8]),
        start: StartId([1; 8]),
        reset: None,
        entries,
        cursor: ByteVec::from(vec![1]),
        position,
        part: 0,
        has_more: false,
        head: position,
        manifest_heads: manifests
            .iter()
            .map(|signed| ManifestHead {
                device: signed.manifest.replica.device,
                incarnation: signed.manifest.replica.incarnation,
                n: signed.manifest.n,
                hash: signed.manifest.hash(),
            })
            .collect(),
        manifests: manifests.iter().map(|signed| signed.encode().into()).collect(),
        anchors: Vec::new(),
        chain: chain.head(),
        epoch: Epoch(0),
        now_ms: NOW as u64,
    }
}

#[tokio::test]
async fn what_an_account_that_was_not_joined_would_have_shown_is_forgotten() {
    let store = Store::memory().unwrap();
    let replica = tidings_proof::Replica {
        device: tidings_wire::DeviceId([1; 16]),
        incarnation: tidings_wire::Incarnation([2; 8]),
    };
    let apps: [AppId; 2] = ["notes".parse().unwrap(), "notes.two".parse().unwrap()];
    let mark = tidings_wire::sync::ManifestMark {
        n: tidings_wire::ManifestNumber(7),
        hash: tidings_wire::Hash([3; 32]),
    };
    let named = apps.clone();
    let put = move |txn: &mut crate::store::Txn<'_>| {
        for app in &named {
            records::put_floor(txn, app, &replica, &mark)?;
            records::put_manifest(txn, app, &replica, b"kept")?;
        }
        Ok::<_, StoreError>(())
    };
    store.write(Durability::Synced, put).await.unwrap();
    store.write(Durability::Synced, records::clear_floors).await.unwrap();
    for app in apps {
        let left = store.read(move |view| {
            let floors = records::floors(view, &app)?;
            Ok::<_, StoreError>((floors.len(), records::manifests(view, &app)?.len()))
        });
        assert_eq!(left.await.unwrap(), (0, 1));
    }
}

#[tokio::test]
async fn what_one_freezes_another_applies() {
    let (a, b) = Computer::pair().await;
    a.put("t", "1", "first").await;
    a.put("t", "1", "second").await;
    a.put("u", "1", "other table").await;
    assert!(a.freeze(limits::PUSH_BODY).await);
    let (blobs, manifest) = a.frozen();
    assert_eq!(blobs.len(), 2, "a blob per table");
    assert_eq!(manifest.manifest.lanes.len(), 2);
    assert_eq!(manifest.manifest.n.0, 1);
    let plan = b.take(response(&a.unlocked().chain, blobs, &[manifest])).await;
    assert_eq!(plan.apply.len(), 2);
    assert_eq!(b.text("t", "1").as_deref(), Some("second"));
    assert_eq!(b.text("u", "1").as_deref(), Some("other table"));
    let start = b.start();
    assert_eq!(start.apps[0].lanes.len(), 2);
    assert_eq!(start.apps[0].manifests.len(), 1);
    assert!(start.apps[0].record.complete);
}

#[tokio::test]
async fn a_row_written_more_than_once_before_it_is_sent_is_the_same_on_both_sides() {
    let (a, b) = Computer::pair().await;
    for text in ["first", "second", "third"] {
        a.put("t", "1", text).await;
    }
    assert!(a.freeze(limits::PUSH_BODY).await);
    let (blobs, manifest) = a.frozen();
    b.take(response(&a.unlocked().chain, blobs, &[manifest])).await;
    let (ours, theirs) = (a.row("t", "1").unwrap(), b.row("t", "1").unwrap());
    assert_eq!(ours.state.encode(), theirs.state.encode());
}

#[tokio::test]
async fn a_page_that_was_planned_for_an_earlier_incarnation_is_not_stored() {
    let (a, b) = Computer::pair().await;
    a.put("t", "1", "first").await;
    assert!(a.freeze(limits::PUSH_BODY).await);
    let (blobs, manifest) = a.frozen();
    let mut start = b.start();
    start.apps.push(tidings_engine::AppStart::new(app()));
    let now = Time::from_millis(1);
    let mut engine = Engine::new(EngineConfig::default(), 1, start, now);
    engine.handle_token(now, std::time::Duration::from_secs(900));
    let order = pull_order(&mut engine);
    let unlocked = b.unlocked();
    let response = response(&unlocked.chain, blobs, &[manifest]);
    let opened = page::open_page(&unlocked, &app(), response);
    let plan = engine.handle_page(now, &order, &opened.facts).unwrap();
    let cause = RenewCause::ServerLost;
    renew::renew(&b.replica, unlocked.record.device, cause, true, NOW).await.unwrap();
    let before = b.start();
    let own = engine.own().incarnation;
    let stored = page::store_page(&b.replica, &unlocked, opened, &plan, own, NOW).await;
    assert!(stored.is_err());
    assert_eq!(format!("{:?}", b.start()), format!("{before:?}"), "neither cursor nor lanes");
    assert_eq!(b.text("t", "1"), None, "nor rows");
}

#[tokio::test]
async fn frozen_bytes_never_change_and_go_with_the_answer() {
    let (a, _) = Computer::pair().await;
    a.put("t", "1", "first").await;
    assert!(a.freeze(limits::PUSH_BODY).await);
    let before = a.frozen();
    a.put("t", "2", "later").await;
    assert!(a.freeze(limits::PUSH_BODY).await, "what is frozen already");
    assert_eq!(a.frozen(), before);
    assert_eq!(a.pending(), 2);
    a.settle().await;
    assert_eq!(a.pending(), 1);
    assert!(a.freeze(limits::PUSH_BODY).await);
    let (_, manifest) = a.frozen();
    assert_eq!(manifest.manifest.n.0, 2);
    assert_eq!(manifest.manifest.lanes.values().next().unwrap().seq, Seq(2));
    a.settle().await;
    assert!(!a.freeze(limits::PUSH_BODY).await, "nothing is left");
}

#[tokio::test]
async fn a_push_takes_whole_transactions_up_to_its_size() {
    let (a, _) = Computer::pair().await;
    for row in 0..10 {
        a.put("t", &format!("{row}"), &"x".repeat(1_000)).await;
    }
    assert!(a.freeze(3_500).await);
    a.settle().await;
    assert_eq!(a.pending(), 7);
    assert!(a.freeze(1).await, "one at least");
    a.settle().await;
    assert_eq!(a.pending(), 6);
}

#[tokio::test]
async fn a_new_manifest_covers_the_same_blobs() {
    let (a, _) = Computer::pair().await;
    a.put("t", "1", "first").await;
    a.freeze(limits::PUSH_BODY).await;
    let (blobs, old) = a.frozen();
    let unlocked = a.unlocked();
    let n = a
        .replica
        .update(&app(), Durability::Synced, move |txn| {
            let incarnation = Replica::identity(txn)?.incarnation;
            let (app, testimony) = (app(), Testimony::default());
            let (unlocked, testimony) = (&*unlocked, &testimony);
            let freezer = Freezer { unlocked, app: &app, incarnation, testimony, now_ms: NOW };
            freezer.resign(txn)
        })
        .await
        .unwrap();
    assert_eq!(n.unwrap().0, 2);
    let (same, new) = a.frozen();
    assert_eq!(same, blobs);
    assert_eq!(new.manifest.lanes, old.manifest.lanes);
}

#[tokio::test]
async fn an_idle_device_freezes_in_the_writes_own_transaction() {
    let (a, _) = Computer::pair().await;
    let gate = Arc::new(Gate::new(a.vault.clone(), a.replica.clock().clone()));
    a.replica.set_freeze_hook(Gate::hook(&gate));
    a.put("t", "1", "gate closed").await;
    assert_eq!(gate.take_written(), [(app(), None)].into());
    gate.open([(app(), Testimony::default())].into());
    a.put("t", "2", "gate open").await;
    a.put("t", "3", "gate used").await;
    let written = gate.take_written();
    assert_eq!(written.get(&app()).unwrap().unwrap().0, 1);
    let (blobs, _) = a.frozen();
    assert_eq!(blobs.len(), 1);
    a.settle().await;
    assert_eq!(a.pending(), 1, "the first two were frozen together");
}

#[tokio::test]
async fn a_hole_is_staged_over_a_restart_and_closed_by_what_comes() {
    let (a, b) = Computer::pair().await;
    let mut blobs = Vec::new();
    for row in 1..=3 {
        a.put("t", &row.to_string(), "x").await;
        a.freeze(limits::PUSH_BODY).await;
        blobs.extend(a.frozen().0);
        a.settle().await;
    }
    let missing = blobs.remove(1);
    let chain = a.unlocked().chain.clone();
    b.take(response(&chain, blobs, &[])).await;
    assert!(b.text("t", "1").is_some() && b.text("t", "3").is_none());
    assert_eq!(b.start().apps[0].staged.len(), 1);
    let mut late = response(&chain, vec![missing], &[]);
    late.entries[0].position = Position(9);
    late.position = Position(9);
    let plan = b.take(late).await;
    assert_eq!(plan.apply.len(), 2);
    assert!(b.text("t", "2").is_some() && b.text("t", "3").is_some());
    assert!(b.start().apps[0].staged.is_empty());
}

#[tokio::test]
async fn a_new_incarnation_keeps_outbox_and_rows_and_begins_new_lanes() {
    let (a, b) = Computer::pair().await;
    a.put("t", "1", "pushed").await;
    a.freeze(limits::PUSH_BODY).await;
    let first = a.frozen().0;
    a.settle().await;
    a.put("t", "2", "frozen").await;
    a.freeze(limits::PUSH_BODY).await;
    a.put("t", "3", "waiting").await;
    let before = a.start();
    renew::renew(&a.replica, a.unlocked().record.device, RenewCause::Copied, false, NOW)
        .await
        .unwrap();
    let after = a.start();
    assert_ne!(after.own.incarnation, before.own.incarnation);
    let app_start = &after.apps[0];
    assert!(!app_start.frozen && app_start.outbox);
    assert_eq!(app_start.own_n.0, 0);
    // The old lane is known up to what the server took.
    let (lane, state) = app_start.lanes.first_key_value().unwrap();
    assert_eq!((lane.replica, state.seq), (before.own, Seq(1)));
    assert_eq!(a.pending(), 2);
    a.freeze(limits::PUSH_BODY).await;
    let (blobs, manifest) = a.frozen();
    assert_eq!(manifest.manifest.n.0, 1);
    let all = first.into_iter().chain(blobs).collect();
    b.take(response(&a.unlocked().chain, all, &[])).await;
    assert_eq!(b.text("t", "3").as_deref(), Some("waiting"));
    assert_eq!(b.text("t", "2").as_deref(), Some("frozen"));
}

#[tokio::test]
async fn a_refill_queues_every_row_and_says_so_until_it_is_done() {
    let (a, b) = Computer::pair().await;
    for row in 0..1_500 {
        a.put("t", &format!("{row:04}"), "x").await;
    }
    while a.freeze(limits::PUSH_BODY).await {
        a.settle().await;
    }
    assert_eq!(a.pending(), 0);
    renew::renew(&a.replica, a.unlocked().record.device, RenewCause::ServerLost, true, NOW)
        .await
        .unwrap();
    assert_eq!(a.pending(), 2, "two parts");
    let start = a.start();
    assert!(!start.apps[0].record.refill);
    assert!(!start.apps[0].record.lost.is_empty());
    a.freeze(limits::PUSH_BODY).await;
    let (blobs, manifest) = a.frozen();
    b.take(response(&a.unlocked().chain, blobs, &[manifest])).await;
    assert_eq!(b.text("t", "1499").as_deref(), Some("x"));
    assert_eq!(b.text("t", "0000").as_deref(), Some("x"));
}
