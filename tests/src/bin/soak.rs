//! Kills and cuts the power of real programs for as long as you like, and looks for what was lost.

use std::io::Write as _;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tidings_tests::soak::{Plan, Tally, soak};
use tidings_tests::sweep::{Subject, sweep};

/// Ends the real server and real daemons again and again, by kill -9 and by power cuts, while they
/// are written to, and looks for every acknowledged write and push afterwards.
///
/// Exit code 0: nothing was lost. 1: something was; the seed and what it was are printed.
#[derive(Debug, Parser)]
struct Flags {
    /// How many programs are killed.
    #[arg(long, default_value_t = 500)]
    kills: u64,
    /// How many power cuts there are.
    #[arg(long, default_value_t = 200)]
    cuts: u64,
    /// Engines of the server; each gets its part.
    #[arg(long, value_delimiter = ',', default_value = "sled,redb")]
    engines: Vec<String>,
    /// Where every choice comes from; by default from the clock.
    #[arg(long)]
    seed: Option<u64>,
    /// Does the k-th failure sweep instead, all of it: every call of the server and the daemon to
    /// the system that opens, writes, renames, resizes or syncs a file fails once in each way.
    #[arg(long, conflicts_with_all = ["kills", "cuts"])]
    sweep: bool,
    /// So many faults of the sweep for each program, chosen by the seed.
    #[arg(long, requires = "sweep")]
    sample: Option<usize>,
    /// Ends after this many minutes, whatever is left.
    #[arg(long)]
    minutes: Option<u64>,
    /// Prints the result as one line of JSON for each engine; progress goes to standard error.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let seed = flags.seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |now| u64::try_from(now.as_nanos() >> 10).unwrap_or(1))
    });
    if flags.sweep {
        return sweeps(&flags, seed);
    }
    let parts = u64::try_from(flags.engines.len()).unwrap_or(1).max(1);
    let mut lost = false;
    for (place, name) in (0..).zip(&flags.engines) {
        let engine = match name.as_str() {
            "sled" => "sled",
            "redb" => "redb",
            _ => {
                eprintln!("soak: there is no engine {name}: sled and redb are");
                return ExitCode::from(2);
            }
        };
        // What does not divide goes to the first.
        let part = |all: u64| all / parts + if place == 0 { all % parts } else { 0 };
        let plan = Plan {
            most: flags.minutes.map(|minutes| Duration::from_secs(minutes * 60) / parts as u32),
            ..Plan::new(seed, engine, part(flags.kills), part(flags.cuts))
        };
        let mut rounds = 0;
        let tally = soak(&plan, &mut |tally, of| {
            rounds += 1;
            if rounds % 10 == 0 || rounds == of {
                eprintln!("{}", progress(tally, rounds, of));
            }
        });
        lost |= tally.lost.is_some();
        show(&tally, flags.json);
    }
    if lost { ExitCode::from(1) } else { ExitCode::SUCCESS }
}

/// Sweeps the programs one after another.
fn sweeps(flags: &Flags, seed: u64) -> ExitCode {
    let servers = flags.engines.iter().filter_map(|name| match name.as_str() {
        "sled" => Some(Subject::Server("sled")),
        "redb" => Some(Subject::Server("redb")),
        _ => None,
    });
    let mut broken = false;
    for subject in servers.chain([Subject::Daemon]) {
        let mut done = 0;
        let sample = flags.sample.map(|count| (seed, count));
        let work = AssertUnwindSafe(|| {
            sweep(subject, sample, &mut |swept, fault, of| {
                done += 1;
                if done % 50 == 0 || done == of {
                    eprintln!("{subject:?} {done}/{of}: {fault:?}; so far {swept:?}");
                }
            })
        });
        match std::panic::catch_unwind(work) {
            Ok(swept) => {
                broken |= !swept.broken.is_empty();
                let json = serde_json::json!({ "program": format!("{subject:?}"), "swept": swept });
                let text =
                    if flags.json { json.to_string() } else { format!("{subject:?}: {swept:?}") };
                let _ = writeln!(std::io::stdout(), "{text}");
            }
            Err(_) => broken = true,
        }
    }
    if broken { ExitCode::from(1) } else { ExitCode::SUCCESS }
}

fn progress(tally: &Tally, rounds: usize, of: usize) -> String {
    format!(
        "{} {rounds}/{of}: {} kills, {} cuts, {} writes and {} pushes acknowledged, {:.0} s",
        tally.engine, tally.kills, tally.cuts, tally.writes, tally.pushes, tally.seconds
    )
}

fn show(tally: &Tally, json: bool) {
    let text = match (json, &tally.lost) {
        (true, _) => serde_json::to_string(tally).unwrap_or_default(),
        (false, None) => format!(
            "{}, seed {}: {} kills ({} at a chosen change), {} power cuts ({} writes to disk \
             undone), {} more during a start; {} writes and {} pushes acknowledged, {} died \
             unanswered; looked {} times, lost nothing; {:.0} s",
            tally.engine,
            tally.seed,
            tally.kills,
            tally.at_a_change,
            tally.cuts,
            tally.undone,
            tally.openings,
            tally.writes,
            tally.pushes,
            tally.unanswered,
            tally.checked,
            tally.seconds
        ),
        (false, Some(lost)) => {
            format!("{}, seed {}, round {}: LOST: {lost}", tally.engine, tally.seed, tally.round)
        }
    };
    // A closed pipe is the reader's wish.
    let _ = writeln!(std::io::stdout(), "{text}");
}
