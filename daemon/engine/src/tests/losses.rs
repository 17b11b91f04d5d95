//! Servers that lost data: go on from what is left, delete nothing, give back what is missing.

use super::bench::{Bench, OWN, app, applied, blob, entry, lane, manifest, other, page, page_with};
use crate::*;
use tidings_wire::sync::ManifestMark;
use tidings_wire::{Generation, Hash, ManifestNumber, Position};

fn reset(common: u64) -> PageFacts {
    PageFacts {
        reset: Some(Position(common)),
        cursor: common.to_be_bytes().to_vec(),
        position: Position(common),
        ..page(Vec::new())
    }
}

/// A device that has pulled two blobs of another and pushed one of its own.
fn synced() -> Bench {
    let mut bench = Bench::notes();
    bench.engine.handle_local_commit(bench.now, &app("notes"), Some(ManifestNumber(1)));
    let orders = bench.orders();
    let [Output::Push(_, ticket)] = orders.as_slice() else { panic!("{orders:?}") };
    let answer = PushAnswer {
        generation: Generation([7; 8]),
        position: Some(Position(1)),
        manifest: Some(ManifestMark { n: ManifestNumber(1), hash: Hash::ZERO }),
        chain: ChainVerdict::Known,
    };
    bench.engine.handle_pushed(bench.now, &app("notes"), *ticket, answer, false);
    let lane = lane(other(2), 1);
    let entries = vec![entry(2, blob(lane, 1)), entry(3, blob(lane, 2))];
    let mut facts = page_with(entries, vec![manifest(other(2), 2, &[(1, 2)])]);
    facts.heads.push(super::bench::head_of(&manifest(OWN, 1, &[])));
    bench.pulled(&facts);
    assert!(bench.alarms().is_empty());
    bench
}

#[test]
fn a_reset_goes_on_from_the_common_position_and_shows_what_is_new() {
    let mut bench = synced();
    let plan = bench.pulled(&reset(2));
    assert!(plan.apply.is_empty() && plan.durable);
    assert_eq!(plan.record.cursor, Some(2_u64.to_be_bytes().to_vec()));
    assert!(bench.alarms().is_empty(), "the server admits it");
    let order = bench.pull();
    assert_eq!(order.cursor, Some(2_u64.to_be_bytes().to_vec()));
    // Another device has pushed since; what this one knows beyond stays.
    let third = lane(other(3), 1);
    let mut facts =
        page_with(vec![entry(3, blob(third, 1))], vec![manifest(other(3), 1, &[(1, 1)])]);
    facts.heads.push(super::bench::head_of(&manifest(other(2), 1, &[(1, 1)])));
    let plan = bench.engine.handle_page(bench.now, &order, &facts).unwrap();
    assert_eq!(applied(&plan), [0]);
    bench.engine.handle_page_stored(bench.now, plan);
    // Own and other lanes fell short: everything here is queued again under a new incarnation.
    let orders = bench.orders();
    assert_eq!(orders, [Output::NewIncarnation { cause: RenewCause::ServerLost, refill: true }],);
    assert!(bench.alarms().is_empty());
}

#[test]
fn another_life_of_the_store_is_a_reset_from_the_beginning() {
    let mut bench = synced();
    let mut facts = page(Vec::new());
    facts.generation = Generation([8; 8]);
    let plan = bench.pulled(&facts);
    assert_eq!(plan.record.cursor, None);
    assert_eq!(plan.record.generation, Some(Generation([8; 8])));
    let order = bench.pull();
    assert_eq!(order.cursor, None);
    // The new life has everything: nothing is queued again, and nothing is applied twice.
    let lane = lane(other(2), 1);
    let entries = vec![entry(12, blob(lane, 1)), entry(13, blob(lane, 2))];
    let mut facts = page_with(entries, vec![manifest(other(2), 2, &[(1, 2)])]);
    facts.heads.push(super::bench::head_of(&manifest(OWN, 1, &[])));
    facts.generation = Generation([8; 8]);
    let plan = bench.engine.handle_page(bench.now, &order, &facts).unwrap();
    assert!(plan.apply.is_empty());
    bench.engine.handle_page_stored(bench.now, plan);
    assert_eq!(bench.orders(), []);
    let record = bench.engine.record(&app("notes")).unwrap();
    assert!(!record.refill);
    assert!(bench.alarms().is_empty());
}

#[test]
fn resets_without_end_are_stopped() {
    let mut bench = synced();
    bench.engine.handle_changed(bench.now, &app("notes"));
    let mut resets = 0;
    while let Some(order) = bench.orders().into_iter().find_map(|order| match order {
        Output::Pull(order) => Some(order),
        _ => None,
    }) {
        resets += 1;
        assert!(resets < 10);
        bench.answer(&order, &reset(0));
    }
    assert_eq!(resets, 2);
    assert_eq!(bench.alarms(), ["no_progress"]);
}

