//! A server and two linked devices, each on a disk that can lose.

use std::process::Command;
use std::time::{Duration, Instant};

use tidings_disk::Disk;
use tidings_wire::AppId;
use tokio_util::sync::CancellationToken;

use super::pushes::Pushes;
use super::rows::{Rows, TABLE, by_id};
use super::{End, Plan, Round, Tally, Target};
use crate::{DEADLINE, Device, House, Server, eventually};

/// The programs, their disks, and who writes.
#[derive(Debug)]
pub(super) struct Scene {
    house: House,
    app: AppId,
    disks: Disks,
    rows: [Rows; 2],
    pushes: Pushes,
}

#[derive(Debug)]
struct Disks {
    server: Disk,
    devices: [Disk; 2],
}

impl Disks {
    fn of(&self, target: Target) -> &Disk {
        match target {
            Target::Server => &self.server,
            Target::Device(place) => &self.devices[place],
        }
    }
}

/// Nobody is limited, and everybody comes back at once.
const SERVER: [&str; 6] = [
    "rates.address=off",
    "rates.account=off",
    "rates.create_account=off",
    "rates.open_mailbox=off",
    // The device by hand signs in once.
    "auth.token_life=24h",
    "log=warn",
];

impl Scene {
    pub(super) async fn start(plan: &Plan) -> Self {
        let server = Server::over(plan.engine, &SERVER);
        let names = ["a", "b"];
        let house = House::of(server, None, names.map(Device::new)).await;
        let disk = |place: usize| Disk::under_dir(&house.device(place).home(), &["store"]);
        let disks = Disks {
            server: Disk::under_dir(&house.server.store_dir(), &[]),
            devices: [disk(0), disk(1)],
        };
        let pushes = Pushes::start(&house.server.url(), plan.seed).await;
        let rows = names.map(|name| Rows::new(name, plan.seed ^ u64::from(name.as_bytes()[0])));
        Self { house, app: "soak".parse().expect("an app"), disks, rows, pushes }
    }

    /// Starts every program anew on the disk that its first end needs.
    pub(super) async fn settle(&mut self, rounds: &[Round]) {
        for target in [Target::Server, Target::Device(0), Target::Device(1)] {
            match target {
                Target::Server => self.house.server.stop(),
                Target::Device(place) => self.house.device_mut(place).stop(),
            }
            self.resume(target, rounds).await;
        }
    }

    /// Lets everybody write, ends one program in the midst of it, and starts it again.
    pub(super) async fn round(
        &mut self,
        round: &Round,
        rest: &[Round],
        tally: &mut Tally,
    ) -> Result<(), String> {
        let stop = CancellationToken::new();
        let clients = [0, 1].map(|place| self.house.device(place).client().clone());
        if let End::Change(step) = round.end {
            self.disks.of(round.target).at(step, tidings_disk::Act::Kill);
        }
        let [first, second] = &mut self.rows;
        let mut tallies = [Tally::default(), Tally::default(), Tally::default()];
        let [one, two, three] = &mut tallies;
        let ending = end(&mut self.house, round, &stop);
        let (a, b, c, log) = tokio::join!(
            first.write(&clients[0], &self.app, &stop, one),
            second.write(&clients[1], &self.app, &stop, two),
            self.pushes.push(&stop, three),
            ending,
        );
        for part in tallies {
            tally.writes += part.writes;
            tally.pushes += part.pushes;
            tally.unanswered += part.unanswered;
        }
        a.and(b).and(c)?;
        honest(&log)?;
        self.lose(round, tally);
        if let Some(after) = round.opening {
            self.die_opening(round, after, tally);
        }
        self.resume(round.target, rest).await;
        Ok(())
    }

    /// Does to the disk of a program that has ended what its end does.
    fn lose(&self, round: &Round, tally: &mut Tally) {
        let disk = self.disks.of(round.target);
        match round.end {
            End::Kill => tally.kills += 1,
            End::Change(_) => {
                tally.kills += 1;
                tally.at_a_change += u64::from(disk.came());
                disk.spare();
            }
            End::Cut(loss) => {
                tally.cuts += 1;
                tally.undone += disk.cut(loss);
            }
        }
    }

