//! kill -9 at any moment: what was acknowledged is there after opening again, and nothing is torn.

use tempfile::TempDir;
use tidings_kv::{EngineKind, StoreError};

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

/// A process that wants the store of another, which writes and rewrites, is refused and harms
/// nothing; it gets the store when the other is gone, however that went.
#[test]
fn of_two_processes_one_has_the_store() {
    let dir = TempDir::new().unwrap();
    let subject = Subject::Rewriting;
    let writers = Writers::start(dir.path(), subject, |_| {});
    let acks = writers.meanwhile(20, || {
        for _ in 0..20 {
            match subject.open(dir.path()) {
                Err(StoreError::Held { pid, .. }) => assert!(pid.is_some()),
                other => panic!("{other:?}"),
            }
        }
    });
    let store = subject.open(dir.path()).unwrap();
    verify(&store, &acks).unwrap();
}
