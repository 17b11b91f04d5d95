//! Signing in, the stream, and what is read when it opens.

use super::bench::{Bench, app, secs};
use crate::*;

#[test]
fn it_signs_in_then_opens_the_stream_and_reads_everything() {
    let mut bench = Bench::cold(vec![AppStart::new(app("notes"))]);
    assert_eq!(bench.orders(), [Output::SignIn]);
    assert_eq!(bench.engine.link(bench.now), Link::Connecting);
    bench.engine.handle_token(bench.now, secs(900));
    let orders = bench.orders();
    assert!(matches!(
        orders.as_slice(),
        [Output::OpenStream, Output::ReadAccount, Output::Pull(_)]
            | [Output::ReadAccount, Output::OpenStream, Output::Pull(_)]
    ));
    bench.engine.handle_stream_opened(bench.now);
    assert_eq!(bench.engine.link(bench.now), Link::Online);
}

#[test]
fn every_reconnect_pulls_by_itself() {
    let mut bench = Bench::notes();
    bench.engine.handle_stream_closed(bench.now, None);
    let orders = bench.wait(secs(2));
    assert_eq!(orders, [Output::OpenStream]);
    bench.engine.handle_stream_opened(bench.now);
    let orders = bench.orders();
    assert!(orders.iter().any(|order| matches!(order, Output::Pull(_))), "{orders:?}");
    assert!(orders.contains(&Output::ReadAccount));
}

#[test]
fn silence_is_death_after_75_seconds() {
    let mut bench = Bench::notes();
    bench.pass(secs(300));
    assert_eq!(bench.orders(), []);
    let before = bench.now;
    let orders = bench.wait(secs(100));
    assert_eq!(orders, [Output::CloseStream]);
    assert_eq!(bench.now.since(before), secs(75));
    assert_eq!(bench.wait(secs(2)), [Output::OpenStream]);
}

#[test]
fn it_polls_every_quarter_of_an_hour() {
    let mut bench = Bench::notes();
    bench.engine.handle_token(bench.now, secs(100_000));
    bench.pass(secs(899));
    assert_eq!(bench.orders(), []);
    bench.pass(secs(1));
    let orders = bench.orders();
    assert!(matches!(orders.as_slice(), [Output::ReadAccount, Output::Pull(_)]), "{orders:?}");
}

#[test]
fn a_token_is_renewed_before_its_end_and_once() {
    let mut bench = Bench::notes();
    bench.pass(secs(839));
    assert_eq!(bench.orders(), []);
    bench.pass(secs(1));
    assert_eq!(bench.orders(), [Output::SignIn]);
    bench.pass(secs(30));
    assert_eq!(bench.orders(), [], "one sign-in at a time");
    bench.engine.handle_token(bench.now, secs(900));
    assert_eq!(bench.orders(), []);
}

#[test]
fn a_short_token_is_not_renewed_for_ever() {
    let mut bench = Bench::notes();
    bench.engine.handle_token(bench.now, secs(4));
    bench.pass(secs(2));
    assert_eq!(bench.orders(), []);
    bench.pass(secs(1));
    assert_eq!(bench.orders(), [Output::SignIn]);
}

#[test]
fn a_stream_without_bytes_counts_as_buffered_and_is_polled_for() {
    let mut bench = Bench::cold(vec![AppStart::new(app("notes"))]);
    bench.orders();
    bench.engine.handle_token(bench.now, secs(900));
    bench.engine.handle_stream_opened(bench.now);
    bench.settle(&[app("notes")]);
    bench.wait(secs(10));
    assert_eq!(bench.engine.link(bench.now), Link::Buffered);
    let before = bench.now;
    let orders = bench.wait(secs(64));
    assert!(orders.contains(&Output::ReadAccount), "{orders:?}");
    assert_eq!(bench.now.since(before), secs(60));
}

#[test]
fn a_stream_whose_head_is_held_back_counts_as_buffered_too() {
    let mut bench = Bench::cold(vec![AppStart::new(app("notes"))]);
    bench.orders();
    bench.engine.handle_token(bench.now, secs(900));
    bench.settle(&[app("notes")]);
    assert_eq!(bench.engine.link(bench.now), Link::Connecting);
    bench.wait(secs(10));
    assert_eq!(bench.engine.link(bench.now), Link::Buffered);
    // The call for it runs into its timeout, again and again: what goes is still done.
    for _ in 0..5 {
        bench.pass(secs(30));
        bench.engine.handle_stream_closed(bench.now, Some(Failure::Unreachable));
        assert_eq!(bench.engine.link(bench.now), Link::Buffered);
        bench.pass(secs(120));
        bench.settle(&[app("notes")]);
    }
    // Only a byte tells that it comes through.
    bench.engine.handle_stream_opened(bench.now);
    assert_eq!(bench.engine.link(bench.now), Link::Buffered);
    bench.engine.handle_stream_byte(bench.now);
    assert_eq!(bench.engine.link(bench.now), Link::Online);
}