fn renewals(bench: &mut Bench) -> Vec<Output> {
    let orders = bench.orders().into_iter();
    orders.filter(|order| matches!(order, Output::NewIncarnation { .. })).collect()
}

#[test]
fn a_loss_of_others_that_was_not_admitted_is_told() {
    let mut bench = synced();
    let mut facts = page_with(Vec::new(), vec![manifest(other(2), 1, &[(1, 1)])]);
    facts.heads.push(super::bench::head_of(&manifest(OWN, 1, &[])));
    bench.pulled(&facts);
    assert_eq!(bench.alarms(), ["rollback"]);
    // Its author gives it again; that is not ours to do.
    assert_eq!(renewals(&mut bench), []);
}

#[test]
fn what_was_taken_and_dropped_is_pushed_again_once_until_the_poll() {
    let mut bench = synced();
    let dropped = page_with(Vec::new(), vec![manifest(other(2), 2, &[(1, 2)])]);
    bench.pulled(&dropped);
    assert_eq!(bench.alarms(), ["rollback"]);
    let again = Output::NewIncarnation { cause: RenewCause::Dropped, refill: true };
    assert_eq!(renewals(&mut bench), [again]);
    // The new incarnation knows nothing of it, but the person is still told.
    let start = EngineStart { own: OWN, apps: vec![AppStart::new(app("notes"))] };
    bench.engine.handle_renewed(bench.now, start);
    bench.orders();
    assert_eq!(bench.alarms(), ["rollback"]);
}

#[test]
fn the_stream_is_opened_anew_under_a_new_incarnation() {
    let mut bench = synced();
    let start = || vec![AppStart::new(app("notes"))];
    bench.engine.handle_renewed(bench.now, EngineStart { own: OWN, apps: start() });
    assert!(!bench.orders().contains(&Output::CloseStream), "nothing changed for it");
    bench.engine.handle_renewed(bench.now, EngineStart { own: other(9), apps: start() });
    let orders = bench.orders();
    let place = |wanted: &Output| orders.iter().position(|order| order == wanted);
    let (closed, opened) = (place(&Output::CloseStream), place(&Output::OpenStream));
    assert!(closed.is_some() && closed < opened, "{orders:?}");
}

#[test]
fn a_page_of_before_a_new_incarnation_does_not_stand_for_one_after() {
    let mut bench = synced();
    let lane = lane(other(2), 1);
    bench.engine.handle_changed(bench.now, &app("notes"));
    let order = bench.pull();
    let facts = page(vec![entry(4, blob(lane, 3))]);
    let late = bench.engine.handle_page(bench.now, &order, &facts).expect("a plan");
    let start = EngineStart { own: OWN, apps: vec![AppStart::new(app("notes"))] };
    bench.engine.handle_renewed(bench.now, start);
    let order = bench.pull();
    assert_eq!(order.cursor, None);
    let entries = vec![entry(2, blob(lane, 1)), entry(3, blob(lane, 2))];
    let facts = PageFacts { has_more: true, ..page(entries) };
    let plan = bench.engine.handle_page(bench.now, &order, &facts).expect("a plan");
    bench.engine.handle_page_stored(bench.now, late);
    assert_eq!(bench.orders(), [], "the page of now is still being stored");
    bench.engine.handle_page_stored(bench.now, plan);
    assert_eq!(bench.pull().cursor, Some(3_u64.to_be_bytes().to_vec()));
}

#[test]
fn a_cursor_that_the_server_does_not_know_is_forgotten() {
    let mut bench = synced();
    bench.engine.handle_changed(bench.now, &app("notes"));
    let order = bench.pull();
    assert!(order.cursor.is_some());
    bench.engine.handle_pull_failed(bench.now, &order, Failure::Cursor);
    assert_eq!(bench.orders(), [], "it waits a moment first");
    bench.now = bench.engine.poll_timeout(bench.now).unwrap();
    bench.engine.handle_timeout(bench.now);
    assert_eq!(bench.pull().cursor, None);
}

#[test]
fn a_loss_that_was_interrupted_is_made_good_after_the_restart() {
    let mut start = AppStart::new(app("notes"));
    start.record.refill = true;
    start.record.lost.insert(other(2));
    start.manifests.push(manifest(other(2), 2, &[]));
    let mut bench = Bench::cold(vec![start]);
    bench.orders();
    bench.engine.handle_token(bench.now, super::bench::secs(900));
    let order = bench
        .orders()
        .into_iter()
        .find_map(|order| match order {
            Output::Pull(order) => Some(order),
            _ => None,
        })
        .unwrap();
    bench.answer(&order, &page_with(Vec::new(), vec![manifest(other(2), 1, &[])]));
    let orders = bench.orders();
    assert!(
        orders.contains(&Output::NewIncarnation { cause: RenewCause::ServerLost, refill: true }),
        "{orders:?}"
    );
}
