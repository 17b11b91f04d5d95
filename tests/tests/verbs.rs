//! The command line as people and scripts use it: what it prints and how it exits.

use std::fs;
use std::process::{Command, ExitStatus};

use rustix::process::Signal;
use serde_json::{Value, json};
use tidings_tests::process::command;
use tidings_tests::{DEADLINE, Device, House, Process, eventually, programs};

fn said(device: &Device, verb: &[&str]) -> String {
    let (status, text) = device.run(verb);
    assert!(status.success(), "tidings {} ended with {status}\n{text}", verb.join(" "));
    text
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn failed(device: &Device, verb: &[&str], code: i32) -> String {
    let (status, text) = device.run(verb);
    assert_eq!(status.code(), Some(code), "tidings {}\n{text}", verb.join(" "));
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_from_a_shell() {
    let device = Device::start("shell").await;
    let on = |rest: &[&str]| said(&device, &[&["--app", "notes"], rest].concat());

    assert_eq!(
        on(&["put", "tasks", r#"{"title":"Milk","n":18446744073709551615}"#, "--id", "a"]),
        "a"
    );
    let row: Value = serde_json::from_str(&on(&["get", "tasks", "a"])).unwrap();
    assert_eq!((&row["title"], &row["n"]), (&json!("Milk"), &json!(u64::MAX)));
    assert_eq!(on(&["patch", "tasks", "a", r#"{"title":null,"done":true}"#]), "a");
    let row: Value = serde_json::from_str(&on(&["--json", "get", "tasks", "a"])).unwrap();
    assert_eq!((row.get("title"), &row["done"]), (None, &json!(true)));
    assert_eq!(on(&["patch", "tasks", "a", r#"{"$set":{"title":null}}"#]), "a");
    let made = on(&["put", "tasks", r#"{"title":"Bread"}"#]);
    assert_eq!(made.len(), 36, "a UUID: {made}");

    let answer =
        lines(&on(&["--json", "query", "tasks", "--filter", r#"{"done":true}"#, "--total"]));
    assert_eq!((answer.len(), &answer[0]["id"], &answer[1]["total"]), (2, &json!("a"), &json!(1)));
    assert_eq!(on(&["tables"]), "table  rows\ntasks     2");
    assert_eq!(said(&device, &["apps"]), "app    tables  rows\nnotes       1     2");

    let stale = failed(
        &device,
        &["--app", "notes", "put", "tasks", "{}", "--id", "a", "--if-match", "1"],
        1,
    );
    assert!(stale.contains("Next: tidings get TABLE ID"), "{stale}");
    assert_eq!(on(&["delete", "tasks", "a", &made]), format!("a\n{made}"));
    let gone = failed(&device, &["--app", "notes", "get", "tasks", "a"], 1);
    assert!(gone.contains("Nothing was changed."), "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_exits_in_words() {
    let mut device = Device::start("words").await;
    let usage = failed(&device, &["get", "tasks", "a"], 2);
    assert!(usage.starts_with("Which app?"), "{usage}");
    assert!(failed(&device, &["--app", "UP", "get", "tasks", "a"], 2).contains("--app cannot"));
    assert!(failed(&device, &["gte"], 2).contains("a similar subcommand"));
    let big = failed(&device, &["--app", "a", "put", "t", r#"{"n":18446744073709551616}"#], 2);
    assert!(big.contains("integer outside"), "{big}");
    let json = failed(&device, &["--json", "--app", "a", "get", "t", "x"], 1);
    let error: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(error["error"]["exit"], json!(1));
    assert!(error["error"]["next"].is_string());
    assert!(failed(&device, &["devices", "list"], 4).contains("tidings account create URL"));
    assert!(failed(&device, &["doctor"], 4).contains("→ tidings account create URL"));

    let file = device.home().join("rows.json");
    fs::write(&file, "[{}]").unwrap();
    device.stop();
    let stopped = failed(&device, &["--app", "a", "import", file.to_str().unwrap()], 3);
    assert!(stopped.contains("0 of 1 rows are imported and stay"), "{stopped}");
    let away = failed(&device, &["status"], 3);
    let home = device.home();
    assert!(away.contains(&format!("Next: tidings daemon --home {}", home.display())), "{away}");
    let error: Value = serde_json::from_str(&failed(&device, &["--json", "apps"], 3)).unwrap();
    assert_eq!(error["error"]["code"], json!("no_daemon"));
    assert!(failed(&device, &["doctor"], 3).contains("No daemon answers"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_export_writes_import_reads_back() {
    let device = Device::start("files").await;
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let csv = "number,zip,note,price\n7,00501,\"a, \"\"b\"\"\",0.99\n8,12345,,1.50\n";
    fs::write(path("people.csv"), csv).unwrap();
    let file = path("people.csv");
    let done = said(&device, &["--app", "a", "import", &file, "--id", "number"]);
    assert_eq!(done, "people: 2 rows\n2 rows imported in 1 table");
    let row: Value =
        serde_json::from_str(&said(&device, &["--app", "a", "get", "people", "7"])).unwrap();
    assert_eq!((&row["zip"], &row["price"]), (&json!("00501"), &json!(0.99)));

    for (name, copy) in [("copy.json", "json"), ("copy.ndjson", "ndjson"), ("copy.csv", "csv")] {
        let out = path(name);
        said(&device, &["--app", "a", "export", "people", "-o", &out]);
        said(&device, &["--app", "a", "import", &out, copy]);
        let shown = |table| said(&device, &["--app", "a", "export", table, "--format", "ndjson"]);
        assert_eq!(shown("people"), shown(copy), "{name}");
    }

    // The same again changes nothing; without ids too.
    fs::write(path("plain.json"), r#"[{"n":1},{"n":1},{"n":2}]"#).unwrap();
    for _ in 0..2 {
        said(&device, &["--app", "a", "import", &path("plain.json")]);
    }
    let kept = lines(&said(&device, &["--app", "a", "export", "plain"]));
    assert_eq!(kept.len(), 3);

    fs::write(path("bad.ndjson"), "{\"id\":\"x\"}\n{\"id\":\n").unwrap();
    let bad = failed(&device, &["--app", "a", "import", &path("bad.ndjson")], 1);
    assert!(bad.contains("row 2 (line 2)") && bad.contains("Nothing was imported"), "{bad}");
    failed(&device, &["--app", "a", "export", "bad"], 1);
    let checked = said(&device, &["--app", "a", "--json", "import", "--check", &file]);
    assert_eq!(lines(&checked)[0], json!({"rows": 2, "tables": {"people": 2}, "imported": false}));
}

/// A verb that runs until it is told to stop.
fn follow(device: &Device, verb: &[&str]) -> Process {
    Process::start(verb.join(" "), &mut device.command(verb))
}

fn interrupted(mut process: Process) -> ExitStatus {
    process.signal(Signal::INT);
    process.ended(DEADLINE)
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_goes_on_after_a_restart_and_ends_well() {
    let mut device = Device::start("watch").await;
    said(&device, &["--app", "notes", "put", "tasks", "{}", "--id", "first"]);
    let watch = follow(&device, &["--app", "notes", "--json", "watch", "tasks"]);
    let event = |name: &str, id: &str| {
        let (name, id) = (json!(name), json!(id));
        watch.line("an event", DEADLINE, |line| {
            let event: Value = serde_json::from_str(line).ok()?;
            let wanted =
                event["event"] == name && (id == json!("") || event["data"]["row_id"] == id);
            wanted.then_some(event)
        })
    };
    event("connected", "");
    said(&device, &["--app", "notes", "put", "tasks", r#"{"title":"Milk"}"#, "--id", "second"]);
    assert_eq!(event("insert", "second")["data"]["record"]["title"], json!("Milk"));
    device.stop();
    device.resume().await;
    said(&device, &["--app", "notes", "delete", "tasks", "second"]);
    event("delete", "second");
    assert!(interrupted(watch).success(), "exit 0 on SIGINT");
}

#[tokio::test(flavor = "multi_thread")]
async fn linking_from_two_shells() {
    let house = House::new(&["old"]).await;
    let old = house.device(0);
    let new = Device::start("new").await;
    let login = follow(&new, &["login", &house.url(), "--keystore", "file", "--name", "lap top"]);
    let code = login.line("the code", DEADLINE, |line| {
        line.trim().strip_prefix("tidings devices add ").map(str::to_owned)
    });
    let added = said(old, &["devices", "add", &code]);
    // Before it, on a slow day, that the other computer is waited for.
    assert_eq!(added.lines().last(), Some("Linked: lap top"), "{added}");
    let (status, text) = login.finished(DEADLINE);
    assert!(status.success() && text.contains("Linked."), "{text}");
    // The name is a change of its own, which follows the linking.
    eventually("the new computer's name is known", DEADLINE, async || {
        let devices = lines(&said(&new, &["--json", "devices", "list"]));
        assert_eq!(devices.len(), 2);
        if devices[1]["name"] == "lap top" { Ok(()) } else { Err(devices[1].to_string()) }
    })
    .await;
    assert!(said(old, &["account", "show"]).contains("keys      in a file"));
    said(old, &["doctor"]);
    failed(old, &["devices", "add", &code], 4);
}

#[test]
fn texts_for_machines_come_from_the_program() {
    let run = |arguments: &[&str]| {
        let mut tidings: Command = command(programs::tidings());
        let (status, text) = Process::start("tidings", tidings.args(arguments)).finished(DEADLINE);
        assert!(status.success(), "{text}");
        text
    };
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(&["completions", shell]).contains("devices"), "{shell}");
    }
    let dir = tempfile::tempdir().unwrap();
    run(&["man", dir.path().to_str().unwrap()]);
    let page = fs::read_to_string(dir.path().join("tidings-devices-add.1")).unwrap();
    assert!(page.contains("4821"), "{page}");
}
