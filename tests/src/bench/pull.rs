//! Reading the log out of the server's store.

use std::time::Instant;

use tidings_kv::Scan;
use tidings_kv::engine::{SledEngine, View as _};
use tidings_proof::Replica;
use tidings_server::config::StoreLocation;
use tidings_server::store::kv::{KvStore, Start};
use tidings_server::store::{Pull, Store as _};
use tidings_wire::{AccountId, AppId, DeviceId, Incarnation, Position, limits};

use super::accounts::{body_for, server};
use super::{Aim, Benchmark, Figure, Plan, Rounds, block_on};
use crate::Hand;

/// Page after page.
pub(super) const PULL: Benchmark = Benchmark {
    name: "pull",
    about: "100,000 blobs of 512 B in one log, read in pages of 1,000 by the server's store over \
            sled, every record checked; the second time that they are read.",
    figures: &[Figure {
        name: "blobs",
        what: "blobs a second",
        unit: "/s",
        limit: "sled's own range scan of the same table",
        aim: Aim::TimesAtLeast(0.5),
        unmet: "the checksum of each record (BLAKE3 over 600 bytes) is the largest single item of the \
                profile; decoding and a copy of each blob follow.",
    }],
    run: |plan| measure(*plan),
};

/// Memory for the engine's pages.
const CACHE: u64 = 64 << 20;
/// Blobs in one push.
const PUSH: usize = 1_000;

fn measure(plan: Plan) -> Rounds {
    let pushes = plan.pick(100, 2);
    let mut server = server(&[]);
    let url = server.url();
    let app: AppId = "rows".parse().expect("an app");
    let account = block_on(async {
        let mut hand = Hand::create(&url).await;
        let body = body_for(&hand, 512);
        let bodies = vec![("rows", body); PUSH];
        for _ in 0..pushes {
            let request = hand.seal(&app, &bodies);
            hand.client().push(&app, &request).await.expect("a push");
        }
        hand.account()
    });
    server.stop();
    let mut rounds = Rounds::default();
    for _ in 0..plan.rounds() {
        let store = KvStore::open(&StoreLocation::Sled(server.store_dir()), Start::Command, None);
        let store = store.expect("the server's store");
        let ours = block_on(async {
            pull_all(&store, account, &app).await;
            let start = Instant::now();
            let blobs = pull_all(&store, account, &app).await;
            assert_eq!(blobs, pushes * PUSH);
            store.close().await.expect("an end in order");
            blobs as f64 / start.elapsed().as_secs_f64()
        });
        drop(store);
        let engine = SledEngine::open(&server.store_dir(), &["log"], CACHE).expect("the engine");
        scan_all(&engine);
        let start = Instant::now();
        let rows = scan_all(&engine);
        assert!(rows >= pushes * PUSH, "{rows} rows");
        rounds.add("blobs", ours, rows as f64 / start.elapsed().as_secs_f64());
    }
    rounds
}

async fn pull_all(store: &KvStore, account: AccountId, app: &AppId) -> usize {
    let mut pull = Pull {
        account,
        app: app.clone(),
        own: Replica { device: DeviceId([0; 16]), incarnation: Incarnation([0; 8]) },
        after: Position(0),
        tags: None,
        since: None,
        limit: limits::PAGE_BLOBS,
        bytes: limits::PAGE_BYTES,
        known: Default::default(),
    };
    let mut blobs = 0;
    loop {
        let page = store.pull(pull.clone()).await.expect("a page");
        blobs += page.entries.len();
        pull.after = page.position;
        if !page.has_more {
            return blobs;
        }
    }
}

fn scan_all(engine: &SledEngine) -> usize {
    let mut scan = Scan::all(PUSH);
    let mut rows = 0;
    loop {
        let page = engine.range("log", &scan).expect("a page");
        let Some(last) = page.last() else { return rows };
        rows += page.len();
        scan = scan.after(&last.0);
    }
}
