//! Devices, network and server under one clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidings_engine::{
    AccountFacts, ChainVerdict, Engine, Failure, Output, PullOrder, PushAnswer, PushFailure,
    Retried, Time,
};

use super::device::{Disk, app};
use super::random::Random;
use super::server::{Push, Server};

/// What goes wrong while devices write, each so many times in a thousand steps.
#[derive(Debug, Clone, Copy)]
pub struct Chaos {
    /// Calls and answers that are lost.
    pub drops: u64,
    /// Devices that crash.
    pub crashes: u64,
    /// Whether the server goes back to a backup once.
    pub losses: bool,
}

/// What arrives at a device.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a queue of a simulation holds a few dozen")]
enum Arrival {
    Token,
    TokenLost,
    Account,
    AccountLost,
    Opened,
    Closed,
    Byte,
    Hint,
    /// A pull reaches the server, then its answer the device.
    Page(PullOrder),
    PullLost(PullOrder),
    Pushed(u64, Push, Result<PushAnswer, PushFailure>),
    PushLost(u64),
}

struct Device {
    disk: Disk,
    engine: Engine,
    /// Counts lives: what was on its way to an earlier one is lost.
    life: u64,
    stream: bool,
}

pub struct World {
    seed: u64,
    now: Time,
    random: Random,
    server: Server,
    backup: Option<Server>,
    devices: Vec<Device>,
    queue: BTreeMap<(Time, u64), (usize, u64, Arrival)>,
    count: u64,
    steps: u64,
    written: BTreeSet<u64>,
    trace: u64,
    chaos: Chaos,
    quiet: bool,
}

impl World {
    pub fn new(seed: u64, devices: u8) -> Self {
        let now = Time::from_millis(1_000);
        let devices = (1..=devices)
            .map(|number| {
                let disk = Disk::new(number);
                let engine = disk.engine(seed ^ u64::from(number), now);
                Device { disk, engine, life: 0, stream: false }
            })
            .collect();
        Self {
            seed,
            now,
            random: Random(seed),
            server: Server::default(),
            backup: None,
            devices,
            queue: BTreeMap::new(),
            count: 0,
            steps: 0,
            written: BTreeSet::new(),
            trace: 0,
            chaos: Chaos { drops: 0, crashes: 0, losses: false },
            quiet: false,
        }
    }

    /// Twenty minutes of writing and chaos, then quiet until nothing moves.
    pub fn run(mut self, chaos: Chaos) -> Self {
        self.chaos = chaos;
        let end = self.now.after(Duration::from_secs(1_200));
        let mut restored = !chaos.losses;
        while self.now < end {
            if self.random.chance(30) {
                self.write();
            }
            if self.random.chance(chaos.crashes) {
                self.crash();
            }
            if self.backup.is_none() && self.server.rows().len() > 5 {
                self.backup = Some(self.server.clone());
            }
            if !restored && self.now > Time::from_millis(700_000) {
                restored = true;
                let backup = self.backup.clone().unwrap_or_default();
                self.server.restore(&backup);
                for index in 0..self.devices.len() {
                    self.send(index, Arrival::Closed);
                }
            }
            self.step();
        }
        self.quiet = true;
        // A device that the chaos left without a stream finds back by itself; polls do the rest.
        let end = self.now.after(Duration::from_secs(3 * 3_600));
        while self.now < end {
            self.step();
        }
        self
    }

    /// Asserts what must hold after quiet.
    pub fn check(&self) {
        let seed = self.seed;
        let held = self.server.rows();
        assert!(self.written.len() > 5, "seed {seed}: something was written");
        for row in &self.written {
            assert!(held.contains(row), "seed {seed}: the server lacks row {row}");
        }
        for (number, device) in self.devices.iter().enumerate() {
            let disk = &device.disk;
            let missing: Vec<_> = self.written.difference(&disk.rows).collect();
            assert!(missing.is_empty(), "seed {seed}: device {number} lacks {missing:?}");
            assert!(disk.outbox.is_empty(), "seed {seed}: device {number}: {:?}", disk.outbox);
            let alarms = device.engine.alarms();
            assert!(alarms.is_empty(), "seed {seed}: device {number}: {alarms:?}");
            assert!(device.engine.is_whole(&app()), "seed {seed}: device {number} is not whole");
        }
        assert!(self.steps < 200_000, "seed {seed}: {} steps", self.steps);
    }

    pub fn trace(&self) -> (u64, u64) {
        (self.trace, self.steps)
    }