#[test]
fn a_server_that_answers_nothing_is_not_called_buffered() {
    let mut bench = Bench::cold(vec![AppStart::new(app("notes"))]);
    bench.orders();
    bench.engine.handle_token(bench.now, secs(900));
    bench.orders();
    bench.pass(secs(12));
    assert_eq!(bench.engine.link(bench.now), Link::Connecting);
    bench.engine.handle_stream_closed(bench.now, Some(Failure::Unreachable));
    assert!(matches!(bench.engine.link(bench.now), Link::Offline(_)));
}

#[test]
fn a_server_that_says_farewell_is_away_until_it_is_back() {
    let mut bench = Bench::notes();
    bench.engine.handle_stream_closed(bench.now, Some(Failure::Busy(Some(secs(30)))));
    assert!(matches!(bench.engine.link(bench.now), Link::Offline(Some(_))));
    assert_eq!(bench.wait(secs(32)), [Output::OpenStream]);
    assert!(matches!(bench.engine.link(bench.now), Link::Offline(_)), "it is only tried");
    bench.engine.handle_stream_opened(bench.now);
    assert_eq!(bench.engine.link(bench.now), Link::Online);
}

#[test]
fn silence_is_told_at_once_and_a_try_does_not_take_it_back() {
    let mut bench = Bench::notes();
    assert_eq!(bench.wait(secs(100)), [Output::CloseStream]);
    assert!(matches!(bench.engine.link(bench.now), Link::Offline(_)));
    assert_eq!(bench.wait(secs(2)), [Output::OpenStream]);
    assert!(matches!(bench.engine.link(bench.now), Link::Offline(_)));
}

#[test]
fn a_stream_that_a_proxy_ends_and_that_comes_back_is_not_worth_a_word() {
    let mut bench = Bench::notes();
    for _ in 0..100 {
        bench.engine.handle_stream_byte(bench.now);
        bench.pass(secs(2));
        bench.engine.handle_stream_closed(bench.now, None);
        assert_eq!(bench.engine.link(bench.now), Link::Online);
        let before = bench.now;
        while !bench.wait(secs(60)).contains(&Output::OpenStream) {}
        assert!(bench.now.since(before) <= secs(2), "the waits do not grow");
        assert_eq!(bench.engine.link(bench.now), Link::Online);
        bench.engine.handle_stream_opened(bench.now);
        bench.settle(&[app("notes")]);
    }
    // One that does not come back is.
    bench.engine.handle_stream_byte(bench.now);
    bench.engine.handle_stream_closed(bench.now, None);
    while !bench.wait(secs(60)).contains(&Output::OpenStream) {}
    bench.pass(secs(2));
    assert_eq!(bench.engine.link(bench.now), Link::Connecting);
}

#[test]
fn streams_that_end_as_they_begin_come_ever_more_rarely() {
    let mut bench = Bench::notes();
    bench.engine.handle_token(bench.now, secs(100_000));
    let mut opened = 0;
    let end = bench.now.after(secs(3_600));
    while bench.now < end {
        if bench.wait(secs(60)).contains(&Output::OpenStream) {
            opened += 1;
            bench.engine.handle_stream_opened(bench.now);
            bench.engine.handle_stream_byte(bench.now);
            bench.engine.handle_stream_closed(bench.now, None);
        }
    }
    assert!((60..200).contains(&opened), "{opened} streams in an hour");
}

#[test]
fn waking_up_connects_at_once() {
    let mut bench = Bench::notes();
    bench.engine.handle_resumed(bench.now);
    let orders = bench.orders();
    assert_eq!(orders.first(), Some(&Output::CloseStream));
    assert!(orders.contains(&Output::OpenStream));
}

#[test]
fn a_reauth_signs_in_and_opens_again() {
    let mut bench = Bench::notes();
    bench.engine.handle_stream_reauth(bench.now);
    assert_eq!(bench.orders(), [Output::SignIn]);
    bench.engine.handle_token(bench.now, secs(900));
    assert!(bench.orders().contains(&Output::OpenStream));
}

#[test]
fn the_servers_word_alone_only_makes_it_look_at_the_chain() {
    let mut bench = Bench::notes();
    bench.engine.handle_stream_closed(bench.now, Some(Failure::Unlinked));
    assert_eq!(bench.engine.link(bench.now), Link::Unlinked);
    assert_eq!(bench.orders(), [Output::ReadAccount]);
    bench.engine.handle_account_failed(bench.now, Failure::Unlinked);
    // It goes on asking, ever more slowly.
    let mut asked = 0;
    for _ in 0..1_000 {
        for order in bench.wait(secs(3_600)) {
            match order {
                Output::SignIn => {
                    asked += 1;
                    bench.engine.handle_token_failed(bench.now, Failure::Unlinked);
                }
                Output::ReadAccount => {
                    bench.engine.handle_account_failed(bench.now, Failure::Unlinked);
                }
                other => panic!("{other:?}"),
            }
        }
        if bench.now > Time::from_millis(1_000_000 + 3_600_000) {
            break;
        }
    }
    assert!((50..400).contains(&asked), "{asked} sign-ins in an hour");
}
