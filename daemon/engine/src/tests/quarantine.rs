//! What does not verify or open is kept apart, tried again, and fetched again where it was not
//! kept; what waited for a hole never waits for ever.

use std::collections::BTreeMap;

use super::bench::{Bench, app, applied, blob, damaged, entry, hash, lane, other, page, secs};
use crate::*;
use tidings_wire::{Hash, Position, Seq};

/// An app of which the second blob of a lane lies in quarantine.
fn with_gap(lane: LaneKey) -> AppStart {
    let mut start = AppStart::new(app("notes"));
    let state = LaneState {
        seq: Seq(3),
        hash: Some(hash(lane, 3)),
        position: Position(3),
        gaps: [Seq(2)].into(),
    };
    start.lanes.insert(lane, state);
    start
}

fn grown(bench: &mut Bench) {
    bench.engine.handle_account_changed(bench.now);
    assert_eq!(bench.orders(), [Output::ReadAccount]);
    let facts = AccountFacts {
        chain: ChainVerdict::Known,
        chain_shorter: false,
        changed: true,
        apps: [app("notes")].into(),
    };
    bench.engine.handle_account(bench.now, facts);
}

fn retried(bench: &mut Bench, opened: &[(LaneKey, u64)], lacking: &[LaneKey]) {
    let opened = opened.iter().map(|(lane, seq)| (*lane, Seq(*seq))).collect();
    let retried = Retried { opened, lacking: lacking.iter().copied().collect() };
    bench.engine.handle_retried(bench.now, &app("notes"), Some(retried));
}

#[test]
fn keys_that_grew_have_the_quarantine_tried_again() {
    let lane = lane(other(2), 1);
    let mut bench = Bench::warm(vec![with_gap(lane)]);
    assert_eq!(bench.engine.testimony(&app("notes")).wants.len(), 1);
    grown(&mut bench);
    assert_eq!(bench.orders(), [Output::RetryQuarantine(app("notes"))]);
    // Pages change lanes too: none is pulled before the answer.
    bench.engine.handle_changed(bench.now, &app("notes"));
    assert_eq!(bench.orders(), []);
    retried(&mut bench, &[(lane, 2)], &[]);
    assert!(bench.engine.testimony(&app("notes")).wants.is_empty());
    let order = bench.pull();
    assert_eq!(order.purpose, Purpose::Next);
    bench.answer(&order, &page(Vec::new()));
    assert_eq!(bench.orders(), []);
    assert!(bench.engine.is_whole(&app("notes")));
}

#[test]
fn a_try_that_was_cut_off_is_made_after_the_restart() {
    let mut bench = Bench::cold(vec![with_gap(lane(other(2), 1))]);
    bench.orders();
    bench.engine.handle_token(bench.now, secs(900));
    assert!(bench.orders().contains(&Output::RetryQuarantine(app("notes"))));
    // Where nothing lies in quarantine there is nothing to try.
    let mut bench = Bench::cold(vec![AppStart::new(app("notes"))]);
    bench.orders();
    bench.engine.handle_token(bench.now, secs(900));
    assert!(!bench.orders().contains(&Output::RetryQuarantine(app("notes"))));
}

#[test]
fn a_try_that_the_disk_did_not_take_is_made_again_after_a_wait() {
    let mut bench = Bench::warm(vec![with_gap(lane(other(2), 1))]);
    grown(&mut bench);
    let order = Output::RetryQuarantine(app("notes"));
    assert_eq!(bench.orders(), std::slice::from_ref(&order));
    bench.engine.handle_retried(bench.now, &app("notes"), None);
    assert_eq!(bench.orders(), []);
    assert!(!bench.engine.is_whole(&app("notes")));
    assert_eq!(bench.wait(secs(2)), [order]);
}