    fn write(&mut self) {
        let index = usize::try_from(self.random.below(3)).unwrap();
        let row = self.random.below(1_000_000);
        self.written.insert(row);
        let now = self.now;
        let Some(device) = self.devices.get_mut(index) else { return };
        device.disk.write(row);
        // Half of the writes are frozen in their own transaction, where that is allowed.
        let frozen = if row % 4 < 2 && device.engine.may_freeze(now, &app()) {
            let testimony = device.engine.testimony(&app());
            device.disk.freeze(10, &testimony)
        } else {
            None
        };
        device.engine.handle_local_commit(now, &app(), frozen);
        self.carry_out(index);
    }

    fn crash(&mut self) {
        let index = usize::try_from(self.random.below(3)).unwrap();
        let seed = self.random.next();
        let now = self.now;
        let Some(device) = self.devices.get_mut(index) else { return };
        device.life += 1;
        device.stream = false;
        device.engine = device.disk.engine(seed, now);
        self.carry_out(index);
    }

    fn send(&mut self, index: usize, arrival: Arrival) {
        let delay =
            Duration::from_millis(1 + self.random.below(if self.quiet { 20 } else { 2_000 }));
        self.send_after(index, delay, arrival);
    }

    fn send_after(&mut self, index: usize, delay: Duration, arrival: Arrival) {
        self.count += 1;
        let life = self.devices[index].life;
        self.queue.insert((self.now.after(delay), self.count), (index, life, arrival));
    }

    fn lost(&mut self) -> bool {
        !self.quiet && self.random.chance(self.chaos.drops)
    }

    /// Moves to the next thing that happens, a second at most.
    fn step(&mut self) {
        self.steps += 1;
        let soonest = self.now.after(Duration::from_secs(1));
        let arrival = self.queue.first_key_value().map(|((at, _), _)| *at);
        let timers = self.devices.iter().filter_map(|device| device.engine.poll_timeout(self.now));
        let next = timers.chain(arrival).min().unwrap_or(soonest);
        self.now = next.max(self.now).min(soonest);
        while let Some(entry) = self.queue.first_entry()
            && entry.key().0 <= self.now
        {
            let (index, life, arrival) = entry.remove();
            if self.devices[index].life == life {
                self.arrive(index, arrival);
            }
        }
        for index in 0..self.devices.len() {
            let now = self.now;
            self.devices[index].engine.handle_timeout(now);
            self.carry_out(index);
        }
        // A time that does not move would be a timer that fires for ever.
        if next <= self.now {
            self.now = self.now.after(Duration::from_millis(1));
        }
    }

    fn arrive(&mut self, index: usize, arrival: Arrival) {
        self.note(index as u64, format!("{arrival:?}").len() as u64);
        let now = self.now;
        match arrival {
            Arrival::Page(order) => {
                let own = self.devices[index].disk.own;
                let (facts, blobs) = self.server.pull(own, &order);
                let device = &mut self.devices[index];
                if let Some(plan) = device.engine.handle_page(now, &order, &facts) {
                    device.disk.store_page(&plan, &blobs);
                    device.disk.store_manifests(&plan, &facts.manifests);
                    device.engine.handle_page_stored(now, plan);
                }
            }
            Arrival::Pushed(ticket, push, result) => {
                let device = &mut self.devices[index];
                match result {
                    Ok(answer) => {
                        device.disk.settle(&push);
                        let more = !device.disk.outbox.is_empty();
                        device.engine.handle_pushed(now, &app(), ticket, answer, more);
                    }
                    Err(failure) => {
                        device.engine.handle_push_failed(now, &app(), ticket, failure);
                    }
                }
            }
            other => self.arrive_plain(index, other),
        }
        self.carry_out(index);
    }

