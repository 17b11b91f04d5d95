//! Pushes: frozen first, one in flight, the same again until the server has answered.

use super::bench::{Bench, app, page, secs};
use crate::*;
use tidings_wire::sync::ManifestMark;
use tidings_wire::{Generation, Hash, ManifestNumber, Position};

fn notes() -> tidings_wire::AppId {
    app("notes")
}

fn taken(n: u64) -> PushAnswer {
    PushAnswer {
        generation: Generation([7; 8]),
        position: Some(Position(n)),
        manifest: Some(ManifestMark { n: ManifestNumber(n), hash: Hash::ZERO }),
        chain: ChainVerdict::Known,
    }
}

fn freeze(bench: &mut Bench, n: u64) -> u64 {
    bench.engine.handle_frozen(bench.now, &notes(), Some(ManifestNumber(n)), false);
    sent(bench)
}

fn sent(bench: &mut Bench) -> u64 {
    let orders = bench.orders();
    let [Output::Push(_, ticket)] = orders.as_slice() else { panic!("{orders:?}") };
    *ticket
}

#[test]
fn a_local_write_is_frozen_sent_and_settled() {
    let mut bench = Bench::notes();
    bench.engine.handle_local_commit(bench.now, &notes(), None);
    assert_eq!(bench.orders(), [Output::Freeze(notes())]);
    // More writes meanwhile wait for their turn.
    bench.engine.handle_local_commit(bench.now, &notes(), None);
    assert_eq!(bench.orders(), []);
    bench.engine.handle_frozen(bench.now, &notes(), Some(ManifestNumber(1)), true);
    let ticket = sent(&mut bench);
    bench.engine.handle_local_commit(bench.now, &notes(), None);
    assert_eq!(bench.orders(), []);
    bench.engine.handle_pushed(bench.now, &notes(), ticket, taken(1), true);
    assert_eq!(bench.orders(), [Output::Freeze(notes())]);
    let ticket = freeze(&mut bench, 2);
    bench.engine.handle_pushed(bench.now, &notes(), ticket, taken(2), false);
    assert_eq!(bench.orders(), []);
}

#[test]
fn a_write_frozen_in_its_own_transaction_is_sent_at_once() {
    let mut bench = Bench::notes();
    assert!(bench.engine.may_freeze(bench.now, &notes()));
    bench.engine.handle_local_commit(bench.now, &notes(), Some(ManifestNumber(1)));
    assert!(!bench.engine.may_freeze(bench.now, &notes()));
    let ticket = sent(&mut bench);
    bench.engine.handle_pushed(bench.now, &notes(), ticket, taken(1), false);
    assert!(bench.engine.may_freeze(bench.now, &notes()));
    bench.engine.handle_stream_closed(bench.now, None);
    assert!(!bench.engine.may_freeze(bench.now, &notes()), "not while the stream is down");
}

#[test]
fn a_lost_answer_is_settled_by_sending_the_same_again() {
    let mut bench = Bench::notes();
    bench.engine.handle_local_commit(bench.now, &notes(), Some(ManifestNumber(1)));
    for _ in 0..5 {
        let orders = bench.wait(secs(70));
        let [Output::Push(_, ticket)] = orders.as_slice() else { panic!("{orders:?}") };
        let failure = PushFailure::Failed(Failure::Unreachable);
        bench.engine.handle_stream_byte(bench.now);
        bench.engine.handle_push_failed(bench.now, &notes(), *ticket, failure);
    }
    let orders = bench.wait(secs(70));
    let [Output::Push(_, ticket)] = orders.as_slice() else { panic!("{orders:?}") };
    bench.engine.handle_pushed(bench.now, &notes(), *ticket, taken(1), false);
    assert_eq!(bench.orders(), []);
}

#[test]
fn what_was_frozen_before_a_restart_is_sent_as_it_is() {
    let mut start = AppStart::new(notes());
    (start.frozen, start.outbox, start.own_n) = (true, true, ManifestNumber(1));
    let mut bench = Bench::cold(vec![start]);
    bench.orders();
    bench.engine.handle_token(bench.now, secs(900));
    let orders = bench.orders();
    assert!(orders.iter().any(|order| matches!(order, Output::Push(..))), "{orders:?}");
    assert!(!orders.iter().any(|order| matches!(order, Output::Freeze(_))));
}