    /// A start that ends as the life before it did.
    fn die_opening(&mut self, round: &Round, after: Duration, tally: &mut Tally) {
        let disk = self.disks.of(round.target);
        let prepare = |command: &mut Command| {
            if round.end.needs_disk() {
                disk.under(command);
            }
        };
        match round.target {
            Target::Server => self.house.server.begin_with(prepare),
            Target::Device(place) => self.house.device_mut(place).begin_with(prepare),
        }
        std::thread::sleep(after);
        kill(&mut self.house, round.target);
        tally.openings += 1;
        match round.end {
            End::Kill => {}
            End::Change(_) => disk.spare(),
            End::Cut(loss) => tally.undone += disk.cut(loss),
        }
    }

    /// Starts a program on the disk that its next end needs.
    async fn resume(&mut self, target: Target, rest: &[Round]) {
        let next = rest.iter().find(|round| round.target == target);
        let disk = next.filter(|round| round.end.needs_disk()).map(|_| self.disks.of(target));
        let prepare = |command: &mut Command| {
            if let Some(disk) = disk {
                disk.under(command);
            }
        };
        match target {
            Target::Server => self.house.server.resume_with(prepare),
            Target::Device(place) => self.house.device_mut(place).resume_with(prepare).await,
        }
    }

    /// Looks for everything that was promised.
    pub(super) async fn check(
        &mut self,
        round: &Round,
        whole: bool,
        tally: &mut Tally,
    ) -> Result<(), String> {
        if let Target::Device(place) = round.target {
            let device = self.house.device(place);
            let shown = device.rows(&self.app, TABLE).await;
            self.rows[place].settle(&shown, tally)?;
        }
        if whole || round.target == Target::Server {
            self.pushes.check(whole, tally).await?;
        }
        for device in &self.house.devices {
            self.converged(device, tally).await?;
        }
        Ok(())
    }

    /// A device comes to show everything that both were promised, and has nothing to complain of.
    async fn converged(&self, device: &Device, tally: &mut Tally) -> Result<(), String> {
        let mut expected = self.rows[0].known().clone();
        expected.extend(self.rows[1].known().clone());
        let what = format!("{} shows every acknowledged row", device.name());
        eventually(&what, DEADLINE, async || {
            let shown = by_id(&device.rows(&self.app, TABLE).await);
            let wrong = expected.iter().find(|(id, row)| shown.get(*id) != Some(row));
            match wrong {
                None if shown.len() == expected.len() => Ok(()),
                None => Err(format!("{} rows, not {}", shown.len(), expected.len())),
                Some((id, _)) => {
                    let status = device.status().await;
                    Err(format!("{id} is missing or old; {:?} {:?}", status.state, status.reason))
                }
            }
        })
        .await;
        tally.checked += expected.len() as u64;
        let status = device.status().await;
        if !status.alarms.is_empty() {
            return Err(format!("{} says {:?}", device.name(), status.alarms));
        }
        honest(&device.log())
    }

    /// Whoever comes last finds everything on the server alone.
    pub(super) async fn newcomer(&mut self, tally: &mut Tally) -> Result<(), String> {
        let place = self.house.devices.len();
        self.house.link(Device::new("c")).await;
        for known in 0..place {
            self.house.device_mut(known).kill();
        }
        self.converged(self.house.device(place), tally).await
    }
}

/// Ends a program in its moment. Answers what it had logged.
async fn end(house: &mut House, round: &Round, stop: &CancellationToken) -> String {
    let log = match round.end {
        End::Kill | End::Cut(_) => {
            tokio::time::sleep(round.moment).await;
            kill(house, round.target)
        }
        End::Change(_) => {
            let late = Instant::now() + LONGEST_FOR_A_CHANGE;
            while runs(house, round.target) && Instant::now() < late {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            kill(house, round.target)
        }
    };
    stop.cancel();
    log
}

fn runs(house: &mut House, target: Target) -> bool {
    match target {
        Target::Server => house.server.process().runs(),
        Target::Device(place) => house.device_mut(place).process().runs(),
    }
}

fn kill(house: &mut House, target: Target) -> String {
    match target {
        Target::Server => {
            let log = house.server.log();
            house.server.kill();
            log
        }
        Target::Device(place) => {
            let device = house.device_mut(place);
            let log = device.log();
            device.kill();
            log
        }
    }
}

/// No program noticed that another had forgotten something, or panicked.
fn honest(log: &str) -> Result<(), String> {
    let amiss = ["takes a new incarnation", "panicked", "damaged"];
    let line = log.lines().find(|line| amiss.iter().any(|word| line.contains(word)));
    line.map_or(Ok(()), |line| Err(format!("a program says: {line}")))
}

/// How long a program may take to come to the change at which it is killed; after that it is
/// killed anyway.
const LONGEST_FOR_A_CHANGE: Duration = Duration::from_secs(1);
