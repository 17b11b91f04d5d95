//! Power cuts: what was acknowledged survives the loss of everything that was not synced.
//!
//! The writer's disk notes what every write replaces and swallows the syncs, so that killing the
//! writer and undoing leaves what a power cut would: in turn the harshest loss, of everything that
//! was not synced, and one of some pages and not others. That the suite can fail is shown on sled
//! without its sync.

use tidings_disk::{Disk, Loss};
use tidings_kv::EngineKind;

use crate::{
    child::Writers,
    support::{self, pick},
    workload::{Subject, verify},
};

/// Cuts the power again and again; the first broken promise ends it.
fn cuts(subject: Subject) -> Result<(), String> {
    let disk = Disk::new();
    let dir = disk.store();
    // Whatever NoSync loses, it is not the making of the store.
    Subject::Engine(subject.kind()).open(&dir).unwrap().close().unwrap();
    let mut undone = 0;
    for cut in 0..support::rounds(CUTS) {
        let writers = Writers::start(&dir, subject, |command| disk.under(command));
        let acks = writers.kill_after(1 + pick(cut, 60));
        let loss = if cut % 2 == 0 { Loss::Everything } else { Loss::Scattered(cut) };
        undone += disk.cut(loss);
        let store = Subject::Engine(subject.kind())
            .open(&dir)
            .map_err(|error| format!("cut {cut}, {loss:?}: {error}"))?;
        verify(&store, &acks).map_err(|wrong| format!("cut {cut}, {loss:?}: {wrong}"))?;
        store.close().map_err(|error| error.to_string())?;
    }
    assert!(undone > 0, "no cut found anything to undo: the disk does not work");
    Ok(())
}

const CUTS: u64 = 24;

#[test]
fn sled_keeps_what_it_acknowledged() {
    cuts(Subject::Engine(EngineKind::Sled)).unwrap();
}

#[test]
fn sled_keeps_what_it_acknowledged_during_rewrites() {
    cuts(Subject::Rewriting).unwrap();
}

#[test]
fn redb_keeps_what_it_acknowledged() {
    cuts(Subject::Engine(EngineKind::Redb)).unwrap();
}

/// The suite must be able to fail: without the sync it does.
#[test]
fn sled_without_its_sync_fails_this_suite() {
    let wrong = cuts(Subject::NoSync).unwrap_err();
    assert!(wrong.contains("are lost"), "failed for another reason: {wrong}");
}
