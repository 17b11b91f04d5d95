//! Manifests: a server that hides, rolls back or shows two histories is found out.

use super::bench::{
    Bench, OWN, app, blob, entry, head_of, lane, manifest, other, page, page_with, secs,
};
use crate::*;
use tidings_wire::sync::ManifestMark;
use tidings_wire::{Hash, ManifestNumber};

#[test]
fn a_manifest_that_went_back_is_a_rollback() {
    let mut bench = Bench::notes();
    let (old, new) = (manifest(other(2), 1, &[]), manifest(other(2), 5, &[]));
    bench.pulled(&page_with(Vec::new(), vec![new]));
    assert!(bench.alarms().is_empty());
    let plan = bench.pulled(&page_with(Vec::new(), vec![old]));
    assert!(plan.manifests.is_empty(), "an older one is not taken");
    assert_eq!(bench.alarms(), ["rollback"]);
}

#[test]
fn a_manifest_that_is_gone_is_a_rollback_until_it_is_back() {
    let mut bench = Bench::notes();
    let fact = manifest(other(2), 5, &[]);
    bench.pulled(&page_with(Vec::new(), vec![fact.clone()]));
    bench.pulled(&page(Vec::new()));
    assert_eq!(bench.alarms(), ["rollback"]);
    bench.pulled(&page_with(Vec::new(), vec![fact]));
    assert!(bench.alarms().is_empty());
}

#[test]
fn a_manifest_that_is_named_must_be_given() {
    let mut bench = Bench::notes();
    let (old, new) = (manifest(other(2), 1, &[]), manifest(other(2), 2, &[(1, 1)]));
    bench.pulled(&page_with(Vec::new(), vec![old]));
    // Dropped on the way, or changed so that it does not verify.
    let mut facts = page(Vec::new());
    facts.heads.push(head_of(&new));
    bench.pulled(&facts);
    assert_eq!(bench.alarms(), ["withheld"]);
    let lane = lane(other(2), 1);
    bench.pulled(&page_with(vec![entry(1, blob(lane, 1))], vec![new]));
    assert!(bench.alarms().is_empty());
}

#[test]
fn two_manifests_of_one_number_are_a_fork() {
    let mut bench = Bench::notes();
    bench.pulled(&page_with(Vec::new(), vec![manifest(other(2), 5, &[(1, 1)])]));
    bench.pulled(&page_with(Vec::new(), vec![manifest(other(2), 5, &[(1, 2)])]));
    assert_eq!(bench.alarms().first(), Some(&"fork"));
}

#[test]
fn heads_never_fall() {
    let mut bench = Bench::notes();
    let lane = lane(other(2), 1);
    let entries = vec![entry(1, blob(lane, 1)), entry(2, blob(lane, 2))];
    bench.pulled(&page_with(entries, vec![manifest(other(2), 1, &[(1, 2)])]));
    let plan = bench.pulled(&page_with(Vec::new(), vec![manifest(other(2), 2, &[(1, 1)])]));
    assert!(plan.manifests.is_empty());
    assert!(bench.alarms().contains(&"fork"));
}

#[test]
fn what_another_saw_must_be_shown_to_us_too() {
    let mut bench = Bench::notes();
    let mut witness = manifest(other(2), 1, &[]);
    witness.manifest.seen.insert(other(3), ManifestNumber(7));
    bench.pulled(&page_with(Vec::new(), vec![witness.clone(), manifest(other(3), 6, &[])]));
    assert_eq!(bench.alarms(), ["fork"]);
    bench.pulled(&page_with(Vec::new(), vec![witness, manifest(other(3), 7, &[])]));
    assert!(bench.alarms().is_empty());
}

