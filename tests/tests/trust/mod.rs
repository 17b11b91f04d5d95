//! Who belongs to an account: unlinking, recovering, and what is left to somebody who was unlinked.

mod attacks;
mod recovery;
mod revoke;
mod story;

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use tidings_tests::Device;
use tidings_wire::AppId;
use tidings_wire::linking::RecoveryKit;
use tidings_wire::local::{StatusAnswer, SyncState};

fn notes() -> AppId {
    "notes".parse().unwrap()
}

fn row(id: &str, n: u64) -> Value {
    json!({ "id": id, "n": n })
}

/// Runs a verb that has to succeed and gives what it printed.
fn said(device: &Device, verb: &[&str]) -> String {
    let (status, text) = device.run(verb);
    assert!(status.success(), "tidings {} ended with {status}\n{text}", verb.join(" "));
    text
}

/// Runs a verb with something to read; its exit code, and what it printed to both outputs.
fn told(device: &Device, verb: &[&str], input: &str) -> (Option<i32>, String) {
    let mut command = device.command(verb);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn kit(device: &Device) -> RecoveryKit {
    serde_json::from_str(&said(device, &["--json", "recovery", "kit"])).unwrap()
}

/// The arguments that recover with a kit, on a computer of that name.
fn recover<'a>(kit: &'a RecoveryKit, account: &'a str, name: &'a str) -> Vec<&'a str> {
    vec!["recover", &kit.url, "--account", account, "--name", name, "--keystore", "file"]
}

fn is_revoked(status: &StatusAnswer) -> bool {
    status.state == SyncState::Revoked
}

fn has_keys(device: &Device) -> bool {
    device.home().join("keys").exists()
}