    fn arrive_plain(&mut self, index: usize, arrival: Arrival) {
        let now = self.now;
        let device = &mut self.devices[index];
        let engine = &mut device.engine;
        match arrival {
            Arrival::Token => engine.handle_token(now, Duration::from_secs(900)),
            Arrival::TokenLost => engine.handle_token_failed(now, Failure::Unreachable),
            Arrival::Account => engine.handle_account(
                now,
                AccountFacts {
                    chain: ChainVerdict::Known,
                    chain_shorter: false,
                    changed: false,
                    apps: [app()].into(),
                },
            ),
            Arrival::AccountLost => engine.handle_account_failed(now, Failure::Unreachable),
            Arrival::Opened => {
                device.stream = true;
                engine.handle_stream_opened(now);
                self.send_after(index, Duration::from_secs(30), Arrival::Byte);
            }
            Arrival::Closed => {
                device.stream = false;
                engine.handle_stream_closed(now, Some(Failure::Unreachable));
            }
            Arrival::Byte if device.stream => {
                engine.handle_stream_byte(now);
                let cut = self.lost();
                let next = if cut { Arrival::Closed } else { Arrival::Byte };
                self.send_after(index, Duration::from_secs(30), next);
            }
            Arrival::Hint if device.stream => {
                engine.handle_stream_byte(now);
                engine.handle_changed(now, &app());
            }
            Arrival::Byte | Arrival::Hint => {}
            Arrival::PullLost(order) => {
                engine.handle_pull_failed(now, &order, Failure::Unreachable);
            }
            Arrival::PushLost(ticket) => {
                let failure = PushFailure::Failed(Failure::Unreachable);
                engine.handle_push_failed(now, &app(), ticket, failure);
            }
            Arrival::Page(_) | Arrival::Pushed(..) => {}
        }
    }

    /// Carries out every order of a device.
    fn carry_out(&mut self, index: usize) {
        while let Some(output) = self.devices[index].engine.poll_output() {
            self.order(index, output);
        }
    }

    fn order(&mut self, index: usize, output: Output) {
        let now = self.now;
        match output {
            Output::SignIn => {
                let lost = self.lost();
                self.send(index, if lost { Arrival::TokenLost } else { Arrival::Token });
            }
            Output::ReadAccount => {
                let lost = self.lost();
                self.send(index, if lost { Arrival::AccountLost } else { Arrival::Account });
            }
            Output::OpenStream => {
                let lost = self.lost();
                self.send(index, if lost { Arrival::Closed } else { Arrival::Opened });
            }
            Output::CloseStream => self.devices[index].stream = false,
            Output::Pull(order) => {
                let lost = self.lost();
                self.send(
                    index,
                    if lost { Arrival::PullLost(order) } else { Arrival::Page(order) },
                );
            }
            Output::Freeze(app) => {
                let device = &mut self.devices[index];
                let testimony = device.engine.testimony(&app);
                let n = device.disk.freeze(10, &testimony);
                let through = device.disk.frozen.as_ref().map_or(0, |frozen| frozen.through);
                let more = device.disk.outbox.len() > through;
                device.engine.handle_frozen(now, &app, n, more);
            }
            Output::SignManifest(app) => {
                let device = &mut self.devices[index];
                let testimony = device.engine.testimony(&app);
                let n = device.disk.bare(&testimony);
                let more = !device.disk.outbox.is_empty();
                device.engine.handle_frozen(now, &app, Some(n), more);
            }
            Output::Resign(app) => {
                let device = &mut self.devices[index];
                let testimony = device.engine.testimony(&app);
                let n = device.disk.resign(&testimony);
                let through = device.disk.frozen.as_ref().map_or(0, |frozen| frozen.through);
                let more = device.disk.outbox.len() > through;
                device.engine.handle_frozen(now, &app, n, more);
            }
            Output::Push(_, ticket) => self.push(index, ticket),
            Output::NewIncarnation { refill, .. } => {
                let incarnation = self.random.next();
                let device = &mut self.devices[index];
                device.disk.renew(incarnation, refill);
                device.engine.handle_renewed(now, device.disk.start());
            }
            Output::RetryQuarantine(app) => {
                let retried = Some(Retried::default());
                self.devices[index].engine.handle_retried(now, &app, retried);
            }
            Output::Alarms => {}
        }
    }

    /// The request may be lost, or reach the server and its answer be lost.
    fn push(&mut self, index: usize, ticket: u64) {
        let Some(push) = self.devices[index].disk.frozen.clone() else {
            let now = self.now;
            self.devices[index].engine.handle_frozen(now, &app(), None, true);
            return;
        };
        if self.lost() {
            self.send(index, Arrival::PushLost(ticket));
            return;
        }
        let result = self.server.push(&push);
        if matches!(&result, Ok(answer) if answer.position.is_some()) {
            for other in (0..self.devices.len()).filter(|other| *other != index) {
                if !self.lost() {
                    self.send(other, Arrival::Hint);
                }
            }
        }
        let lost = self.lost();
        let arrival =
            if lost { Arrival::PushLost(ticket) } else { Arrival::Pushed(ticket, push, result) };
        self.send(index, arrival);
    }

    fn note(&mut self, device: u64, what: u64) {
        let word = self.now.as_millis() ^ (device << 56) ^ (what << 40);
        self.trace = self.trace.rotate_left(5) ^ word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
