//! Pages: one at a time, on while they move, never believed out of turn.

use super::bench::{Bench, app, applied, blob, entry, lane, other, page, secs};
use crate::*;
use tidings_wire::Position;

#[test]
fn hints_during_a_pull_are_one_more_pull() {
    let mut bench = Bench::notes();
    bench.engine.handle_changed(bench.now, &app("notes"));
    let order = bench.pull();
    for _ in 0..100 {
        bench.engine.handle_changed(bench.now, &app("notes"));
    }
    assert_eq!(bench.orders(), []);
    bench.answer(&order, &page(Vec::new()));
    let order = bench.pull();
    bench.answer(&order, &page(Vec::new()));
    assert_eq!(bench.orders(), []);
}

#[test]
fn a_hint_for_an_unknown_app_reads_the_list_and_then_the_app() {
    let mut bench = Bench::notes();
    bench.engine.handle_changed(bench.now, &app("photos"));
    assert_eq!(bench.orders(), [Output::ReadAccount]);
    bench.account(&[app("notes"), app("photos")]);
    assert_eq!(bench.pull().app, app("photos"));
}

#[test]
fn pages_go_on_while_they_move() {
    let mut bench = Bench::notes();
    let lane = lane(other(2), 1);
    bench.engine.handle_changed(bench.now, &app("notes"));
    for at in 1..=5 {
        let order = bench.pull();
        assert_eq!(order.cursor.as_deref().map(<[u8]>::len), Some(8));
        let mut facts = page(vec![entry(at, blob(lane, at))]);
        facts.has_more = at < 5;
        bench.answer(&order, &facts);
    }
    assert_eq!(bench.orders(), []);
    let record = bench.engine.record(&app("notes")).unwrap();
    assert_eq!((record.position, record.complete), (Position(5), true));
    assert!(bench.engine.is_whole(&app("notes")));
}

#[test]
fn two_pages_that_stand_still_end_the_loop() {
    let mut bench = Bench::notes();
    bench.engine.handle_changed(bench.now, &app("notes"));
    let mut pulls = 0;
    loop {
        let orders = bench.orders();
        let Some(Output::Pull(order)) =
            orders.into_iter().find(|order| matches!(order, Output::Pull(_)))
        else {
            break;
        };
        pulls += 1;
        let facts = PageFacts { has_more: true, position: Position(3), ..page(Vec::new()) };
        bench.answer(&order, &facts);
        assert!(pulls < 10);
    }
    assert_eq!(pulls, 3, "the first moves, two more do not");
    assert_eq!(bench.alarms(), ["no_progress"]);
    bench.pass(secs(60));
    assert_eq!(bench.orders(), []);
    // A hint tries again, and a server that has come to itself ends the alarm.
    bench.engine.handle_changed(bench.now, &app("notes"));
    let order = bench.pull();
    bench.answer(&order, &page(Vec::new()));
    assert!(bench.alarms().is_empty());
}

#[test]
fn an_answer_to_an_earlier_order_counts_for_nothing() {
    let mut bench = Bench::notes();
    bench.engine.handle_changed(bench.now, &app("notes"));
    let old = bench.pull();
    bench.engine.handle_pull_failed(bench.now, &old, Failure::Busy(None));
    bench.pass(secs(2));
    let new = bench.pull();
    let late = page(vec![entry(1, blob(lane(other(2), 1), 1))]);
    assert!(bench.engine.handle_page(bench.now, &old, &late).is_none());
    assert!(bench.engine.handle_page(bench.now, &new, &late).is_some());
}

#[test]
fn an_unknown_chain_or_epoch_is_read_before_the_page_counts() {
    for (chain, epoch_known) in [(ChainVerdict::Ahead, true), (ChainVerdict::Known, false)] {
        let mut bench = Bench::notes();
        bench.engine.handle_changed(bench.now, &app("notes"));
        let order = bench.pull();
        let facts =
            PageFacts { chain, epoch_known, ..page(vec![entry(1, blob(lane(other(2), 1), 1))]) };
        assert!(bench.engine.handle_page(bench.now, &order, &facts).is_none());
        assert_eq!(bench.orders(), [Output::ReadAccount]);
        bench.account(&[app("notes")]);
        // If it is still unknown the server names what it does not give; go on all the same.
        let order = bench.pull();
        let plan = bench.engine.handle_page(bench.now, &order, &facts).unwrap();
        assert_eq!(applied(&plan), [0]);
    }
}

#[test]
fn a_page_that_could_not_be_stored_is_pulled_again() {
    let mut bench = Bench::notes();
    bench.engine.handle_changed(bench.now, &app("notes"));
    let order = bench.pull();
    let facts = page(vec![entry(1, blob(lane(other(2), 1), 1))]);
    let plan = bench.engine.handle_page(bench.now, &order, &facts).unwrap();
    drop(plan);
    bench.engine.handle_pull_failed(bench.now, &order, Failure::Busy(None));
    bench.pass(secs(2));
    let again = bench.pull();
    assert_eq!(again.cursor, order.cursor);
    let plan = bench.engine.handle_page(bench.now, &again, &facts).unwrap();
    assert_eq!(applied(&plan), [0], "nothing was taken for known");
}

#[test]
fn own_blobs_in_a_page_are_passed_over() {
    let mut bench = Bench::notes();
    let own = lane(super::bench::OWN, 1);
    let plan = bench.pulled(&page(vec![entry(1, blob(own, 1))]));
    assert!(plan.apply.is_empty() && plan.quarantine.is_empty());
}
