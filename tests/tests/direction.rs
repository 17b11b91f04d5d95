//! The arrows between crates, from `cargo metadata` (docs/adr/0001).

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// What each crate of the house may stand on, directly.
const ARROWS: &[(&str, &[&str])] = &[
    ("tidings-wire", &[]),
    ("tidings-kv", &[]),
    ("tidings-proof", &["tidings-wire"]),
    ("tidings-crypto", &["tidings-wire", "tidings-proof"]),
    ("tidings-client", &["tidings-wire"]),
    ("tidings-tables", &["tidings-wire"]),
    ("tidings-engine", &["tidings-wire", "tidings-proof"]),
    ("tidings-server", &["tidings-wire", "tidings-proof", "tidings-kv"]),
    (
        "tidings-daemon",
        &[
            "tidings-wire",
            "tidings-proof",
            "tidings-crypto",
            "tidings-kv",
            "tidings-client",
            "tidings-tables",
            "tidings-engine",
        ],
    ),
];

/// What must not be anywhere in the tree of a crate, tests left out.
const NEVER: &[(&str, &[&str])] = &[
    (
        "tidings-server",
        &["tidings-crypto", "tidings-daemon", "tidings-client", "chacha20poly1305", "hpke"],
    ),
    ("tidings-engine", &["tokio", "mio", "rustix", "tidings-crypto", "tidings-kv"]),
    ("tidings-tables", &["tokio", "mio", "rustix", "getrandom", "tidings-crypto", "tidings-kv"]),
    ("tidings-wire", &["tokio", "mio", "ed25519-dalek", "chacha20poly1305"]),
    ("tidings-proof", &["tokio", "chacha20poly1305", "hpke"]),
    ("tidings-crypto", &["tokio", "redb", "sled"]),
];

/// Cryptographic crates that must be in the tree in one version only.
const ONE_GENERATION: &[&str] = &[
    "aead",
    "blake3",
    "chacha20",
    "chacha20poly1305",
    "curve25519-dalek",
    "digest",
    "ed25519",
    "ed25519-dalek",
    "hkdf",
    "hmac",
    "hpke",
    "poly1305",
    "sha2",
    "signature",
    "spake2",
    "x25519-dalek",
];

struct Metadata {
    names: BTreeMap<String, String>,
    /// Package id → ids of its normal and build dependencies.
    edges: BTreeMap<String, BTreeSet<String>>,
}

fn metadata() -> Metadata {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let names = json["packages"].as_array().unwrap().iter();
    let names = names.map(|package| (text(&package["id"]), text(&package["name"]))).collect();
    let mut edges = BTreeMap::new();
    for node in json["resolve"]["nodes"].as_array().unwrap() {
        let built = |dependency: &&Value| {
            let kinds = dependency["dep_kinds"].as_array().unwrap();
            kinds.iter().any(|kind| kind["kind"].as_str() != Some("dev"))
        };
        let dependencies = node["deps"].as_array().unwrap().iter().filter(built);
        let ids = dependencies.map(|dependency| text(&dependency["pkg"])).collect();
        edges.insert(text(&node["id"]), ids);
    }
    Metadata { names, edges }
}

impl Metadata {
    fn id(&self, name: &str) -> &str {
        let found = self.names.iter().find(|(_, known)| *known == name);
        found.map(|(id, _)| id.as_str()).unwrap_or_else(|| panic!("no crate {name}"))
    }

    fn direct(&self, name: &str) -> BTreeSet<&str> {
        self.edges[self.id(name)].iter().map(|id| self.names[id].as_str()).collect()
    }

    fn tree(&self, name: &str) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut open = vec![self.id(name)];
        while let Some(id) = open.pop() {
            for next in &self.edges[id] {
                if seen.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        seen.into_iter().map(|id| self.names[id].as_str()).collect()
    }
}

#[test]
fn arrows_point_down() {
    let metadata = metadata();
    for (name, allowed) in ARROWS {
        let ours = metadata.direct(name).into_iter().filter(|other| other.starts_with("tidings-"));
        for other in ours {
            assert!(allowed.contains(&other), "{name} must not stand on {other}");
        }
    }
}

#[test]
fn walls_hold() {
    let metadata = metadata();
    let mut broken = Vec::new();
    for (name, never) in NEVER {
        let tree = metadata.tree(name);
        broken.extend(never.iter().filter(|other| tree.contains(*other)).map(|o| (*name, *o)));
    }
    assert!(broken.is_empty(), "in the tree of a crate that must do without: {broken:?}");
}

#[test]
fn one_generation_of_cryptography() {
    let metadata = metadata();
    for name in ONE_GENERATION {
        let versions: Vec<_> =
            metadata.names.iter().filter(|(_, n)| n == name).map(|(id, _)| id).collect();
        assert!(versions.len() <= 1, "several versions of {name}: {versions:?}");
    }
}