#[test]
fn what_a_linked_computer_said_must_be_shown_at_least() {
    let mut start = AppStart::new(app("notes"));
    let known = manifest(other(2), 4, &[]);
    start.floors.insert(other(2), ManifestMark { n: known.manifest.n, hash: known.hash });
    let mut bench = Bench::warm(vec![start]);
    assert_eq!(bench.alarms(), ["rollback"], "an empty log is less than was promised");
    bench.pulled(&page_with(Vec::new(), vec![manifest(other(2), 3, &[])]));
    assert_eq!(bench.alarms(), ["rollback"]);
    bench.pulled(&page_with(Vec::new(), vec![known]));
    assert!(bench.alarms().is_empty());
}

#[test]
fn an_app_that_a_manifest_names_must_be_in_the_list() {
    let mut bench = Bench::notes();
    let mut fact = manifest(other(2), 1, &[]);
    fact.manifest.apps.insert(app("photos"));
    bench.pulled(&page_with(Vec::new(), vec![fact.clone()]));
    // It may only be newer than the list: that is read first.
    assert!(bench.alarms().is_empty());
    assert_eq!(bench.orders(), [Output::ReadAccount]);
    bench.account(&[app("notes")]);
    assert_eq!(bench.alarms(), ["app_withheld"]);
    bench.engine.handle_account_changed(bench.now);
    bench.orders();
    bench.account(&[app("notes"), app("photos")]);
    assert!(bench.alarms().is_empty());
}

#[test]
fn a_chain_that_contradicts_ours_is_told() {
    let mut bench = Bench::notes();
    let mut fact = manifest(other(2), 1, &[]);
    fact.chain = ChainVerdict::Fork;
    bench.pulled(&page_with(Vec::new(), vec![fact.clone()]));
    assert_eq!(bench.alarms(), ["chain_fork"]);
    // A chain that the server shows us is no answer to what a linked device has signed.
    bench.engine.handle_account_changed(bench.now);
    bench.orders();
    bench.account(&[app("notes")]);
    assert_eq!(bench.alarms(), ["chain_fork"]);
    let facts = PageFacts { heads: vec![head_of(&fact)], ..page(Vec::new()) };
    bench.pulled(&facts);
    assert_eq!(bench.alarms(), ["chain_fork"]);
    // Only what that device says later is.
    bench.pulled(&page_with(Vec::new(), vec![manifest(other(2), 2, &[])]));
    bench.engine.handle_account_changed(bench.now);
    bench.orders();
    bench.account(&[app("notes")]);
    assert!(bench.alarms().is_empty());
}

#[test]
fn an_answer_older_than_our_last_push_is_no_rollback() {
    let mut bench = Bench::notes();
    bench.engine.handle_changed(bench.now, &app("notes"));
    let order = bench.pull();
    // While the pull is on its way a push is frozen, sent and acknowledged.
    bench.engine.handle_local_commit(bench.now, &app("notes"), Some(ManifestNumber(1)));
    let orders = bench.orders();
    let [Output::Push(_, ticket)] = orders.as_slice() else { panic!("{orders:?}") };
    let mark = ManifestMark { n: ManifestNumber(1), hash: Hash::ZERO };
    bench.engine.handle_pushed(bench.now, &app("notes"), *ticket, answer(Some(mark)), false);
    bench.answer(&order, &page(Vec::new()));
    assert!(bench.alarms().is_empty());
    // The next one has no such excuse.
    bench.pulled(&page(Vec::new()));
    assert_eq!(bench.alarms(), ["rollback"]);
}

#[test]
fn an_own_manifest_that_we_never_signed_means_a_copy() {
    let mut bench = Bench::notes();
    let theirs = manifest(OWN, 3, &[]);
    // The server's word alone is none.
    let facts = PageFacts { heads: vec![head_of(&theirs)], ..page(Vec::new()) };
    bench.pulled(&facts);
    assert_eq!(bench.alarms(), ["withheld"]);
    assert_eq!(bench.orders(), [Output::Alarms]);
    bench.pulled(&page_with(Vec::new(), vec![theirs]));
    let renewed = Output::NewIncarnation { cause: RenewCause::Copied, refill: false };
    assert!(bench.orders().contains(&renewed));
}