#[test]
fn a_moved_chain_is_read_and_a_new_manifest_signed_for_the_same_blobs() {
    let mut bench = Bench::notes();
    bench.engine.handle_local_commit(bench.now, &notes(), Some(ManifestNumber(1)));
    let ticket = sent(&mut bench);
    bench.engine.handle_push_failed(bench.now, &notes(), ticket, PushFailure::ChainMoved);
    assert_eq!(bench.orders(), [Output::ReadAccount]);
    bench.account(&[notes()]);
    assert_eq!(bench.orders(), [Output::Resign(notes())]);
    let ticket = freeze(&mut bench, 2);
    // A server that says so for ever is not asked without a pause.
    bench.engine.handle_push_failed(bench.now, &notes(), ticket, PushFailure::ChainMoved);
    assert_eq!(bench.orders(), [Output::ReadAccount]);
    bench.account(&[notes()]);
    assert_eq!(bench.orders(), [Output::Resign(notes())]);
    bench.engine.handle_frozen(bench.now, &notes(), Some(ManifestNumber(3)), false);
    assert_eq!(bench.orders(), []);
    let orders = bench.wait(secs(3));
    assert!(matches!(orders.as_slice(), [Output::Push(..)]), "{orders:?}");
}

#[test]
fn a_manifest_that_is_behind_gets_a_new_number() {
    let mut bench = Bench::notes();
    bench.engine.handle_local_commit(bench.now, &notes(), Some(ManifestNumber(1)));
    let ticket = sent(&mut bench);
    bench.engine.handle_push_failed(bench.now, &notes(), ticket, PushFailure::ManifestBehind);
    assert_eq!(bench.orders(), [Output::Resign(notes())]);
}

#[test]
fn a_lane_that_does_not_fit_takes_a_new_incarnation() {
    for (failure, cause, refill) in [
        (PushFailure::LaneFork, RenewCause::Copied, false),
        (PushFailure::LaneBehind, RenewCause::Behind, false),
        (PushFailure::LaneGap, RenewCause::ServerLost, true),
    ] {
        let mut bench = Bench::notes();
        bench.engine.handle_local_commit(bench.now, &notes(), Some(ManifestNumber(1)));
        let ticket = sent(&mut bench);
        bench.engine.handle_push_failed(bench.now, &notes(), ticket, failure);
        assert_eq!(bench.orders(), [Output::NewIncarnation { cause, refill }]);
        assert!(!bench.engine.may_freeze(bench.now, &notes()));
        let mut start = AppStart::new(notes());
        start.outbox = true;
        let own = super::bench::other(9);
        bench.engine.handle_renewed(bench.now, EngineStart { own, apps: vec![start] });
        assert_eq!(bench.engine.own(), own);
        let orders = bench.orders();
        assert!(orders.contains(&Output::Freeze(notes())), "{orders:?}");
        assert!(orders.iter().any(|order| matches!(order, Output::Pull(_))), "{orders:?}");
    }
}

#[test]
fn no_server_can_make_it_take_one_incarnation_after_the_other() {
    let mut bench = Bench::notes();
    bench.engine.handle_token(bench.now, secs(100_000));
    bench.engine.handle_local_commit(bench.now, &notes(), Some(ManifestNumber(1)));
    let (mut renewed, end) = (0, bench.now.after(secs(3_600)));
    while bench.now < end {
        bench.engine.handle_stream_byte(bench.now);
        for order in bench.wait(secs(60)) {
            match order {
                Output::Push(app, ticket) => {
                    let failure = PushFailure::LaneFork;
                    bench.engine.handle_push_failed(bench.now, &app, ticket, failure);
                }
                Output::NewIncarnation { .. } => {
                    renewed += 1;
                    let mut start = AppStart::new(notes());
                    start.frozen = true;
                    let start =
                        EngineStart { own: super::bench::other(renewed), apps: vec![start] };
                    bench.engine.handle_renewed(bench.now, start);
                }
                Output::Pull(order) => bench.answer(&order, &page(Vec::new())),
                Output::ReadAccount => bench.account(&[notes()]),
                _ => {}
            }
        }
    }
    assert!((10..200).contains(&renewed), "{renewed} incarnations in an hour");
}

#[test]
fn a_full_server_does_not_stop_pulls() {
    let mut bench = Bench::notes();
    bench.engine.handle_local_commit(bench.now, &notes(), Some(ManifestNumber(1)));
    let ticket = sent(&mut bench);
    let full = PushFailure::Failed(Failure::Busy(Some(secs(60))));
    bench.engine.handle_push_failed(bench.now, &notes(), ticket, full);
    bench.engine.handle_changed(bench.now, &notes());
    let order = bench.pull();
    bench.answer(&order, &page(Vec::new()));
    bench.pass(secs(59));
    assert_eq!(bench.orders(), []);
    bench.pass(secs(3));
    sent(&mut bench);
}

