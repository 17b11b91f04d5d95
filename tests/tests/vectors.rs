//! Known answers of what is above the sealing: rows in bodies, and the server's calls. Like those
//! of `shared/crypto/tests/vectors`, they are written once and read by every later release; a
//! second client in Python (tests/vectors) opens all of both.
//!
//! `cargo test -p tidings-tests --test main -- --ignored write_the_vectors` writes the files that
//! are missing. A file that exists is never written again: a later format gets files of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

mod calls;
mod rows;
mod states;

/// A set of answers: its file, how it is made, how it is read.
type Construction = (&'static str, fn() -> Value, fn(&Value));

const ALL: &[Construction] = &[
    ("rows", rows::make, rows::read),
    ("states", states::make, states::read),
    ("calls", calls::make, calls::read),
];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

fn path(name: &str) -> PathBuf {
    directory().join(format!("{name}.json"))
}

fn stored(name: &str) -> Value {
    let text = std::fs::read_to_string(path(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_second_client_opens_every_vector_and_refuses_every_forgery() {
    // Debian's own Python, where there is one: it has the packages that tests/run installs.
    let debian = Path::new("/usr/bin/python3");
    let python = if debian.exists() { debian } else { Path::new("python3") };
    let output = Command::new(python).arg("-B").arg(directory().join("check.py")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.lines().last().is_some_and(|line| line.ends_with(" 0 failed")), "{said}");
}

#[test]
fn every_vector_is_read() {
    for (name, _, read) in ALL {
        println!("{name}");
        read(&stored(name));
    }
}

/// Holds for the release that writes this format; one that writes a later format drops it.
#[test]
fn this_release_makes_the_same_bytes() {
    for (name, make, _) in ALL {
        assert_eq!(make(), stored(name), "{name}");
    }
}

#[test]
#[ignore = "writes the files that are missing; run by hand when a construction is added"]
fn write_the_vectors() {
    for (name, make, _) in ALL {
        if !path(name).exists() {
            let text = serde_json::to_string_pretty(&make()).unwrap();
            std::fs::write(path(name), text + "\n").unwrap();
        }
    }
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A field of hexadecimal text.
fn bytes(value: &Value, field: &str) -> Vec<u8> {
    unhex(text(value, field))
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

/// A field of text.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field}"))
}

/// A field that is a list.
fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().unwrap_or_else(|| panic!("no {field}"))
}
