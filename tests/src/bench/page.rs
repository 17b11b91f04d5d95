//! The figures for people: a table in the terminal, and `docs/performance.md`.

use std::fmt::Write as _;

use super::{ALL, Benchmark, Figure, Record};

/// The command that makes the figures of a benchmark.
pub fn command(name: &str) -> String {
    format!("cargo run --release -p tidings-tests --bin bench -- {name}")
}

/// The records of one benchmark, as a few lines of text.
pub fn text(benchmark: &Benchmark, records: &[Record]) -> String {
    let mut text = format!("{}: {}\n", benchmark.name, benchmark.about);
    for (figure, record) in pairs(benchmark, records) {
        let limit = match (record.limit, record.ratio) {
            (Some(limit), Some(ratio)) => {
                format!("; limit {} {}, {ratio:.2} ×", number(limit), record.unit)
            }
            _ => String::new(),
        };
        let aim = record
            .aim
            .as_ref()
            .map_or_else(String::new, |aim| format!("; aim {aim}: {}", verdict(record.met)));
        _ = writeln!(
            text,
            "  {:<12} {} {} ({} to {}){limit}{aim}",
            figure.name,
            number(record.ours),
            record.unit,
            number(record.range.0),
            number(record.range.1)
        );
    }
    text
}

/// The whole page.
pub fn page(records: &[Record]) -> String {
    let mut page = INTRODUCTION.replace("COMMAND", &command("all --write docs/performance.md"));
    let machine = records.first().map_or("", |record| &record.machine);
    _ = writeln!(page, "Measured on: {machine}.\n");
    page.push_str("| figure | ours | limit | ours / limit | aim | |\n|---|---|---|---|---|---|\n");
    for benchmark in ALL {
        for (_, record) in pairs(benchmark, records) {
            _ = writeln!(page, "{}", row(record));
        }
    }
    for benchmark in ALL {
        section(&mut page, benchmark, records);
    }
    page
}

fn section(page: &mut String, benchmark: &Benchmark, records: &[Record]) {
    let (name, about) = (benchmark.name, benchmark.about);
    _ = writeln!(page, "\n## {name}\n\n{about}\n\n```sh\n{}\n```\n", command(name));
    for (figure, record) in pairs(benchmark, records) {
        let range = (number(record.range.0), number(record.range.1));
        let limit = if figure.limit.is_empty() { "none" } else { figure.limit };
        _ = writeln!(
            page,
            "- **{}**: {}. {} {} ({} to {} in {} rounds). Limit: {limit}.",
            figure.name,
            figure.what,
            number(record.ours),
            record.unit,
            range.0,
            range.1,
            record.rounds
        );
        if record.met == Some(false) {
            let aim = record.aim.as_deref().unwrap_or_default();
            let reason = if figure.unmet.is_empty() { UNEXPLAINED } else { figure.unmet };
            _ = writeln!(page, "  **Not met** ({aim}): {reason}");
        }
    }
}

fn row(record: &Record) -> String {
    let limit = record.limit.map_or_else(|| "–".to_owned(), |limit| with_unit(limit, record));
    let ratio = record.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2} ×"));
    format!(
        "| `{}` | {} | {limit} | {ratio} | {} | {} |",
        record.name,
        with_unit(record.ours, record),
        record.aim.as_deref().unwrap_or("–"),
        verdict(record.met)
    )
}

fn with_unit(value: f64, record: &Record) -> String {
    format!("{} {}", number(value), record.unit)
}

fn verdict(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "met",
        Some(false) => "**not met**",
        None => "",
    }
}

/// The figures that there are records of.
fn pairs<'a>(
    benchmark: &'a Benchmark,
    records: &'a [Record],
) -> impl Iterator<Item = (&'a Figure, &'a Record)> {
    benchmark.figures.iter().filter_map(|figure| {
        let name = format!("{}.{}", benchmark.name, figure.name);
        Some((figure, records.iter().find(|record| record.name == name)?))
    })
}

/// Three digits that mean something.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 10_000.0 => {
            let digits = format!("{value:.0}");
            let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().collect();
            groups.join(&b',').into_iter().map(char::from).collect()
        }
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// What the page says of an aim that is not met and has no reason yet.
pub const UNEXPLAINED: &str = "nobody has looked into it yet.";

const INTRODUCTION: &str = "\
# How fast it is

Each figure stands beside its limit: what the same machine allowed, in the same run and in turns, to
the simplest program that does the same. What counts is the ratio; the figures themselves are those
of one machine. Figures and limits are medians over rounds. This page is written by

```sh
COMMAND
```

which needs the programs of the same build (`cargo build --release --bins`). `bench list` names the
benchmarks, `--json` prints a line for each figure.

";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_or_groups() {
        let shown = [0.3, 2.345, 17.04, 151.0, 9_999.4, 10_000.0, 1_234_567.0].map(number);
        assert_eq!(shown, ["0.30", "2.35", "17.0", "151", "9999", "10,000", "1,234,567"]);
    }

    #[test]
    fn the_page_says_what_is_not_met_and_why() {
        let record = |met| Record {
            name: "changed.p50".to_owned(),
            ours: 300.0,
            limit: Some(100.0),
            ratio: Some(3.0),
            aim: Some("≤ 1.5 × the limit".to_owned()),
            met: Some(met),
            unit: "µs".to_owned(),
            range: (200.0, 400.0),
            rounds: 3,
            machine: "a machine".to_owned(),
        };
        let page = page(&[record(false)]);
        assert!(page.contains("| `changed.p50` | 300 µs | 100 µs | 3.00 × |"), "{page}");
        assert!(page.contains("**Not met** (≤ 1.5 × the limit): "), "{page}");
        assert!(page.contains("a machine"), "{page}");
        let page = super::page(&[record(true)]);
        assert!(!page.contains("Not met"), "{page}");
    }
}
