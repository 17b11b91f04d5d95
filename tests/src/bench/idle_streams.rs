//! What streams cost while nothing happens: memory, and the CPU time of keep-alives.

use std::path::Path;
use std::time::Duration;

use super::accounts::{Accounts, server};
use super::floor::Floor;
use super::load::{Load, Spec};
use super::process::{cpu, kernel_memory, resident};
use super::{Aim, Benchmark, Figure, Plan, Rounds, block_on};
use crate::{DEADLINE, Server};

const KERNEL: &str = "the kernel's own memory of a socket, measured while the streams are opened";

/// Plain streams.
pub(super) const PLAIN: Benchmark = Benchmark {
    name: "idle-streams",
    about: "Streams of 100 accounts that say nothing: 10,000, then as many as the process may open \
            files for, up to 19,000; a fresh server each round.",
    figures: &[
        Figure {
            name: "memory",
            what: "resident memory of the server for a stream, of 10,000",
            unit: "B",
            limit: KERNEL,
            aim: Aim::AtMost(512.0),
            unmet: "the streams are on 10,000 channels of 100 accounts, and each channel has a name and \
                a list of its own; the slot, the sink and these are what is left.",
        },
        Figure {
            name: "slope",
            what: "the same of all streams up to 19,000",
            unit: "B",
            limit: "the same at 10,000 streams",
            aim: Aim::TimesAtMost(1.1),
            unmet: "",
        },
    ],
    run: |plan| memory(*plan, false),
};

/// Streams over TLS.
pub(super) const TLS: Benchmark = Benchmark {
    name: "idle-streams-tls",
    about: "The same over TLS 1.3.",
    figures: &[
        Figure {
            name: "memory",
            what: "resident memory of the server for a stream, of 10,000",
            unit: "B",
            limit: KERNEL,
            aim: Aim::AtMost(9.0 * 1024.0),
            unmet: "",
        },
        Figure {
            name: "slope",
            what: "the same of all streams up to 19,000",
            unit: "B",
            limit: "the same at 10,000 streams",
            aim: Aim::TimesAtMost(1.1),
            unmet: "",
        },
    ],
    run: |plan| memory(*plan, true),
};

/// Keep-alives.
pub(super) const KEEPALIVE: Benchmark = Benchmark {
    name: "keepalive",
    about: "10,000 streams that get a keep-alive every 10 s, and nothing else.",
    figures: &[Figure {
        name: "cpu",
        what: "CPU time of the server for one keep-alive of one stream",
        unit: "µs",
        limit: "a bare epoll server that writes all of them at once",
        aim: Aim::TimesAtMost(1.5),
        unmet: "",
    }],
    run: |plan| keepalive(*plan),
};

/// Files that a server keeps for others than connections: a tenth, and some that are open.
fn most(plan: Plan) -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let files = files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    plan.pick((files / 10 * 9).saturating_sub(100).min(19_000), 400)
}

fn memory(plan: Plan, tls: bool) -> Rounds {
    let dir = tempfile::tempdir().expect("a directory");
    let some = plan.pick(10_000, 200);
    let mut rounds = Rounds::default();
    for _ in 0..plan.rounds() {
        let mut server = server(&["stream.keepalive=1d", "timeouts.write_stall=1d"]);
        let url = server.url();
        let accounts = block_on(Accounts::create(&url, plan.pick(100, 4)));
        // A fresh process: what the accounts took is not there to be used again.
        server.stop();
        let (address, authority) = if tls {
            secured(&mut server, dir.path())
        } else {
            server.resume();
            (server.address(), None)
        };
        let spec = Spec {
            address,
            tokens: accounts.tokens(),
            channels: some,
            authority,
            pushes: Vec::new(),
        };
        let mut load = Load::start(dir.path(), &spec);
        // Threads and what is made once are not a stream's.
        load.open(10);
        let id = server.process().id();
        let (before, kernel) = (resident(id), kernel_memory());
        load.open(some);
        let (at_some, kernel_then) = (resident(id), kernel_memory());
        let sockets = some as f64 * 2.0;
        let each = (at_some - before) / some as f64;
        rounds.add("memory", each, (kernel_then - kernel) / sockets);
        let most = most(plan);
        load.open(most - some - 10);
        rounds.add("slope", (resident(id) - before) / (most - 10) as f64, each);
    }
    rounds
}

/// Starts a stopped server again, with a certificate.
fn secured(server: &mut Server, dir: &Path) -> (std::net::SocketAddr, Option<std::path::PathBuf>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a key");
    let (certificate, key) = (dir.join("certificate.pem"), dir.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("room on the disk");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("room on the disk");
    server.begin_with(|command| {
        command.args(["--set", &format!("tls.cert={}", certificate.display())]);
        command.args(["--set", &format!("tls.key={}", key.display())]);
    });
    let address = server.process().line("the address", DEADLINE, |line| {
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        let url = event.get("url")?.as_str()?.strip_prefix("https://")?.trim_end_matches('/');
        url.parse().ok()
    });
    (address, Some(certificate))
}

fn keepalive(plan: Plan) -> Rounds {
    let dir = tempfile::tempdir().expect("a directory");
    let streams = plan.pick(10_000, 200);
    let period = Duration::from_secs(plan.pick(10, 1));
    let mut server = server(&[&format!("stream.keepalive={}s", period.as_secs())]);
    let floor = Floor::start(None, period);
    let url = server.url();
    let accounts = block_on(Accounts::create(&url, plan.pick(100, 4)));
    let ours = Spec {
        address: server.address(),
        tokens: accounts.tokens(),
        channels: streams,
        authority: None,
        pushes: Vec::new(),
    };
    let limit = Spec { address: floor.address, ..ours.clone() };
    let mut loads = [&ours, &limit].map(|spec| Load::start(dir.path(), spec));
    for load in &mut loads {
        load.open(streams);
    }
    let servers = [server.process().id(), floor.id()];
    // Opening has its own last work.
    std::thread::sleep(period);
    let mut rounds = Rounds::default();
    for _ in 0..plan.rounds() {
        let before = servers.map(cpu);
        // Both at once: each round is two periods of either.
        std::thread::sleep(period * 2);
        let spent =
            [0, 1].map(|side| (cpu(servers[side]) - before[side]) * 1e6 / (streams as f64 * 2.0));
        rounds.add("cpu", spent[0], spent[1]);
    }
    rounds
}