#[test]
fn what_was_not_kept_is_fetched_again_once_something_has_grown() {
    let lane = lane(other(2), 1);
    let mut bench = Bench::warm(vec![with_gap(lane)]);
    grown(&mut bench);
    bench.orders();
    retried(&mut bench, &[], &[lane]);
    let order = bench.pull();
    assert_eq!((order.purpose, order.cursor.clone()), (Purpose::Refetch(lane), None));
    assert_eq!(order.tags, [lane.tag]);
    assert!(!bench.engine.is_whole(&app("notes")));
    // From the beginning on, over as many pages as it takes.
    let mut first = page(vec![entry(1, blob(lane, 1))]);
    first.has_more = true;
    bench.answer(&order, &first);
    let order = bench.pull();
    assert_eq!(order.cursor, Some(first.cursor));
    let plan = bench.engine.handle_page(bench.now, &order, &page(vec![entry(2, blob(lane, 2))]));
    let plan = plan.unwrap();
    assert_eq!(applied(&plan), [0]);
    assert_eq!(plan.settled, [(lane, Seq(2))]);
    bench.engine.handle_page_stored(bench.now, plan);
    assert_eq!(bench.orders(), []);
    assert!(bench.engine.is_whole(&app("notes")));
    assert!(bench.alarms().is_empty());
}

#[test]
fn what_does_not_open_then_either_is_not_fetched_over_and_over() {
    let lane = lane(other(2), 1);
    let mut bench = Bench::warm(vec![with_gap(lane)]);
    grown(&mut bench);
    bench.orders();
    retried(&mut bench, &[], &[lane]);
    let order = bench.pull();
    let sealed = BlobFact { opens: false, ..blob(lane, 2) };
    let plan = bench.engine.handle_page(bench.now, &order, &page(vec![entry(2, sealed)])).unwrap();
    assert!(plan.quarantine.is_empty(), "it lies there already");
    bench.engine.handle_page_stored(bench.now, plan);
    assert_eq!(bench.orders(), []);
    assert!(bench.engine.is_whole(&app("notes")));
    // Nothing has grown at a mere restart.
    let mut bench = Bench::cold(vec![with_gap(lane)]);
    bench.orders();
    bench.engine.handle_token(bench.now, secs(900));
    bench.orders();
    retried(&mut bench, &[], &[lane]);
    let order = bench.pull();
    assert_eq!(order.purpose, Purpose::Next);
    bench.answer(&order, &page(Vec::new()));
    assert!(!bench.orders().iter().any(|order| matches!(order, Output::Pull(_))));
}

#[test]
fn a_fetching_again_that_does_not_move_on_ends() {
    let mut bench = Bench::notes();
    let lane = lane(other(2), 1);
    bench.pulled(&page(vec![entry(1, blob(lane, 1)), entry(3, blob(lane, 3))]));
    let mut endless = page(Vec::new());
    (endless.has_more, endless.cursor) = (true, vec![1]);
    let mut pulls = 0;
    for _ in 0..10 {
        for order in bench.orders() {
            if let Output::Pull(order) = order {
                pulls += 1;
                bench.answer(&order, &endless);
            }
        }
    }
    assert_eq!(pulls, 3, "two that did not move on");
    assert_eq!(bench.alarms(), ["no_progress"]);
}

#[test]
fn what_waited_in_another_history_goes_to_the_quarantine() {
    let mut bench = Bench::notes();
    let lane = lane(other(2), 1);
    bench.pulled(&page(vec![entry(1, blob(lane, 1))]));
    // Its author signed it, but over another second blob than the one that comes.
    let forked = BlobFact { prev: Hash([9; 32]), hash: Hash([8; 32]), ..blob(lane, 3) };
    let plan = bench.pulled(&page(vec![entry(3, forked)]));
    assert_eq!(plan.stage, [0]);
    bench.settle(&[app("notes")]);
    let plan = bench.pulled(&page(vec![entry(4, blob(lane, 2))]));
    assert_eq!(applied(&plan), [0]);
    assert_eq!(plan.unstage, [(lane, Seq(3))]);
    assert_eq!(plan.quarantine_staged, [(lane, Seq(3))].into());
    assert_eq!(bench.alarms(), ["fork"]);
    // Nothing waits any more, and the true one follows.
    assert!(bench.engine.is_whole(&app("notes")));
    assert_eq!(applied(&bench.pulled(&page(vec![entry(5, blob(lane, 3))]))), [0]);
}

