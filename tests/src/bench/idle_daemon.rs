//! A daemon that has nothing to do.

use std::time::{Duration, Instant};

use serde_json::json;

use super::accounts::server;
use super::part::{Part, end_with_input, say};
use super::process::{resident, sleeps};
use super::{Aim, Benchmark, Figure, Plan, Rounds, block_on};
use crate::{Device, House};

const TOKIO: &str = "a process that does nothing but hold an idle tokio runtime";

/// Its memory and its sleep.
pub(super) const IDLE_DAEMON: Benchmark = Benchmark {
    name: "idle-daemon",
    about: "A daemon with an account and a thousand rows, started anew, all of it synced, its \
            stream to the server open; nobody does anything for 60 s.",
    figures: &[
        Figure {
            name: "memory",
            what: "resident memory",
            unit: "MB",
            limit: TOKIO,
            aim: Aim::AtMost(15.0),
            unmet: "most of it is pages of the program itself (docs/adr/0008), not memory that it asked \
                for.",
        },
        Figure {
            name: "wake-ups",
            what: "wake-ups a second of all threads",
            unit: "/s",
            limit: TOKIO,
            aim: Aim::AtMost(0.3),
            unmet: "on a machine whose cores are busy a thread that waits for a lock or a core counts as \
                one that went to sleep.",
        },
    ],
    run: |plan| block_on(measure(*plan)),
};

async fn measure(plan: Plan) -> Rounds {
    let mut house = House::of(server(&[]), None, [Device::new("idle")]).await;
    let app = "bench".parse().expect("an app");
    let lines: String =
        (0..1_000).map(|n| format!("{{\"id\":\"{n}\",\"text\":\"a row\"}}\n")).collect();
    let device = house.device(0);
    device.client().import_ndjson(&app, "rows", lines.into()).await.expect("an import");
    device.synced().await;
    house.device_mut(0).stop();
    house.device_mut(0).resume().await;
    house.device(0).synced().await;
    let mut idle = Part::start("idle", &[]);
    assert_eq!(idle.answer(), "idle");
    let ids = [house.device_mut(0).process().id(), idle.id()];
    // What was written has its own last work.
    tokio::time::sleep(Duration::from_secs(plan.pick(10, 0))).await;
    let mut rounds = Rounds::default();
    for _ in 0..plan.rounds() {
        let (start, before) = (Instant::now(), ids.map(sleeps));
        tokio::time::sleep(Duration::from_secs(plan.pick(60, 1))).await;
        let seconds = start.elapsed().as_secs_f64();
        let rates = [0, 1].map(|place| (sleeps(ids[place]) - before[place]) / seconds);
        rounds.add("wake-ups", rates[0], rates[1]);
        let [ours, limit] = ids.map(|id| resident(id) / 1e6);
        rounds.add("memory", ours, limit);
    }
    rounds
}

/// The part that idles.
pub(super) fn run_idle() {
    end_with_input();
    block_on(async {
        say(&json!("idle"));
        std::future::pending::<()>().await;
    });
}
