//! What breaks on real machines, and what the person and the app see of it: one test per fault,
//! named by its number. Those of a server alone are beside it (`server/tests`: slow, stalled,
//! files, disk), those of a store alone too (`shared/kv/tests`), and what one process may be given
//! too much of is measured in `sizes`.

mod clock;
mod delivery;
mod disk;
mod limits;
mod network;
mod proxy;
mod start;

use serde_json::Value;
use tidings_tests::Device;
use tidings_wire::AppId;
use tidings_wire::local::StatusAnswer;

fn notes() -> AppId {
    "notes".parse().unwrap()
}

/// What `tidings status --json` prints.
fn status(device: &Device) -> Value {
    let (ended, said) = device.run(&["--json", "status"]);
    assert!(ended.success(), "{said}");
    serde_json::from_str(&said).unwrap()
}

/// How `tidings doctor` ends, and the checks that did not pass, each as
/// `CHECK: WHAT WAS FOUND → NEXT STEP`.
fn doctor(device: &Device) -> (i32, Vec<String>) {
    let (ended, said) = device.run(&["--json", "doctor"]);
    let checks = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let wrong = checks.filter(|check| check["ok"] == Value::Bool(false));
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let wrong = wrong.map(|check| {
        format!("{}: {} → {}", text(&check, "check"), text(&check, "found"), text(&check, "next"))
    });
    (ended.code().unwrap(), wrong.collect())
}

/// Asserts that one of the doctor's findings about a check holds all these words.
fn finds(found: &[String], check: &str, words: &[&str]) {
    let fits = |line: &&String| {
        line.starts_with(&format!("{check}: ")) && words.iter().all(|word| line.contains(word))
    };
    assert!(found.iter().any(|line| fits(&line)), "no {check} with {words:?} in {found:#?}");
}

/// The codes of a status's alarms.
fn alarms(status: &StatusAnswer) -> Vec<&str> {
    status.alarms.iter().map(|alarm| alarm.code.as_str()).collect()
}