#[test]
fn a_newer_own_manifest_that_an_answer_to_a_push_only_names_is_asked_for() {
    let mut bench = Bench::notes();
    let ticket = pushed(&mut bench, 1);
    let mark = ManifestMark { n: ManifestNumber(9), hash: Hash::ZERO };
    bench.engine.handle_pushed(bench.now, &app("notes"), ticket, answer(Some(mark)), false);
    let order = bench.pull();
    assert_eq!(order.known.first().unwrap().n, ManifestNumber(1), "it is to be shown");
    // The server does not: no reason to begin anew, and no word of its own is believed later.
    let mut facts = page(Vec::new());
    facts.heads.push(head_of(&manifest(OWN, 9, &[])));
    bench.answer(&order, &facts);
    assert_eq!(bench.alarms(), ["withheld"]);
    assert!(renewals(&mut bench).is_empty());
    let own = page_with(Vec::new(), vec![manifest(OWN, 1, &[])]);
    bench.pulled(&own);
    assert!(bench.alarms().is_empty(), "it never said that it took more than the first");
    // It does: a copy of this replica signed it.
    let mut facts = page_with(Vec::new(), vec![manifest(OWN, 9, &[])]);
    facts.has_more = true;
    facts.cursor = vec![1];
    bench.pulled(&facts);
    facts.manifests.clear();
    facts.has_more = false;
    let order = bench.pull();
    bench.answer(&order, &facts);
    let copied = Output::NewIncarnation { cause: RenewCause::Copied, refill: false };
    assert_eq!(renewals(&mut bench), [copied]);
}

#[test]
fn a_copy_is_proved_by_a_page_for_one_lane_as_well() {
    let mut bench = Bench::notes();
    let lane = lane(other(2), 1);
    bench.pulled(&page(vec![entry(1, blob(lane, 1)), entry(3, blob(lane, 3))]));
    let order = bench.pull();
    assert_eq!(order.purpose, Purpose::Refetch(lane));
    bench.answer(&order, &page_with(vec![entry(2, blob(lane, 2))], vec![manifest(OWN, 9, &[])]));
    assert!(renewals(&mut bench).is_empty(), "judged at the head");
    bench.pulled(&page(Vec::new()));
    let copied = Output::NewIncarnation { cause: RenewCause::Copied, refill: false };
    assert_eq!(renewals(&mut bench), [copied]);
}

#[test]
fn an_own_manifest_that_we_signed_is_no_copy() {
    let mut bench = Bench::notes();
    let ticket = pushed(&mut bench, 4);
    let mark = ManifestMark { n: ManifestNumber(4), hash: Hash::ZERO };
    bench.engine.handle_pushed(bench.now, &app("notes"), ticket, answer(Some(mark)), false);
    bench.pulled(&page_with(Vec::new(), vec![manifest(OWN, 4, &[])]));
    bench.pulled(&page_with(Vec::new(), vec![manifest(OWN, 4, &[])]));
    assert!(bench.alarms().is_empty());
    assert!(renewals(&mut bench).is_empty());
}

#[test]
fn a_push_that_was_taken_must_be_shown_whichever_manifest_the_answer_named() {
    for named in [None, Some(3), Some(9)] {
        let mut bench = Bench::notes();
        let ticket = pushed(&mut bench, 4);
        let mark = named.map(|n| ManifestMark { n: ManifestNumber(n), hash: Hash::ZERO });
        bench.engine.handle_pushed(bench.now, &app("notes"), ticket, answer(mark), false);
        // It is looked at once what became of it.
        let order = bench.pull();
        bench.answer(&order, &page_with(Vec::new(), vec![manifest(OWN, 3, &[])]));
        assert_eq!(bench.alarms(), ["rollback"], "{named:?}");
        let dropped = Output::NewIncarnation { cause: RenewCause::Dropped, refill: true };
        assert_eq!(renewals(&mut bench), [dropped], "{named:?}");
    }
}