#[test]
fn the_same_within_one_page() {
    let mut bench = Bench::notes();
    let lane = lane(other(2), 1);
    let forked = BlobFact { prev: Hash([9; 32]), hash: Hash([8; 32]), ..blob(lane, 3) };
    let entries = vec![entry(3, forked), entry(1, blob(lane, 1)), entry(2, blob(lane, 2))];
    let plan = bench.pulled(&page(entries));
    assert_eq!(applied(&plan), [1, 2]);
    assert_eq!((plan.quarantine.as_slice(), plan.stage.as_slice()), (&[0][..], &[][..]));
    assert_eq!(bench.alarms(), ["fork"]);
}

#[test]
fn what_waited_and_was_passed_over_is_applied() {
    let mut bench = Bench::notes();
    let lane = lane(other(2), 1);
    bench.pulled(&page(vec![entry(1, blob(lane, 1))]));
    bench.pulled(&page(vec![entry(3, blob(lane, 3))]));
    bench.settle(&[app("notes")]);
    // As many damaged records as there are numbers between: they stand for one of these too.
    let entries = vec![damaged(4), damaged(5), damaged(6), entry(7, blob(lane, 5))];
    let plan = bench.pulled(&page(entries));
    let staged = (Position(3), Source::Staged(lane, Seq(3)));
    assert!(plan.apply.contains(&staged), "{:?}", plan.apply);
    assert_eq!(plan.unstage, [(lane, Seq(3))]);
    assert_eq!(plan.lanes[&lane].seq, Seq(5));
    assert_eq!(plan.lanes[&lane].gaps, [Seq(2), Seq(4)].into());
    assert!(bench.engine.is_whole(&app("notes")));
}

#[test]
fn what_waited_but_came_otherwise_waits_no_longer() {
    let lane = lane(other(2), 1);
    let mut start = AppStart::new(app("notes"));
    start.lanes.insert(
        lane,
        LaneState {
            seq: Seq(4),
            hash: Some(hash(lane, 4)),
            position: Position(4),
            gaps: Default::default(),
        },
    );
    // As an earlier release may have left it.
    start.staged.push(StagedFact { blob: blob(lane, 3), position: Position(3) });
    let mut bench = Bench::cold(vec![start]);
    bench.orders();
    bench.engine.handle_token(bench.now, secs(900));
    let order = bench.pull();
    bench.answer(&order, &page(Vec::new()));
    let order = bench.pull();
    assert_eq!(order.purpose, Purpose::Refetch(lane));
    let plan = bench.engine.handle_page(bench.now, &order, &page(Vec::new())).unwrap();
    assert_eq!(plan.unstage, [(lane, Seq(3))]);
    assert!(plan.quarantine_staged.is_empty() && plan.apply.is_empty());
    bench.engine.handle_page_stored(bench.now, plan);
    assert!(bench.engine.is_whole(&app("notes")));
}

#[test]
fn each_damaged_record_of_a_push_explains_a_hole() {
    let mut bench = Bench::notes();
    let lane = lane(other(2), 1);
    // One push of four blobs, two of them damaged: all stand at one position.
    let entries = vec![entry(1, blob(lane, 1)), damaged(1), damaged(1), entry(1, blob(lane, 4))];
    let plan = bench.pulled(&page(entries));
    assert_eq!(applied(&plan), [0, 3]);
    assert_eq!(plan.explained, [Position(1), Position(1)]);
    assert_eq!(plan.lanes[&lane].gaps, [Seq(2), Seq(3)].into());
    // One of three is not enough, and stays for another lane.
    let entries = vec![damaged(5), entry(6, blob(lane, 7))];
    let plan = bench.pulled(&page(entries));
    assert_eq!(plan.stage, [1]);
    assert!(plan.explained.is_empty());
}

#[test]
fn what_explains_no_hole_yet_is_known_after_a_restart() {
    let lane = lane(other(2), 1);
    let mut start = AppStart::new(app("notes"));
    start.unplaced = BTreeMap::from([(Position(5), 2)]);
    let mut bench = Bench::warm(vec![start]);
    let entries = vec![entry(4, blob(lane, 1)), entry(6, blob(lane, 4))];
    let plan = bench.pulled(&page(entries));
    assert_eq!(applied(&plan), [0, 1]);
    assert_eq!(plan.explained, [Position(5), Position(5)]);
}
