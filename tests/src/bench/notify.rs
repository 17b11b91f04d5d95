//! From a durable push to `changed` on every stream of its channel.

use std::time::Duration;

use super::accounts::{Accounts, server};
use super::floor::Floor;
use super::load::{Load, Spec};
use super::process::cpu;
use super::{Aim, Benchmark, Figure, Plan, Rounds, block_on};

const FLOOR: &str = "a bare epoll server that writes 512 B and calls fdatasync before it notifies";

/// What the profile shows of a push.
const PUSH: &str = "a push is checked before it is stored: its token, CBOR, two Ed25519 signatures (`sealing.signature` \
     is the figure of one) and the lane's head, and the store's commit writes a few records where the \
     floor writes 512 bytes. The rest was not taken apart; three changes of thread, from the runtime \
     to the committer and back, are the likeliest, and the floor has one thread.";
/// The same of its CPU time.
const PUSH_CPU: &str = "a delivery carries its share of the push: with one stream on a channel all of it, which is HTTP, \
     CBOR, two Ed25519 signatures and the commit of the store, of which the floor does nothing. With \
     10,000 streams on a channel, where the share is small, the ratio is near 1.";

/// One stream.
pub(super) const CHANGED: Benchmark = Benchmark {
    name: "changed",
    about: "One device pushes a blob of 512 B, another one listens.",
    figures: &[Figure {
        name: "p50",
        what: "from the push to the event, median",
        unit: "µs",
        limit: FLOOR,
        aim: Aim::TimesAtMost(1.5),
        unmet: PUSH,
    }],
    run: |plan| {
        let load = Numbers { streams: 1, channels: 1, accounts: 1, publishes: 300 };
        measure(*plan, &load)
    },
};

/// Many channels.
pub(super) const CHANNELS: Benchmark = Benchmark {
    name: "channels",
    about: "10,000 streams, each on a channel of its own, of 100 accounts; pushes to \
            100 of them in turns.",
    figures: &[P50, CPU],
    run: |plan| {
        let streams = plan.pick(10_000, 200);
        let accounts = plan.pick(100, 4);
        measure(*plan, &Numbers { streams, channels: streams, accounts, publishes: 300 })
    },
};

/// Many streams on one channel.
pub(super) const FANOUT_1000: Benchmark = Benchmark {
    name: "fanout-1000",
    about: "1,000 streams on one channel; each push goes to all of them.",
    figures: &[P50, CPU],
    run: |plan| {
        let streams = plan.pick(1_000, 100);
        measure(*plan, &Numbers { streams, channels: 1, accounts: 1, publishes: 100 })
    },
};

/// Very many streams on one channel.
pub(super) const FANOUT_10000: Benchmark = Benchmark {
    name: "fanout-10000",
    about: "10,000 streams on one channel; each push goes to all of them.",
    figures: &[P50, CPU],
    run: |plan| {
        let streams = plan.pick(10_000, 200);
        measure(*plan, &Numbers { streams, channels: 1, accounts: 1, publishes: 30 })
    },
};

const P50: Figure = Figure {
    name: "p50",
    what: "from the push to an event, median over all streams",
    unit: "µs",
    limit: FLOOR,
    aim: Aim::TimesAtMost(1.4),
    unmet: PUSH,
};

const CPU: Figure = Figure {
    name: "cpu",
    what: "CPU time of the server for one delivery",
    unit: "µs",
    limit: FLOOR,
    aim: Aim::TimesAtMost(1.3),
    unmet: PUSH_CPU,
};

struct Numbers {
    streams: usize,
    channels: usize,
    accounts: usize,
    /// In a round.
    publishes: usize,
}

/// Longer than any benchmark: no keep-alive comes between.
const NEVER: Duration = Duration::ZERO;

fn measure(plan: Plan, numbers: &Numbers) -> Rounds {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = server(&["stream.keepalive=1d"]);
    let floor = Floor::start(Some(&dir.path().join("journal")), NEVER);
    let publishes = plan.pick(numbers.publishes, 5);
    // Every app is there before the clock runs: a first push makes it.
    let used = numbers.channels.min(plan.pick(100, 4));
    let warm = used.max(publishes / 5 + 1);
    let all = publishes * plan.rounds() + warm;
    let url = server.url();
    let mut accounts = block_on(Accounts::create(&url, numbers.accounts));
    // Spread over all channels, the same in every run.
    let channel = |place: usize| place % used * 7_919 % numbers.channels;
    let pushes = (0..all).map(|place| accounts.seal(channel(place))).collect();
    let ours = Spec {
        address: server.address(),
        tokens: accounts.tokens(),
        channels: numbers.channels,
        authority: None,
        pushes,
    };
    let limit = Spec { address: floor.address, ..ours.clone() };
    let mut loads = [&ours, &limit].map(|spec| Load::start(dir.path(), spec));
    let servers = [server.process().id(), floor.id()];
    for load in &mut loads {
        load.open(numbers.streams);
        load.publish(warm);
    }
    let mut rounds = Rounds::default();
    for _ in 0..plan.rounds() {
        let [ours, limit] = [0, 1].map(|side| {
            let before = cpu(servers[side]);
            let delivered = loads[side].publish(publishes);
            let spent = cpu(servers[side]) - before;
            (delivered.p50, spent * 1e6 / delivered.count as f64)
        });
        rounds.add("p50", ours.0, limit.0);
        rounds.add("cpu", ours.1, limit.1);
    }
    rounds
}
