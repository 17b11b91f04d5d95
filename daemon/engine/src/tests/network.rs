//! Servers that cannot be reached, are busy, or say for how long.

use std::time::Duration;

use super::bench::{Bench, app, secs};
use crate::*;

#[test]
fn nothing_is_tried_while_the_server_is_out_of_reach() {
    let mut bench = Bench::cold((0..50).map(|n| AppStart::new(app(&format!("app{n}")))).collect());
    let mut tries = 0;
    let end = bench.now.after(secs(3_600));
    while bench.now < end {
        for order in bench.wait(secs(60)) {
            assert_eq!(order, Output::SignIn);
            tries += 1;
            bench.engine.handle_token_failed(bench.now, Failure::Unreachable);
            assert!(matches!(bench.engine.link(bench.now), Link::Offline(_)));
        }
    }
    assert!((60..200).contains(&tries), "{tries} tries in an hour");
}

#[test]
fn waits_grow_with_full_jitter_and_have_a_bound() {
    let mut bench = Bench::cold(Vec::new());
    let mut waits = Vec::new();
    for _ in 0..40 {
        let before = bench.now;
        let orders = bench.wait(secs(120));
        assert_eq!(orders, [Output::SignIn]);
        waits.push(bench.now.since(before));
        bench.engine.handle_token_failed(bench.now, Failure::Unreachable);
    }
    assert!(waits[1] <= secs(1));
    assert!(waits.iter().all(|wait| *wait <= secs(61)), "{waits:?}");
    let late = &waits[10..];
    let (least, most) = (late.iter().min().unwrap(), late.iter().max().unwrap());
    assert!(*least < secs(20) && *most > secs(40), "they spread: {late:?}");
}

#[test]
fn the_same_seed_gives_the_same_waits() {
    let trace = || {
        let mut bench = Bench::cold(Vec::new());
        (0..20)
            .map(|_| {
                bench.wait(secs(120));
                bench.engine.handle_token_failed(bench.now, Failure::Unreachable);
                bench.now
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(trace(), trace());
}

#[test]
fn a_server_that_says_when_is_taken_at_its_word_up_to_a_bound() {
    let mut bench = Bench::notes();
    bench.engine.handle_changed(bench.now, &app("notes"));
    let order = bench.pull();
    bench.engine.handle_pull_failed(bench.now, &order, Failure::Busy(Some(secs(30))));
    let before = bench.now;
    bench.pass(secs(29));
    assert_eq!(bench.orders(), []);
    bench.pass(secs(2));
    let order = bench.pull();
    assert!(bench.now.since(before) >= secs(30));
    bench.engine.handle_pull_failed(bench.now, &order, Failure::Busy(Some(secs(1 << 40))));
    bench.pass(secs(10 * 60 + 3));
    assert!(bench.orders().iter().any(|order| matches!(order, Output::Pull(_))));
}

#[test]
fn the_stream_waits_as_long_as_it_was_asked_to() {
    let mut bench = Bench::notes();
    bench.engine.handle_stream_retry(secs(20));
    bench.engine.handle_stream_closed(bench.now, None);
    let before = bench.now;
    assert_eq!(bench.wait(secs(60)), [Output::OpenStream]);
    assert!(bench.now.since(before) >= secs(20));
    bench.engine.handle_stream_retry(Duration::MAX);
    bench.engine.handle_stream_closed(bench.now, Some(Failure::Busy(None)));
    let before = bench.now;
    while !bench.wait(secs(3_600)).contains(&Output::OpenStream) {}
    assert!(bench.now.since(before) <= secs(10 * 60 + 61), "bounded");
}

#[test]
fn a_failing_app_does_not_hold_up_another() {
    let mut bench = Bench::warm(vec![AppStart::new(app("a")), AppStart::new(app("b"))]);
    bench.engine.handle_changed(bench.now, &app("a"));
    let order = bench.pull();
    bench.engine.handle_pull_failed(bench.now, &order, Failure::Refused);
    bench.engine.handle_changed(bench.now, &app("b"));
    assert_eq!(bench.pull().app, app("b"));
}

#[test]
fn a_token_that_ran_out_costs_one_renewal_and_one_repeat() {
    let mut bench = Bench::notes();
    bench.engine.handle_changed(bench.now, &app("notes"));
    let order = bench.pull();
    bench.engine.handle_pull_failed(bench.now, &order, Failure::Token);
    assert_eq!(bench.orders(), [Output::SignIn]);
    bench.engine.handle_token(bench.now, secs(900));
    let order = bench.pull();
    // A server that refuses good tokens too is not asked without end.
    bench.engine.handle_pull_failed(bench.now, &order, Failure::Token);
    assert_eq!(bench.orders(), [Output::SignIn]);
    bench.engine.handle_token(bench.now, secs(900));
    assert_eq!(bench.orders(), []);
}

#[test]
fn many_apps_share_few_slots_and_none_starves() {
    let names: Vec<_> = (0..20).map(|n| app(&format!("app{n:02}"))).collect();
    let mut bench = Bench::warm(names.iter().cloned().map(AppStart::new).collect());
    let mut served = std::collections::BTreeMap::new();
    let mut open: std::collections::VecDeque<PullOrder> = std::collections::VecDeque::new();
    for _ in 0..200 {
        for name in &names {
            bench.engine.handle_changed(bench.now, name);
        }
        open.extend(bench.orders().into_iter().filter_map(|order| match order {
            Output::Pull(order) => Some(order),
            _ => None,
        }));
        assert!(open.len() <= 4);
        let order = open.pop_front().expect("a pull");
        *served.entry(order.app.clone()).or_insert(0) += 1;
        bench.answer(&order, &super::bench::page(Vec::new()));
    }
    assert_eq!(served.len(), 20);
    let (least, most) = (served.values().min().unwrap(), served.values().max().unwrap());
    assert!(most - least <= 4, "{served:?}");
}
