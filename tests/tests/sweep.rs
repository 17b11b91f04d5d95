//! The k-th failure sweep in short: a few of all faults, chosen by a seed. `soak --sweep` does all.

use tidings_tests::sweep::{Subject, sweep};

/// Old or new state, never a third; a typed error; an ack is durable; a second run is clean; after a
/// failed sync of the data the program ends (fault 6).
fn survives(subject: Subject, seed: u64) {
    let swept = sweep(subject, Some((seed, SAMPLE)), &mut |_, _, _| {});
    assert!(swept.broken.is_empty(), "{}", swept.broken.join("\n"));
    eprintln!("{swept:?}");
    assert!(swept.faults >= SAMPLE as u64 / 2, "{swept:?}");
    assert!(swept.acknowledged > 0 && swept.refused + swept.unopened > 0, "{swept:?}");
}

const SAMPLE: usize = 16;

#[test]
fn a_server_over_sled_survives_any_failing_call() {
    survives(Subject::Server("sled"), 1);
}

#[test]
fn a_server_over_redb_survives_any_failing_call() {
    survives(Subject::Server("redb"), 2);
}

#[test]
fn a_daemon_survives_any_failing_call() {
    survives(Subject::Daemon, 3);
}