#[test]
fn a_push_that_was_never_stored_is_frozen_from_the_outbox() {
    let mut bench = Bench::notes();
    bench.engine.handle_local_commit(bench.now, &notes(), Some(ManifestNumber(1)));
    let ticket = sent(&mut bench);
    bench.engine.handle_push_failed(bench.now, &notes(), ticket, PushFailure::NothingFrozen);
    assert_eq!(bench.orders(), [Output::Freeze(notes())]);
    bench.engine.handle_frozen(bench.now, &notes(), None, false);
    assert_eq!(bench.orders(), []);
    // It goes on as if nothing had been.
    bench.engine.handle_local_commit(bench.now, &notes(), Some(ManifestNumber(1)));
    let ticket = sent(&mut bench);
    bench.engine.handle_pushed(bench.now, &notes(), ticket, taken(1), false);
    assert!(bench.engine.may_freeze(bench.now, &notes()));
}

#[test]
fn a_write_that_an_answer_does_not_know_of_yet_is_sent() {
    let mut bench = Bench::notes();
    bench.engine.handle_local_commit(bench.now, &notes(), None);
    assert_eq!(bench.orders(), [Output::Freeze(notes())]);
    // The write was stored after the freezing had looked at the outbox, and is told before it.
    bench.engine.handle_local_commit(bench.now, &notes(), None);
    let ticket = freeze(&mut bench, 1);
    bench.engine.handle_local_commit(bench.now, &notes(), None);
    bench.engine.handle_pushed(bench.now, &notes(), ticket, taken(1), false);
    assert_eq!(bench.orders(), [Output::Freeze(notes())]);
    let ticket = freeze(&mut bench, 2);
    bench.engine.handle_pushed(bench.now, &notes(), ticket, taken(2), false);
    assert_eq!(bench.orders(), [], "everything written was known to the last answers");
}

#[test]
fn an_incarnation_that_cannot_be_stored_is_tried_again_after_a_wait() {
    for cause in [RenewCause::Copied, RenewCause::Dropped] {
        let mut bench = Bench::notes();
        bench.engine.handle_token(bench.now, secs(100_000));
        let now = bench.now;
        bench.engine.renew(now, cause, true);
        let mut tries = 0;
        for _ in 0..120 {
            for order in bench.orders() {
                match order {
                    Output::NewIncarnation { cause, refill } => {
                        tries += 1;
                        bench.engine.handle_renew_failed(bench.now, cause, refill);
                    }
                    Output::Pull(order) => bench.answer(&order, &page(Vec::new())),
                    Output::ReadAccount => bench.account(&[notes()]),
                    _ => {}
                }
            }
            assert!(!bench.engine.is_whole(&notes()), "there is more to do");
            bench.pass(secs(1));
        }
        assert!((3..60).contains(&tries), "{cause:?}: {tries} tries in two minutes");
    }
}

#[test]
fn a_full_disk_makes_nobody_read_the_account_over_and_over() {
    let mut bench = Bench::notes();
    bench.engine.handle_token(bench.now, secs(100_000));
    bench.engine.handle_local_commit(bench.now, &notes(), Some(ManifestNumber(1)));
    let ticket = sent(&mut bench);
    bench.engine.handle_push_failed(bench.now, &notes(), ticket, PushFailure::ChainMoved);
    let mut readings = 0;
    for _ in 0..600 {
        for order in bench.orders() {
            match order {
                Output::ReadAccount => {
                    readings += 1;
                    bench.account(&[notes()]);
                }
                Output::Resign(app) => bench.engine.handle_freeze_failed(bench.now, &app),
                _ => {}
            }
        }
        bench.pass(std::time::Duration::from_millis(100));
    }
    assert!((2..20).contains(&readings), "{readings} readings in a minute");
}

#[test]
fn locked_keys_are_tried_again() {
    let mut bench = Bench::notes();
    bench.engine.handle_local_commit(bench.now, &notes(), None);
    assert_eq!(bench.orders(), [Output::Freeze(notes())]);
    bench.engine.handle_freeze_failed(bench.now, &notes());
    assert_eq!(bench.orders(), []);
    assert_eq!(bench.wait(secs(2)), [Output::Freeze(notes())]);
}

#[test]
fn what_was_refused_for_good_is_not_lost() {
    let mut bench = Bench::notes();
    bench.engine.handle_local_commit(bench.now, &notes(), Some(ManifestNumber(1)));
    let ticket = sent(&mut bench);
    bench.engine.handle_push_failed(bench.now, &notes(), ticket, PushFailure::BelowFloor);
    bench.engine.handle_token(bench.now, secs(100_000));
    let mut again = false;
    for _ in 0..40 {
        bench.pass(secs(60));
        for order in bench.orders() {
            match order {
                Output::Push(..) => again = true,
                Output::Pull(order) => bench.answer(&order, &page(Vec::new())),
                Output::ReadAccount => bench.account(&[notes()]),
                _ => {}
            }
        }
    }
    assert!(again, "it stays frozen, and is tried again");
}
