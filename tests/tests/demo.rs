//! `tidings demo`: what it prints, what its result says, and that nothing is left behind.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_tests::process::command;
use tidings_tests::{Process, programs};

/// A demo on two busy cores, with programs that are not optimised.
const DEADLINE: Duration = Duration::from_secs(240);

/// A demo whose directory for temporary files is this test's own.
struct Demo {
    dir: TempDir,
    process: Option<Process>,
}

impl Demo {
    fn start(arguments: &[&str], file: Option<&str>) -> Self {
        let dir = tempfile::Builder::new().prefix("td-").tempdir().unwrap();
        let tmp = dir.path().join("tmp");
        std::fs::create_dir(&tmp).unwrap();
        let mut demo = command(programs::tidings());
        demo.env("TMPDIR", &tmp).env("HOME", dir.path()).arg("demo").args(arguments);
        if let Some(text) = file {
            let path = dir.path().join("notes.json");
            std::fs::write(&path, text).unwrap();
            demo.arg(path);
        }
        let process = Some(Process::start("demo", &mut demo));
        Self { dir, process }
    }

    fn process(&mut self) -> &mut Process {
        self.process.as_mut().unwrap()
    }

    fn finished(&mut self) -> (ExitStatus, String) {
        self.process.take().unwrap().finished(DEADLINE)
    }

    fn tmp(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    fn leaves_nothing(&self, when: &str) {
        let left: Vec<_> = std::fs::read_dir(self.tmp()).unwrap().collect();
        assert!(left.is_empty(), "{when}: {left:?} is left");
        let running = processes_with(&self.tmp());
        assert!(running.is_empty(), "{when}: still running: {running:?}");
    }
}

/// Command lines of all processes that name a path.
fn processes_with(path: &Path) -> Vec<String> {
    let path = path.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(path))
        .collect()
}

const FEW: &str = r#"[{"id":"a","title":"a row to follow"},{"id":"b","title":"another row"}]"#;

/// What is said, with everything that differs from run to run replaced.
const TRANSCRIPT: &str = "\
Tidings demo: one server and two devices on this machine. Ctrl-C ends it and leaves nothing behind.

server     runs at https://127.0.0.1:#, with a certificate made just now
first      runs, and made keys and the account ACCOUNT
second     runs, and is linked by the code CODE
hello      a first row, in an app that the second had never heard of: there after # ms
import     3,201 rows of movies.json into 1 table on the first, in # s
follow     all of them on the second, # s after the first row was sent
first      sees movies 3,201
second     sees movies 3,201
compare    row by row: both devices hold exactly the rows of the file
edit       Creative Type becomes \"Historical Fiction (edited on the second)\" on the second; the first hears of it # ms later
edits      200 more, from the write to the event: half within # ms, 99 of 100 within # ms
compare    row by row, after the edits: still equal
server     holds # MB and passed # MB on; # MB searched for the rows and names
sealed     none of them is in what the server holds or in what crossed the wire";

#[test]
fn its_look() {
    let mut demo = Demo::start(&["--once"], None);
    let (status, text) = demo.finished();
    assert!(status.success(), "{status}\n{text}");
    assert!(text.bytes().all(|byte| byte == b'\n' || byte >= b' '), "escape bytes:\n{text}");
    let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap_or_default();
    assert!(widest.chars().count() <= 100, "wider than 100 columns:\n{widest}");
    assert_eq!(normalised(&text), TRANSCRIPT);
    demo.leaves_nothing("after --once");
}

/// Joins wrapped lines and replaces times, sizes, ports, ids and codes.
fn normalised(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("           "), lines.last_mut()) {
            (Some(rest), Some(last)) => last.push_str(&format!(" {rest}")),
            _ => lines.push(line.to_owned()),
        }
    }
    let words = |line: &String| -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let mut shown = Vec::new();
        for (index, word) in words.iter().enumerate() {
            let next = words.get(index + 1).map_or("", |next| next.trim_matches([',', ';']));
            let plain = word.chars().all(|c| c.is_ascii_digit() || c == '.');
            let unit = matches!(next, "ms" | "s" | "MB" | "kB");
            shown.push(match word {
                word if plain && !word.is_empty() && unit => "#".to_owned(),
                word if word.len() == 32 && word.chars().all(|c| c.is_ascii_hexdigit()) => {
                    "ACCOUNT".to_owned()
                }
                word if word.split('-').next().is_some_and(|n| n.parse::<u32>().is_ok())
                    && word.matches('-').count() == 3 =>
                {
                    "CODE".to_owned()
                }
                word => match word.split_once("127.0.0.1:") {
                    Some((before, _)) => format!("{before}127.0.0.1:#,"),
                    None => word.to_owned(),
                },
            });
        }
        shown.join(" ")
    };
    lines.iter().map(words).collect::<Vec<_>>().join("\n")
}

