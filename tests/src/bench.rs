//! How fast everything is, and how fast it could be: each figure is measured beside its limit, what
//! this machine allows to the simplest program that does the same, in the same run.
//!
//! A [`Benchmark`] is one run of real programs and of the limit in turns; it gives a few
//! [`Figure`]s, medians over its rounds. Aims and, where one is not met, the reason stand beside the
//! definition; `docs/performance.md` is written from them. Nothing here is asserted by a test.

mod accounts;
mod bootstrap;
mod floor;
mod idle_daemon;
mod idle_streams;
mod limits;
mod load;
mod local;
mod machine;
mod notify;
pub mod page;
mod part;
mod process;
mod pull;
mod pushes;
mod rounds;
mod sealing;
mod stalled;

use std::panic::AssertUnwindSafe;

use serde::{Deserialize, Serialize};

pub use self::machine::machine;
pub use self::part::run as run_part;
use self::rounds::Rounds;

/// One run, and the figures that it gives.
#[derive(Debug)]
pub struct Benchmark {
    /// What the command line calls it.
    pub name: &'static str,
    /// What is done, in a sentence or two.
    pub about: &'static str,
    /// What it gives, in this order.
    pub figures: &'static [Figure],
    /// Measures.
    run: fn(&Plan) -> Rounds,
}

/// One figure: what is measured, and what it ought to be.
#[derive(Debug)]
pub struct Figure {
    /// Its name within its benchmark.
    pub name: &'static str,
    /// What is measured.
    pub what: &'static str,
    /// The unit of both numbers.
    pub unit: &'static str,
    /// What the limit is; empty where there is none.
    pub limit: &'static str,
    /// What it ought to be.
    pub aim: Aim,
    /// Why it is not, where it is not: what was found when it was looked into.
    pub unmet: &'static str,
}

/// What a figure ought to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// At most so many times the limit.
    TimesAtMost(f64),
    /// At least so many times the limit.
    TimesAtLeast(f64),
    /// At most so much, in the figure's unit.
    AtMost(f64),
    /// Told for what it explains.
    None,
}

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Enough for figures that mean something.
    Full,
    /// A little of everything, to see that it works.
    Quick,
}

/// A figure as it is printed: one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// `BENCHMARK.FIGURE`.
    pub name: String,
    /// What was measured.
    pub ours: f64,
    /// What the limit does.
    pub limit: Option<f64>,
    /// `ours / limit`.
    pub ratio: Option<f64>,
    /// The aim, in words.
    pub aim: Option<String>,
    /// Whether the aim is met.
    pub met: Option<bool>,
    /// Of both numbers.
    pub unit: String,
    /// Lowest and highest of `ours` over the rounds.
    pub range: (f64, f64),
    /// Rounds that the medians are taken of.
    pub rounds: usize,
    /// What it was measured on.
    pub machine: String,
}

/// Every benchmark, in the order of the page.
pub const ALL: &[Benchmark] = &[
    notify::CHANGED,
    notify::CHANNELS,
    notify::FANOUT_1000,
    notify::FANOUT_10000,
    idle_streams::PLAIN,
    idle_streams::TLS,
    idle_streams::KEEPALIVE,
    stalled::STALLED,
    pushes::PUSHES,
    pull::PULL,
    local::LOCAL_WRITE,
    local::SOCKET_TO_SOCKET,
    bootstrap::BOOTSTRAP,
    idle_daemon::IDLE_DAEMON,
    sealing::SEALING,
];

/// The benchmark of a name.
pub fn find(name: &str) -> Option<&'static Benchmark> {
    ALL.iter().find(|benchmark| benchmark.name == name)
}

impl Benchmark {
    /// Measures and gives its figures, or what went wrong.
    ///
    /// # Errors
    /// A program failed or a deadline passed: the panic's text.
    pub fn records(&self, plan: Plan) -> Result<Vec<Record>, String> {
        let run = AssertUnwindSafe(|| (self.run)(&plan));
        let rounds = std::panic::catch_unwind(run).map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
            text.unwrap_or_else(|| "a panic".to_owned())
        })?;
        let machine = machine();
        Ok(self.figures.iter().map(|figure| self.record(figure, &rounds, &machine)).collect())
    }

    fn record(&self, figure: &Figure, rounds: &Rounds, machine: &str) -> Record {
        let measured = rounds.of(figure.name);
        // A limit of nothing has no multiples.
        let limit = measured.limit.filter(|limit| *limit != 0.0);
        let ratio = limit.map(|limit| measured.ours / limit);
        Record {
            name: format!("{}.{}", self.name, figure.name),
            ours: measured.ours,
            limit: measured.limit,
            ratio,
            aim: figure.aim.text(figure.unit),
            met: figure.aim.met(measured.ours, ratio),
            unit: figure.unit.to_owned(),
            range: measured.range,
            rounds: measured.rounds,
            machine: machine.to_owned(),
        }
    }
}

impl Aim {
    /// In words.
    pub fn text(self, unit: &str) -> Option<String> {
        match self {
            Self::TimesAtMost(times) => Some(format!("≤ {times} × the limit")),
            Self::TimesAtLeast(times) => Some(format!("≥ {times} × the limit")),
            Self::AtMost(most) => Some(format!("≤ {most} {unit}")),
            Self::None => None,
        }
    }

    fn met(self, ours: f64, ratio: Option<f64>) -> Option<bool> {
        match self {
            Self::TimesAtMost(times) => Some(ratio? <= times),
            Self::TimesAtLeast(times) => Some(ratio? >= times),
            Self::AtMost(most) => Some(ours <= most),
            Self::None => None,
        }
    }
}

impl Plan {
    /// The one or the other.
    fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }

    /// How often everything is measured.
    fn rounds(self) -> usize {
        self.pick(3, 1)
    }
}

/// Runs asynchronous work of a benchmark.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().expect("a runtime").block_on(work)
}
