//! kill -9 at any moment: what was acknowledged is there after opening again, and nothing is torn.

use tempfile::TempDir;
use tidings_kv::EngineKind;

use crate::{
    child::Writers,
    support::{self, pick},
    workload::{Subject, verify},
};

const ROUNDS: u64 = 25;

fn rounds(subject: Subject) {
    let dir = TempDir::new().unwrap();
    for round in 0..support::rounds(ROUNDS) {
        let acks = Writers::start(dir.path(), subject, |_| {}).kill_after(1 + pick(round, 80));
        let store = subject.open(dir.path()).unwrap();
        assert!(!store.was_clean());
        verify(&store, &acks).unwrap_or_else(|wrong| panic!("round {round}: {wrong}"));
        store.close().unwrap();
    }
}

#[test]
fn sled_keeps_what_it_acknowledged() {
    rounds(Subject::Engine(EngineKind::Sled));
}

#[test]
fn redb_keeps_what_it_acknowledged() {
    rounds(Subject::Engine(EngineKind::Redb));
}

#[test]
fn sled_keeps_what_it_acknowledged_during_rewrites() {
    rounds(Subject::Rewriting);
}
