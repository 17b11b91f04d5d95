//! Lanes: nothing is dropped or reordered without being noticed.

use super::bench::{
    Bench, app, applied, blob, damaged, entry, lane, manifest, other, page, page_with, secs,
};
use crate::*;
use tidings_wire::{Hash, Seq};

#[test]
fn blobs_in_order_are_applied_and_repeats_are_not() {
    let mut bench = Bench::notes();
    let (a, b) = (lane(other(2), 1), lane(other(3), 1));
    let facts = page(vec![entry(1, blob(a, 1)), entry(2, blob(b, 1)), entry(3, blob(a, 2))]);
    assert_eq!(applied(&bench.pulled(&facts)), [0, 1, 2]);
    assert!(bench.pulled(&facts).apply.is_empty());
    assert_eq!(applied(&bench.pulled(&page(vec![entry(4, blob(a, 3))]))), [0]);
}

#[test]
fn blobs_out_of_order_wait_and_come_in_order() {
    let mut bench = Bench::notes();
    let lane = lane(other(2), 1);
    let order = [3, 1, 5, 2, 4].map(|seq| entry(10 + seq, blob(lane, seq)));
    let plan = bench.pulled(&page(order.to_vec()));
    // By index: 1, then 2 and 3, then 4 and 5.
    assert_eq!(applied(&plan), [1, 3, 0, 4, 2]);
    assert!(plan.stage.is_empty());
    assert!(bench.alarms().is_empty());
}

#[test]
fn a_hole_is_waited_for_fetched_again_and_then_an_alarm() {
    let mut bench = Bench::notes();
    let lane = lane(other(2), 1);
    let plan = bench.pulled(&page(vec![entry(1, blob(lane, 1)), entry(3, blob(lane, 3))]));
    assert_eq!(applied(&plan), [0]);
    assert_eq!(plan.stage, [1]);
    assert!(!bench.engine.is_whole(&app("notes")));
    let mut at = Vec::new();
    for _ in 0..3 {
        let orders = bench.wait(secs(65));
        let Some(Output::Pull(order)) = orders.first() else { panic!("{orders:?}") };
        assert_eq!(order.purpose, Purpose::Refetch(lane));
        assert_eq!(order.tags, [lane.tag]);
        at.push(bench.now);
        bench.engine.handle_stream_byte(bench.now);
        assert!(bench.alarms().is_empty());
        let order = order.clone();
        bench.answer(&order, &page(vec![entry(1, blob(lane, 1)), entry(3, blob(lane, 3))]));
    }
    assert_eq!(at[1].since(at[0]), secs(5));
    assert_eq!(at[2].since(at[1]), secs(60));
    assert_eq!(bench.orders(), [Output::Alarms]);
    assert_eq!(bench.alarms(), ["withheld"]);
    assert_eq!(bench.engine.testimony(&app("notes")).wants.len(), 1);

    // It comes after all: what waited follows it, and the alarm ends.
    let plan = bench.pulled(&page(vec![entry(9, blob(lane, 2))]));
    assert_eq!(plan.apply.len(), 2);
    assert_eq!(plan.apply[1].1, Source::Staged(lane, Seq(3)));
    assert_eq!(plan.unstage, [(lane, Seq(3))]);
    assert!(bench.alarms().is_empty());
    assert!(bench.engine.is_whole(&app("notes")));
}

#[test]
fn a_missing_end_is_noticed_by_the_authors_manifest() {
    let mut bench = Bench::notes();
    let lane = lane(other(2), 1);
    let stated = manifest(other(2), 1, &[(1, 2)]);
    bench.pulled(&page_with(vec![entry(1, blob(lane, 1))], vec![stated.clone()]));
    for _ in 0..3 {
        let orders = bench.wait(secs(65));
        let Some(Output::Pull(order)) = orders.first().cloned() else { panic!("{orders:?}") };
        bench.engine.handle_stream_byte(bench.now);
        let facts = PageFacts { heads: vec![super::bench::head_of(&stated)], ..page(Vec::new()) };
        bench.answer(&order, &facts);
    }
    assert_eq!(bench.alarms(), ["withheld"]);
}

#[test]
fn a_blob_that_does_not_open_is_kept_and_its_lane_goes_on() {
    let mut bench = Bench::notes();
    let lane = lane(other(2), 1);
    let sealed = BlobFact { opens: false, ..blob(lane, 2) };
    let plan = bench.pulled(&page(vec![
        entry(1, blob(lane, 1)),
        entry(2, sealed),
        entry(3, blob(lane, 3)),
    ]));
    assert_eq!(applied(&plan), [0, 2]);
    assert_eq!(plan.quarantine, [1]);
    assert!(plan.lanes[&lane].gaps.contains(&Seq(2)));
    assert_eq!(bench.engine.testimony(&app("notes")).wants.len(), 1);
    // Sent again whole, it settles.
    let plan = bench.pulled(&page(vec![entry(9, blob(lane, 2))]));
    assert_eq!(applied(&plan), [0]);
    assert_eq!(plan.settled, [(lane, Seq(2))]);
    assert!(bench.engine.testimony(&app("notes")).wants.is_empty());
}

