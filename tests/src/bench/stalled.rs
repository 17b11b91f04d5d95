//! One reader of a channel that has stopped reading.

use std::fs::read_to_string;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, sockopt};

use super::accounts::{Accounts, server};
use super::load::{Load, Spec, begun, subscribe};
use super::{Aim, Benchmark, Figure, Plan, Rounds, block_on};
use crate::DEADLINE;

/// It, and another reader.
pub(super) const STALLED: Benchmark = Benchmark {
    name: "stalled-reader",
    about: "Two streams on one channel, one of them never read from, with a small receive buffer; \
            keep-alives every 2 s.",
    figures: &[
        Figure {
            name: "queue",
            what: "most bytes that the kernel held for the stalled stream",
            unit: "B",
            limit: "",
            aim: Aim::AtMost(16_384.0),
            unmet: "",
        },
        Figure {
            name: "cut",
            what: "from the last byte that the kernel took for it to the end of the stream",
            unit: "keep-alives",
            limit: "",
            aim: Aim::AtMost(2.0),
            unmet: "",
        },
        Figure {
            name: "delay",
            what: "from a push to the event at the other reader, median",
            unit: "µs",
            limit: "the same without a stalled reader",
            aim: Aim::TimesAtMost(1.2),
            unmet: "the other reader is written to from the same list, before or after, without a wait; \
                between runs on a busy machine the ratio went from 0.99 to 1.22.",
        },
    ],
    run: |plan| measure(*plan),
};

/// Between two keep-alives.
const KEEPALIVE: Duration = Duration::from_secs(2);
/// Pushes between two looks at the kernel's queue.
const CHUNK: usize = 25;
/// Chunks that are more than enough to fill it.
const MOST_CHUNKS: usize = 80;

fn measure(plan: Plan) -> Rounds {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(&[&format!("stream.keepalive={}s", KEEPALIVE.as_secs())]);
    let url = server.url();
    let mut accounts = block_on(Accounts::create(&url, 1));
    let chunks = plan.pick(16, 4);
    let all = CHUNK * (1 + (chunks + MOST_CHUNKS) * plan.rounds());
    let spec = Spec {
        address: server.address(),
        tokens: accounts.tokens(),
        channels: 1,
        authority: None,
        pushes: (0..all).map(|_| accounts.seal(0)).collect(),
    };
    let mut load = Load::start(dir.path(), &spec);
    load.open(1);
    load.publish(CHUNK);
    let mut rounds = Rounds::default();
    for _ in 0..plan.rounds() {
        let alone = load.publish(chunks * CHUNK).p50;
        let stalled = stall(&spec);
        let port = stalled.local_addr().expect("an address").port();
        let (mut queue, mut since, mut beside) = (0, Instant::now(), Vec::new());
        let mut full = 0;
        // Until the kernel takes no more for it.
        while full < 4 && beside.len() < MOST_CHUNKS {
            beside.push(load.publish(CHUNK).p50);
            let Some(held) = held_for(server.address(), port) else { break };
            if held > queue {
                (queue, since, full) = (held, Instant::now(), 0);
            } else if held > 0 {
                full += 1;
            }
        }
        assert!(full > 0, "the reader does not stall");
        while let Some(held) = held_for(server.address(), port) {
            queue = queue.max(held);
            assert!(since.elapsed() < DEADLINE, "the stalled reader is not cut");
            std::thread::sleep(Duration::from_millis(20));
        }
        rounds.add("cut", since.elapsed().as_secs_f64() / KEEPALIVE.as_secs_f64(), None);
        rounds.add("queue", queue as f64, None);
        rounds.add("delay", super::rounds::median(&beside), alone);
    }
    rounds
}

/// A stream whose reader takes hardly anything.
fn stall(spec: &Spec) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
    let socket = socket.expect("a socket");
    // Before it connects, or the window would be large already.
    sockopt::set_socket_recv_buffer_size(&socket, 1 << 10).expect("a small buffer");
    rustix::net::connect(&socket, &spec.address).expect("a server that accepts");
    let socket = TcpStream::from(socket);
    socket.set_read_timeout(Some(DEADLINE)).expect("a socket");
    { &socket }.write_all(&subscribe(spec, 0)).expect("a server that reads");
    begun(&mut &socket);
    socket
}

/// Bytes that the kernel holds at the server's end of an open connection; none when it is closed.
fn held_for(server: SocketAddr, client: u16) -> Option<u64> {
    let table = read_to_string("/proc/net/tcp").expect("the table of connections");
    let port = |field: &str| u16::from_str_radix(field.rsplit(':').next()?, 16).ok();
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, remote, state) = (port(fields[1])?, port(fields[2])?, fields[3]);
        let ours = local == server.port() && remote == client && state == ESTABLISHED;
        ours.then(|| u64::from_str_radix(fields[4].split(':').next()?, 16).ok())?
    })
}

/// As the kernel's table spells it.
const ESTABLISHED: &str = "01";
