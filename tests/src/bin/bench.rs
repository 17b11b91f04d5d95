//! Measures how fast everything is, each figure beside its limit.

use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tidings_tests::bench::{self, ALL, Benchmark, Plan, Record, page};

/// Runs the real programs and, in turns, the simplest program that does the same, and prints what
/// each takes. Build the programs first: `cargo build --release --bins`.
///
/// Exit code 0: everything was measured, whether the aims are met or not. 1: something failed.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Flags {
    /// A benchmark (see `bench list`), or `all`.
    #[arg(required = true)]
    names: Vec<String>,
    /// Prints a line of JSON for each figure.
    #[arg(long)]
    json: bool,
    /// Does a little of everything, to see that it works; the figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// Writes the page of all figures into this file.
    #[arg(long, value_name = "PAGE")]
    write: Option<PathBuf>,
    /// Takes figures that are not measured in this run from the lines of this file, as `--json`
    /// printed them.
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Names the benchmarks.
    List,
    /// A part of a benchmark in a process of its own; the program starts these itself.
    #[command(hide = true)]
    Part { name: String, arguments: Vec<String> },
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    match &flags.verb {
        Some(Verb::Part { name, arguments }) => {
            bench::run_part(name, arguments);
            return ExitCode::SUCCESS;
        }
        Some(Verb::List) => {
            for benchmark in ALL {
                show(&format!("{:<18} {}\n", benchmark.name, benchmark.about));
            }
            return ExitCode::SUCCESS;
        }
        None => {}
    }
    match run(&flags) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Measures what was asked for; false if something failed.
fn run(flags: &Flags) -> anyhow::Result<bool> {
    let chosen = choose(&flags.names)?;
    let mut records = flags.records.as_ref().map(read).transpose()?.unwrap_or_default();
    let plan = if flags.quick { Plan::Quick } else { Plan::Full };
    let mut whole = true;
    for benchmark in chosen {
        match benchmark.records(plan) {
            Ok(measured) => {
                if flags.json {
                    for record in &measured {
                        show(&format!("{}\n", serde_json::to_string(record)?));
                    }
                } else {
                    show(&page::text(benchmark, &measured));
                }
                records.retain(|old| measured.iter().all(|new| new.name != old.name));
                records.extend(measured);
            }
            Err(error) => {
                eprintln!("bench: {} failed: {error}", benchmark.name);
                whole = false;
            }
        }
    }
    if let Some(path) = &flags.write {
        std::fs::write(path, page::page(&records))?;
    }
    Ok(whole)
}

fn choose(names: &[String]) -> anyhow::Result<Vec<&'static Benchmark>> {
    let mut chosen = Vec::new();
    for name in names {
        match name.as_str() {
            "all" => chosen.extend(ALL),
            "none" => {}
            name => match bench::find(name) {
                Some(benchmark) => chosen.push(benchmark),
                None => anyhow::bail!("there is no benchmark {name}: `bench list` names them"),
            },
        }
    }
    Ok(chosen)
}

fn read(path: &PathBuf) -> anyhow::Result<Vec<Record>> {
    let file = std::io::BufReader::new(std::fs::File::open(path)?);
    file.lines().map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

fn show(text: &str) {
    let mut out = std::io::stdout();
    // A closed pipe is the reader's wish.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
