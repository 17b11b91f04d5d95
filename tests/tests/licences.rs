//! What may be linked, by `deny.toml`: licences, the one source, crates that are banned.
//!
//! `cargo deny` says the same and more, and takes long to build; this needs only cargo.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    json["packages"].as_array().unwrap().clone()
}

/// The quoted texts after `key` in deny.toml, up to the closing bracket.
fn listed(key: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../deny.toml"));
    let text = text.unwrap();
    let (_, list) = text.split_once(&format!("\n{key} = [")).unwrap();
    let (list, _) = list.split_once("\n]").unwrap();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether an SPDX expression can be satisfied by the allowed licences alone.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    // Before SPDX, crates wrote a slash for OR.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    let value = either(&mut rest, allowed);
    assert!(rest.is_empty(), "cannot read the licence {expression:?}");
    value
}

fn either(tokens: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut value = both(tokens, allowed);
    while tokens.first() == Some(&"OR") {
        *tokens = &tokens[1..];
        value |= both(tokens, allowed);
    }
    value
}

fn both(tokens: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut value = one(tokens, allowed);
    while tokens.first() == Some(&"AND") {
        *tokens = &tokens[1..];
        value &= one(tokens, allowed);
    }
    value
}

fn one(tokens: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let Some((first, rest)) = tokens.split_first() else { return false };
    *tokens = rest;
    if *first == "(" {
        let value = either(tokens, allowed);
        *tokens = &tokens[1..];
        return value;
    }
    let mut name = (*first).to_owned();
    if tokens.first() == Some(&"WITH") {
        name = format!("{name} WITH {}", tokens[1]);
        *tokens = &tokens[2..];
    }
    allowed.contains(&name)
}

#[test]
fn every_licence_is_one_that_can_be_shipped() {
    let allowed = listed("allow");
    let mut wrong = Vec::new();
    let exceptions = listed("exceptions");
    for package in packages() {
        let licence = package["license"].as_str().unwrap_or("none");
        let name = package["name"].as_str().unwrap();
        let excepted = exceptions.contains(name) && exceptions.contains(licence);
        if !excepted && !satisfied(licence, &allowed) {
            wrong.push(format!("{name}: {licence}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn everything_comes_from_the_registry_and_nothing_is_banned() {
    let banned: BTreeSet<_> = listed("deny").into_iter().collect();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        assert!(!banned.contains(name), "{name} is banned by deny.toml");
        let registry = package["source"].as_str().map(|source| source.starts_with("registry+"));
        assert_ne!(registry, Some(false), "{name} comes from elsewhere");
    }
}

#[test]
fn expressions_are_read() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned()]);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(GPL-3.0 OR MIT) AND MIT", true),
        ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
        ("Apache-2.0", false),
    ] {
        assert_eq!(satisfied(expression, &allowed), expected, "{expression}");
    }
}