#[test]
fn a_damaged_record_explains_the_hole_of_its_lane_and_no_other() {
    let mut bench = Bench::notes();
    let (a, b) = (lane(other(2), 1), lane(other(3), 1));
    let plan = bench.pulled(&page(vec![
        entry(1, blob(a, 1)),
        entry(2, blob(b, 1)),
        damaged(3),
        entry(4, blob(a, 3)),
        entry(5, blob(b, 3)),
    ]));
    assert_eq!(applied(&plan), [0, 1, 3], "the lane that the record was in goes on");
    assert_eq!(plan.quarantine, [2]);
    assert_eq!(plan.stage, [4], "the other waits");
    assert!(plan.lanes[&a].gaps.contains(&Seq(2)));
}

#[test]
fn a_damaged_record_at_the_end_of_a_lane_is_explained_too() {
    let mut bench = Bench::notes();
    let lane = lane(other(2), 1);
    let stated = manifest(other(2), 1, &[(1, 2)]);
    let plan = bench.pulled(&page_with(vec![entry(1, blob(lane, 1)), damaged(2)], vec![stated]));
    assert_eq!(plan.lanes[&lane].seq, Seq(2));
    assert!(bench.engine.is_whole(&app("notes")));
    assert_eq!(applied(&bench.pulled(&page(vec![entry(3, blob(lane, 3))]))), [0]);
}

#[test]
fn another_history_is_kept_back_and_told() {
    let mut bench = Bench::notes();
    let lane = lane(other(2), 1);
    bench.pulled(&page(vec![entry(1, blob(lane, 1))]));
    let forked = BlobFact { prev: Hash([9; 32]), ..blob(lane, 2) };
    let plan = bench.pulled(&page(vec![entry(2, forked)]));
    assert!(plan.apply.is_empty());
    assert_eq!(plan.quarantine, [0]);
    assert_eq!(bench.alarms(), ["fork"]);
    // The true one still follows.
    assert_eq!(applied(&bench.pulled(&page(vec![entry(3, blob(lane, 2))]))), [0]);
}

#[test]
fn what_does_not_fit_the_waiting_room_is_fetched_later() {
    let mut bench = Bench::notes();
    let lane = lane(other(2), 1);
    let big = |seq| BlobFact { size: 40 << 20, ..blob(lane, seq) };
    let plan = bench.pulled(&page(vec![entry(2, big(2)), entry(3, big(3))]));
    assert_eq!(plan.stage, [0], "64 MiB hold one of them");
    let plan = bench.pulled(&page(vec![entry(4, blob(lane, 1))]));
    assert_eq!(plan.apply.len(), 2, "1 and the staged 2");
    assert!(bench.alarms().is_empty());
}

#[test]
fn what_waited_is_known_after_a_restart() {
    let lane = lane(other(2), 1);
    let mut start = AppStart::new(app("notes"));
    start.lanes.insert(
        lane,
        LaneState {
            seq: Seq(1),
            hash: Some(super::bench::hash(lane, 1)),
            position: tidings_wire::Position(1),
            gaps: Default::default(),
        },
    );
    start.staged.push(StagedFact { blob: blob(lane, 3), position: tidings_wire::Position(3) });
    let mut bench = Bench::cold(vec![start]);
    bench.orders();
    bench.engine.handle_token(bench.now, secs(900));
    let pulls: Vec<_> = bench
        .orders()
        .into_iter()
        .filter_map(|order| match order {
            Output::Pull(order) => Some(order),
            _ => None,
        })
        .collect();
    assert_eq!(pulls.len(), 1);
    bench.answer(&pulls[0], &page(vec![entry(4, blob(lane, 2))]));
    assert_eq!(bench.engine.record(&app("notes")).unwrap().position.0, 4);
    assert!(bench.engine.is_whole(&app("notes")));
}

#[test]
fn positions_that_run_back_harm_nothing() {
    let mut bench = Bench::notes();
    let lane = lane(other(2), 1);
    bench.pulled(&page(vec![entry(u64::MAX, blob(lane, 1))]));
    let plan = bench.pulled(&page(vec![damaged(5), entry(3, blob(lane, 3))]));
    assert!(plan.apply.is_empty());
    let plan = bench.pulled(&page(vec![entry(2, blob(lane, 2)), entry(3, blob(lane, 3))]));
    assert!(!plan.apply.is_empty());
    bench.settle(&[app("notes")]);
    assert!(bench.engine.is_whole(&app("notes")));
}
