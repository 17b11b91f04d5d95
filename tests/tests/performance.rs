//! `docs/performance.md` and the program that writes it. Speed itself is never asserted.

use std::path::Path;
use std::process::Command;

use tidings_tests::bench::{ALL, Record, page};

fn bench(arguments: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_bench")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_page_names_every_benchmark_and_its_command() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/performance.md");
    let shown = std::fs::read_to_string(path).unwrap();
    for benchmark in ALL {
        assert!(shown.contains(&format!("\n## {}\n", benchmark.name)), "{}", benchmark.name);
        let command = page::command(benchmark.name);
        assert!(shown.contains(&format!("\n{command}\n")), "{command}");
        for figure in benchmark.figures {
            let name = format!("| `{}.{}` |", benchmark.name, figure.name);
            assert!(shown.contains(&name), "{name} is missing: write the page anew");
        }
    }
    assert!(!shown.contains(page::UNEXPLAINED), "an aim is not met, and nobody says why");
}

#[test]
fn the_program_lists_its_benchmarks() {
    let (good, listed, _) = bench(&["list"]);
    assert!(good);
    let names: Vec<_> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    let all: Vec<_> = ALL.iter().map(|benchmark| benchmark.name).collect();
    assert_eq!(names, all);
}

#[test]
fn a_figure_is_a_line_of_json_beside_its_limit() {
    let (good, printed, said) = bench(&["sealing", "changed", "--quick", "--json"]);
    assert!(good, "{said}");
    let records = printed.lines().map(|line| serde_json::from_str::<Record>(line).unwrap());
    let records: Vec<Record> = records.collect();
    let names: Vec<_> = records.iter().map(|record| &record.name).collect();
    let cipher = ["sealing.seal", "sealing.open", "sealing.cipher", "sealing.signature"];
    assert_eq!(names, [&cipher[..], &["changed.p50"]].concat());
    let limited: Vec<_> = records.iter().map(|record| record.limit.is_some()).collect();
    assert_eq!(limited, [true, true, false, false, true]);
    for record in &records {
        assert!(record.ours > 0.0, "{record:?}");
        let ratio = record.limit.map(|limit| record.ours / limit);
        assert_eq!(record.ratio, ratio, "{record:?}");
        assert_eq!(record.met.is_some(), record.aim.is_some(), "{record:?}");
    }
}

#[test]
fn a_benchmark_that_is_not_there_is_refused() {
    let (good, printed, said) = bench(&["chnaged"]);
    assert!(!good && printed.is_empty(), "{printed}");
    assert!(said.contains("there is no benchmark chnaged: `bench list` names them"), "{said}");
}
