//! Durable pushes a second.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::accounts::{Accounts, server};
use super::limits::Journal;
use super::load::{answered, connect};
use super::{Aim, Benchmark, Figure, Plan, Rounds, block_on};

const SYNCS: &str = "fdatasync of 512 B written over, one after the other";

/// Where the server's CPU time goes with 64 connections.
const PROFILE: &str = "the clients share the cores with the server, and the CPU is the limit, not the disk: of the server's \
     time about half is HTTP, CBOR and two Ed25519 signatures a push (an eighth of all is Ed25519), \
     a quarter the committer with sled's trees, a sixth sled's writing threads. With few connections \
     each push waits for changes of thread that the floor does not have.";

/// One, some, many connections.
pub(super) const PUSHES: Benchmark = Benchmark {
    name: "pushes",
    about: "Blobs of 512 B, one a push, sealed before; each connection is a device of an account of \
            its own and pushes the next when the last is acknowledged as durable.",
    figures: &[
        Figure {
            name: "one",
            what: "pushes a second over 1 connection",
            unit: "/s",
            limit: SYNCS,
            aim: Aim::TimesAtLeast(0.4),
            unmet: PROFILE,
        },
        Figure {
            name: "eight",
            what: "pushes a second over 8 connections",
            unit: "/s",
            limit: SYNCS,
            aim: Aim::TimesAtLeast(1.5),
            unmet: PROFILE,
        },
        Figure {
            name: "sixty-four",
            what: "pushes a second over 64 connections",
            unit: "/s",
            limit: SYNCS,
            aim: Aim::TimesAtLeast(3.0),
            unmet: PROFILE,
        },
    ],
    run: |plan| measure(*plan),
};

/// Name, connections, pushes of each in a round.
const STEPS: [(&str, usize, usize); 3] =
    [("one", 1, 1_000), ("eight", 8, 400), ("sixty-four", 64, 100)];

fn measure(plan: Plan) -> Rounds {
    let server = server(&[]);
    let url = server.url();
    let mut accounts = block_on(Accounts::create(&url, 64));
    let mut journal = Journal::create(&server.dir().join("journal"));
    let mut rounds = Rounds::default();
    for _ in 0..plan.rounds() {
        for (name, connections, each) in STEPS {
            let each = plan.pick(each, 3);
            let syncs = journal.rate(Duration::from_millis(plan.pick(1_000, 50)));
            // The first of each is made before the clock runs.
            let pushes: Vec<Vec<Vec<u8>>> = (0..connections)
                .map(|channel| (0..=each).map(|_| accounts.seal(channel).request).collect())
                .collect();
            let ready: Vec<_> = pushes
                .iter()
                .map(|pushes| {
                    let mut socket = connect(server.address());
                    push(&mut socket, &pushes[..1]);
                    (socket, &pushes[1..])
                })
                .collect();
            let start = Instant::now();
            std::thread::scope(|scope| {
                for (mut socket, pushes) in ready {
                    scope.spawn(move || push(&mut socket, pushes));
                }
            });
            let taken = start.elapsed();
            let rate = (connections * each) as f64 / taken.as_secs_f64();
            rounds.add(name, rate, syncs);
        }
    }
    rounds
}

/// Pushes one after the other, each when the last is acknowledged.
fn push(socket: &mut TcpStream, pushes: &[Vec<u8>]) {
    for push in pushes {
        socket.write_all(push).expect("a server that reads");
        answered(socket);
    }
}