/// Has a push with this manifest's number sent; gives its ticket.
fn pushed(bench: &mut Bench, n: u64) -> u64 {
    bench.engine.handle_local_commit(bench.now, &app("notes"), Some(ManifestNumber(n)));
    let orders = bench.orders();
    let [Output::Push(_, ticket)] = orders.as_slice() else { panic!("{orders:?}") };
    *ticket
}

fn renewals(bench: &mut Bench) -> Vec<Output> {
    let orders = bench.orders().into_iter();
    orders.filter(|order| matches!(order, Output::NewIncarnation { .. })).collect()
}

#[test]
fn manifests_may_come_in_more_than_one_answer() {
    let mut bench = Bench::notes();
    let (second, third) = (manifest(other(2), 5, &[]), manifest(other(3), 5, &[]));
    let mut facts = page_with(Vec::new(), vec![second.clone()]);
    facts.heads.push(head_of(&third));
    bench.pulled(&facts);
    assert!(bench.alarms().is_empty());
    // The rest is asked for at once; where it does not come then, it is withheld.
    facts.manifests.clear();
    let order = bench.pull();
    assert_eq!(order.known.len(), 2, "its own and the second's");
    bench.answer(&order, &facts);
    assert_eq!(bench.alarms(), ["withheld"]);
    bench.pulled(&page_with(Vec::new(), vec![second, third]));
    assert!(bench.alarms().is_empty());
}

#[test]
fn testimony_says_what_was_accepted_and_what_the_server_has() {
    let mut bench = Bench::notes();
    bench.pulled(&page_with(Vec::new(), vec![manifest(other(2), 5, &[])]));
    bench.engine.handle_local_commit(bench.now, &app("drafts"), None);
    let testimony = bench.engine.testimony(&app("notes"));
    assert_eq!(testimony.seen.get(&other(2)), Some(&ManifestNumber(5)));
    assert_eq!(testimony.apps, [app("notes")].into(), "drafts is not on the server yet");
}

#[test]
fn silent_readers_say_what_they_saw_within_the_hour_and_then_daily() {
    let mut bench = Bench::notes();
    bench.engine.handle_token(bench.now, secs(10 * 86_400));
    let lane = lane(other(2), 1);
    bench.pulled(&page(vec![entry(1, blob(lane, 1))]));
    let mut signed = Vec::new();
    let begin = bench.now;
    for _ in 0..(50 * 60) {
        bench.pass(secs(60));
        for order in bench.orders() {
            match order {
                Output::SignManifest(name) => {
                    signed.push(bench.now.since(begin).as_secs() / 60);
                    let n = ManifestNumber(signed.len() as u64);
                    bench.engine.handle_frozen(bench.now, &name, Some(n), false);
                }
                Output::Push(name, ticket) => {
                    let n = ManifestNumber(signed.len() as u64);
                    let mark = Some(ManifestMark { n, hash: Hash::ZERO });
                    bench.engine.handle_pushed(bench.now, &name, ticket, answer(mark), false);
                }
                Output::Pull(order) => {
                    let n = ManifestNumber(signed.len() as u64);
                    let own = tidings_wire::sync::ManifestHead {
                        device: OWN.device,
                        incarnation: OWN.incarnation,
                        n,
                        hash: Hash::ZERO,
                    };
                    bench.answer(&order, &PageFacts { heads: vec![own], ..page(Vec::new()) });
                }
                Output::ReadAccount => bench.account(&[app("notes")]),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(signed.len(), 3, "{signed:?}");
    assert_eq!(signed[0], 60);
    assert!(bench.alarms().is_empty());
}

fn answer(manifest: Option<ManifestMark>) -> PushAnswer {
    PushAnswer {
        generation: tidings_wire::Generation([7; 8]),
        position: Some(tidings_wire::Position(1)),
        manifest,
        chain: ChainVerdict::Known,
    }
}