#[test]
fn its_result_on_the_films() {
    let mut demo = Demo::start(&["--once", "--json"], None);
    let (status, text) = demo.finished();
    assert!(status.success(), "{status}\n{text}");
    let [line] = text.lines().collect::<Vec<_>>()[..] else { panic!("not one line:\n{text}") };
    let result: Value = serde_json::from_str(line).unwrap();
    let keys: Vec<_> = result.as_object().unwrap().keys().map(String::as_str).collect();
    let promised = [
        "equal",
        "import_s",
        "plaintext_found",
        "replicate_s",
        "rows",
        "server_bytes",
        "tables",
        "write_to_event_ms",
    ];
    assert_eq!(keys, promised);
    assert_eq!(result["rows"], json!(3201));
    assert_eq!(result["tables"], json!(1));
    assert_eq!(result["equal"], json!(true));
    assert_eq!(result["plaintext_found"], json!(false));
    assert!(result["server_bytes"].as_u64().unwrap() > 100_000);
    let [p50, p99] = ["p50", "p99"].map(|p| result["write_to_event_ms"][p].as_f64().unwrap());
    assert!(0.0 < p50 && p50 <= p99);
    demo.leaves_nothing("after --once --json");
}

#[test]
fn it_would_find_clear_text() {
    let mut demo = Demo::start(&["--once", "--json", "--plant"], Some(FEW));
    let (status, text) = demo.finished();
    assert_eq!(status.code(), Some(1), "{text}");
    let result: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(result["plaintext_found"], json!(true));
    assert_eq!(result["equal"], json!(true));
    demo.leaves_nothing("after a search that found something");
}

#[test]
fn fixtures_come_as_tables() {
    let rows: Vec<Value> = (0..300)
        .map(|n| {
            let model = ["shop.artist", "shop.album", "shop.track"][n % 3];
            json!({"model": model, "pk": n / 3, "fields": {"title": format!("the title {n}"),
                "n": n, "price": 0.99}})
        })
        .collect();
    let text = serde_json::to_string(&rows).unwrap();
    let mut demo = Demo::start(&["--once", "--json"], Some(&text));
    let (status, text) = demo.finished();
    assert!(status.success(), "{status}\n{text}");
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&result["rows"], &result["tables"]), (&json!(300), &json!(3)));
    assert_eq!(result["equal"], json!(true));
}

#[test]
fn ctrl_c_in_any_phase_leaves_nothing() {
    let phases =
        ["Tidings", "server", "first", "second", "hello", "import", "edits", "Everything runs"];
    for (index, phase) in phases.into_iter().enumerate() {
        let mut demo = Demo::start(&[], Some(FEW));
        demo.process().line(phase, DEADLINE, |line| line.starts_with(phase).then_some(()));
        let signal = if index % 2 == 0 { Signal::INT } else { Signal::TERM };
        demo.process().signal(signal);
        let (status, text) = demo.finished();
        // In its last phase it was only waiting for this; before, it had not shown everything.
        let done = phase == "Everything runs";
        assert_eq!(status.code(), Some(i32::from(!done)), "{phase}: {text}");
        demo.leaves_nothing(phase);
    }
}

#[test]
fn programs_do_not_outlive_a_killed_demo() {
    let mut demo = Demo::start(&[], Some(FEW));
    demo.process().line("the end", DEADLINE, |line| line.starts_with("Everything").then_some(()));
    let running = processes_with(&demo.tmp());
    assert_eq!(running.len(), 3, "a server and two daemons: {running:?}");
    demo.process().kill();
    let end = std::time::Instant::now() + DEADLINE;
    while !processes_with(&demo.tmp()).is_empty() {
        assert!(std::time::Instant::now() < end, "{:?}", processes_with(&demo.tmp()));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_two_lines_to_try_work() {
    let mut demo = Demo::start(&[], Some(FEW));
    demo.process().line("the end", DEADLINE, |line| line.starts_with("Everything").then_some(()));
    let log = demo.process().log();
    let lines: Vec<&str> = log.lines().collect();
    let tries: Vec<String> = lines
        .windows(2)
        .filter(|pair| pair[0].starts_with("  curl "))
        .map(|pair| pair.concat().replace('\\', ""))
        .collect();
    assert_eq!(tries.len(), 2, "{log}");
    let shell = |line: &str| Process::start("curl", command("sh").args(["-c", line]));
    let follow = shell(&tries[0]);
    follow.line("the stream", DEADLINE, |line| line.starts_with("event: connected").then_some(()));
    let (status, text) = shell(&tries[1]).finished(DEADLINE);
    assert!(status.success() && text.contains("_ver"), "{text}");
    follow.line("the row", DEADLINE, |line| line.contains("\"hello\":\"first\"").then_some(()));
}

#[test]
fn without_a_server_program_it_says_how_to_build_one() {
    let built = programs::tidings();
    let dir = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
    let alone = dir.path().join("tidings");
    std::fs::hard_link(&built, &alone).unwrap();
    let mut demo = command(&alone);
    demo.env("PATH", "/nowhere").env("TMPDIR", dir.path()).args(["demo", "--once"]);
    let (status, text) = Process::start("demo", &mut demo).finished(DEADLINE);
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("cargo build --release -p tidings-server"), "{text}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "only the program");
}
