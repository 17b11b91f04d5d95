//! What happens in which round, from a seed alone.

use std::time::Duration;

use tidings_disk::{Loss, pick};

use super::LONGEST;

/// What to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where every choice comes from.
    pub seed: u64,
    /// How many programs are killed.
    pub kills: u64,
    /// How many power cuts there are.
    pub cuts: u64,
    /// The server's engine: `sled` or `redb`.
    pub engine: &'static str,
    /// It ends after this time in any case.
    pub most: Option<Duration>,
    /// Disks that keep nothing of what they said was synced: then the soak has to fail.
    pub lies: bool,
    /// Who ends; all in turn.
    pub targets: &'static [Target],
}

impl Plan {
    /// A plan with kills and cuts over all programs.
    pub fn new(seed: u64, engine: &'static str, kills: u64, cuts: u64) -> Self {
        Self { seed, kills, cuts, engine, most: None, lies: false, targets: &Target::ALL }
    }

    /// The rounds in order.
    pub fn rounds(&self) -> Vec<Round> {
        let (mut kills, mut cuts) = (self.kills, self.cuts);
        let mut rounds = Vec::new();
        for target in self.targets.iter().copied().cycle() {
            if kills + cuts == 0 {
                break;
            }
            let number = rounds.len() as u64;
            let choose = |salt: u64, limit: u64| {
                pick(self.seed ^ number.rotate_left(16) ^ salt.rotate_left(48), limit)
            };
            let kill = choose(1, kills + cuts) < kills;
            let (taken, end) = match kill {
                true if choose(2, 3) == 0 => (&mut kills, End::Change(1 + choose(3, 60))),
                true => (&mut kills, End::Kill),
                false if self.lies => (&mut cuts, End::Cut(Loss::Lies)),
                false if choose(2, 2) == 0 => (&mut cuts, End::Cut(Loss::Everything)),
                false => (&mut cuts, End::Cut(Loss::Scattered(choose(3, u64::MAX)))),
            };
            *taken -= 1;
            let longest = u64::try_from(LONGEST.as_micros()).unwrap_or(u64::MAX);
            let moment = Duration::from_micros(choose(4, longest));
            let opening = (choose(5, 4) == 0).then(|| Duration::from_micros(choose(6, 120_000)));
            rounds.push(Round { target, end, moment, opening });
        }
        rounds
    }
}

/// One round.
#[derive(Debug, Clone)]
pub struct Round {
    /// Who ends.
    pub target: Target,
    /// How.
    pub end: End,
    /// How long everybody writes before.
    pub moment: Duration,
    /// A first start after that is killed, too, this long after it began; none in most rounds.
    pub opening: Option<Duration>,
}

/// A program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The server.
    Server,
    /// The daemon of a device, by its place.
    Device(usize),
}

impl Target {
    /// The server in every second round, a device in the others.
    pub const ALL: [Self; 4] = [Self::Server, Self::Device(0), Self::Server, Self::Device(1)];
}

/// How a program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// `kill -9` in any moment.
    Kill,
    /// `kill -9` before its so-many-th change or sync of a file.
    Change(u64),
    /// The power is cut.
    Cut(Loss),
}

impl End {
    /// Whether the program's life has to be led on a disk of the tests.
    pub fn needs_disk(self) -> bool {
        self != Self::Kill
    }
}
