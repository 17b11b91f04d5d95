//! Known answers, one file per construction: written once, opened by every later release.
//!
//! `cargo test -p tidings-crypto --test main -- --ignored write_the_vectors` writes those that are
//! missing. A file that exists is never written again: a later format gets files of its own.

use std::path::PathBuf;

use serde_json::Value;

mod account;
mod device;
mod history;
mod pairing;
mod sealed;

/// A construction: its file, how it is made, how it is opened.
type Construction = (&'static str, fn() -> Value, fn(&Value));

const ALL: &[Construction] = &[
    ("device", device::make, device::open),
    ("paper_key", device::make_paper, device::open_paper),
    ("sign_in", device::make_sign_in, device::open_sign_in),
    ("commit", sealed::make_commit, sealed::open_commit),
    ("sealing_key", sealed::make_sealing_key, sealed::open_sealing_key),
    ("tag", sealed::make_tag, sealed::open_tag),
    ("padding", sealed::make_padding, sealed::open_padding),
    ("blob", sealed::make_blob, sealed::open_blob),
    ("manifest", sealed::make_manifest, sealed::open_manifest),
    ("run", sealed::make_run, sealed::open_run),
    ("chain", account::make_chain, account::open_chain),
    ("wrap", account::make_wrap, account::open_wrap),
    ("earlier", account::make_earlier, account::open_earlier),
    ("walk_back", history::make_walk_back, history::open_walk_back),
    ("cuts", history::make_cuts, history::open_cuts),
    ("pairing", pairing::make, pairing::open),
    ("pairing_again", pairing::make_again, pairing::open_again),
    ("pairing_spake2", pairing::make_spake2, pairing::open_spake2),
];

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "vectors", &format!("{name}.json")].iter().collect()
}

fn stored(name: &str) -> Value {
    let text = std::fs::read_to_string(path(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn every_vector_opens() {
    for (name, _, open) in ALL {
        println!("{name}");
        open(&stored(name));
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

/// A field of hexadecimal text.
fn bytes(value: &Value, field: &str) -> Vec<u8> {
    crate::support::unhex(text(value, field))
}

/// A field of hexadecimal text of a known length.
fn array<const N: usize>(value: &Value, field: &str) -> [u8; N] {
    bytes(value, field).try_into().unwrap()
}

/// A field of text.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field}"))
}

/// A field that is a number.
fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("no {field}"))
}
