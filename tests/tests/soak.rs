//! The soak in short, as every change of the program has to pass it. The program `soak` runs it for
//! as long as one likes.

use tidings_tests::soak::{Plan, Tally, Target, soak};

/// Faults 1 and 2: a server, or a daemon, dies in the midst of its work. Whoever was not answered
/// asks again and there is one copy; whoever was answered finds it; nobody sees anything odd.
fn keeps_everything(plan: &Plan) -> Tally {
    let tally = soak(plan, &mut |_, _| {});
    assert_eq!(tally.lost, None, "seed {}", plan.seed);
    eprintln!("{tally:?}");
    assert!(tally.writes > 0 && tally.pushes > 0 && tally.checked > tally.writes);
    assert_eq!((tally.kills, tally.cuts), (plan.kills, plan.cuts));
    tally
}

#[test]
fn nothing_acknowledged_is_lost_by_kills_over_sled() {
    keeps_everything(&Plan::new(1, "sled", 13, 0));
}

#[test]
fn nothing_acknowledged_is_lost_by_kills_over_redb() {
    keeps_everything(&Plan::new(2, "redb", 12, 0));
}

#[test]
fn nothing_acknowledged_is_lost_by_power_cuts_over_sled() {
    let tally = keeps_everything(&Plan::new(3, "sled", 0, 12));
    assert!(tally.undone > 0, "no cut found anything to undo: the disk does not work");
}

#[test]
fn nothing_acknowledged_is_lost_by_power_cuts_over_redb() {
    let tally = keeps_everything(&Plan::new(4, "redb", 0, 12));
    assert!(tally.undone > 0, "no cut found anything to undo: the disk does not work");
}

/// The soak must be able to fail: under disks that lie about their syncs it does.
fn finds_out(target: &'static [Target], engine: &'static str) -> String {
    let plan = Plan { lies: true, targets: target, ..Plan::new(5, engine, 0, 3) };
    soak(&plan, &mut |_, _| {}).lost.expect("a disk that lies was not found out")
}

#[test]
fn a_server_on_a_disk_that_lies_is_found_out() {
    let lost = finds_out(&[Target::Server], "redb");
    assert!(lost.contains("lost") || lost.contains("damaged"), "{lost}");
}

#[test]
fn a_daemon_on_a_disk_that_lies_is_found_out() {
    let lost = finds_out(&[Target::Device(0)], "redb");
    assert!(lost.contains("was acknowledged") || lost.contains("damaged"), "{lost}");
}
