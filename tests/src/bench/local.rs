//! Writes through a daemon's socket, and how long until another daemon's socket tells.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_wire::AppId;

use super::accounts::server;
use super::floor::Floor;
use super::limits::{Journal, micros};
use super::load::{Load, Publish, Spec};
use super::rounds::percentile;
use super::{Aim, Benchmark, Figure, Plan, Rounds, block_on};
use crate::{Device, House};

/// To the disk and back.
pub(super) const LOCAL_WRITE: Benchmark = Benchmark {
    name: "local-write",
    about: "A row of 300 B is put through the socket of a daemon without an account, one after the \
            other; the answer comes when it is durable.",
    figures: &[Figure {
        name: "p50",
        what: "one write, median",
        unit: "µs",
        limit: "one fdatasync of 512 B written over",
        aim: Aim::TimesAtMost(1.5),
        unmet: "a write touches the row, the log, the outbox and a few counters, and redb copies \
                the paths to them: about 20 pages of 4 KiB, a sync, the header, and a second sync for \
                its quick repair, without which damage after a crash could be taken for a torn commit \
                (docs/adr/0008). The limit writes one page. HTTP on the socket and two changes of \
                thread wait for a core on a busy machine.",
    }],
    run: |plan| block_on(write(*plan)),
};

/// To the other computer.
pub(super) const SOCKET_TO_SOCKET: Benchmark = Benchmark {
    name: "socket-to-socket",
    about: "A row of 300 B is put through the socket of one daemon and comes out of the stream of \
            another one: sealed, durable on the first and on the server before either says so.",
    figures: &[
        Figure {
            name: "p50",
            what: "from the write to the event, median",
            unit: "µs",
            limit: FLOOR,
            aim: Aim::TimesAtMost(3.5),
            unmet: "the way has three syncs one after the other (redb's two on the first device, the \
                server's one; the second device tells before its disk has it), two requests over HTTP \
                with signatures checked at both ends, and changes of thread in three \
                processes; the floor has one sync and one thread.",
        },
        Figure {
            name: "p99",
            what: "from the write to the event, 99th percentile",
            unit: "µs",
            limit: FLOOR,
            aim: Aim::TimesAtMost(5.0),
            unmet: "as for the median; the longest waits are those for a core.",
        },
    ],
    run: |plan| block_on(through(*plan)),
};

const FLOOR: &str = "a push to an event of a bare epoll server that writes 512 B and calls \
                     fdatasync, at the same percentile";

async fn write(plan: Plan) -> Rounds {
    let device = Device::start("alone").await;
    let mut journal = Journal::create(&device.home().join("journal"));
    let app = app();
    let mut rounds = Rounds::default();
    let writes = plan.pick(1_000, 10);
    for round in 0..=plan.rounds() {
        let mut taken = Vec::new();
        for number in 0..writes {
            let start = Instant::now();
            device.put(&app, "rows", &format!("{round}-{number}"), &row()).await;
            taken.push(micros(start.elapsed()));
        }
        let syncs = journal.appends(Duration::from_millis(plan.pick(500, 20)));
        // The first round warms up.
        if round > 0 {
            rounds.add("p50", percentile(&taken, 0.5), percentile(&syncs, 0.5));
        }
    }
    rounds
}

async fn through(plan: Plan) -> Rounds {
    let dir = tempfile::tempdir().expect("a directory");
    let devices = ["a", "b"].map(Device::new);
    let house = House::of(server(&[]), None, devices).await;
    let (from, to) = (house.device(0), house.device(1));
    let app = app();
    let writes = plan.pick(400, 5);
    let floor = Floor::start(Some(&dir.path().join("journal")), Duration::ZERO);
    let spec = Spec {
        address: floor.address,
        tokens: vec![String::new()],
        channels: 1,
        authority: None,
        pushes: vec![push(); writes * (plan.rounds() + 1)],
    };
    let mut load = Load::start(dir.path(), &spec);
    load.open(1);
    from.put(&app, "rows", "first", &row()).await;
    to.row_becomes(&app, "rows", "first", &with_id(row(), "first")).await;
    let mut follower = to.follow(&app, "rows").await;
    let mut rounds = Rounds::default();
    for round in 0..=plan.rounds() {
        let mut taken = Vec::new();
        for number in 0..writes {
            let id = format!("{round}-{number}");
            let start = Instant::now();
            let arrives = async {
                follower.change().await;
                start.elapsed()
            };
            let row = row();
            let (_, elapsed) = tokio::join!(from.put(&app, "rows", &id, &row), arrives);
            taken.push(micros(elapsed));
        }
        let limit = load.publish(writes);
        // The first round warms up.
        if round > 0 {
            rounds.add("p50", percentile(&taken, 0.5), limit.p50);
            rounds.add("p99", percentile(&taken, 0.99), limit.p99);
        }
    }
    rounds
}

fn app() -> AppId {
    "bench".parse().expect("an app")
}

/// About 300 bytes of JSON.
fn row() -> Value {
    json!({ "title": "a title of some length", "done": false, "count": 17, "text": "x".repeat(220) })
}

fn with_id(mut row: Value, id: &str) -> Value {
    row["id"] = id.into();
    row
}

/// About as large as a push of such a row.
fn push() -> Publish {
    let body = "x".repeat(900);
    let request = format!(
        "POST /api/sync/push?app_id=c0 HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    Publish { channel: 0, request: request.into_bytes() }
}
