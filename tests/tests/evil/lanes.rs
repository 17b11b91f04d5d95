//! Servers that withhold, reorder, repeat or roll back: lanes and manifests say so.

use std::sync::{Arc, Mutex};

use minicbor::bytes::ByteVec;
use tidings_proof::SignedManifest;
use tidings_tests::evil::{Answer, Asked, Script, Turn};
use tidings_tests::{DEADLINE, eventually};
use tidings_wire::DeviceId;
use tidings_wire::local::SyncState;
use tidings_wire::sync::{ManifestHead, ManifestMark, PullResponse, PushResponse};
use tidings_wire::{Code, Position};

use super::scene::{Scene, app, blob_of, row, seq_of, table};

/// Takes every blob of an author with these numbers out of a page.
fn without(page: &mut PullResponse, author: DeviceId, numbers: impl Fn(u64) -> bool) {
    page.entries.retain(|entry| blob_of(entry, author).is_none_or(|blob| !numbers(seq_of(&blob))));
}

fn author_of(manifest: &[u8]) -> DeviceId {
    SignedManifest::decode(manifest).unwrap().manifest.replica.device
}

/// Shows of a replica's manifests only those up to a number: `None` shows none at all.
fn manifests_up_to(
    page: &mut PullResponse,
    author: DeviceId,
    old: Option<&(ManifestHead, ByteVec)>,
) {
    page.manifests
        .retain(|bytes| SignedManifest::decode(bytes).unwrap().manifest.replica.device != author);
    page.manifest_heads.retain(|head| head.device != author);
    if let Some((head, bytes)) = old {
        page.manifest_heads.push(*head);
        page.manifests.push(bytes.clone());
    }
}

/// The newest manifest of an author in a page, with its bytes, if it carries one.
fn manifest_of(page: &PullResponse, author: DeviceId) -> Option<(ManifestHead, ByteVec)> {
    let head = page.manifest_heads.iter().find(|head| head.device == author)?;
    let bytes = page
        .manifests
        .iter()
        .find(|bytes| SignedManifest::decode(bytes).unwrap().manifest.replica.device == author)?;
    Some((*head, bytes.clone()))
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_20_reordered_blobs() {
    let mut scene = Scene::with(&["author", "victim"], &["sync.page_entries=3"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // Every page the other way round, positions and all; then positions as they were.
    scene.play(
        1,
        Script::new().pages(|asked, page| {
            let positions: Vec<_> = page.entries.iter().map(|entry| entry.position).collect();
            page.entries.reverse();
            if asked.parameters().contains_key("cursor") {
                for (entry, position) in page.entries.iter_mut().zip(positions) {
                    entry.position = position;
                }
            }
        }),
    );
    scene.devices[1].stop();
    for n in 0..7 {
        scene.push(0, &table, &format!("r{n}"), &row(n)).await;
    }
    scene.devices[1].resume().await;
    for n in 0..7 {
        scene.sees(1, &table, &format!("r{n}")).await;
    }
    scene.endures(1).await;
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_20_whole_pages_swapped() {
    let mut scene = Scene::with(&["author", "victim"], &["sync.page_entries=2"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    scene.devices[1].stop();
    for n in 0..6 {
        scene.push(0, &table, &format!("r{n}"), &row(n)).await;
    }
    // The entries of each page come one page late: after those that build on them.
    let late = Mutex::new(Vec::new());
    let mark = scene.play(
        1,
        Script::new().pages(move |asked, page| {
            if !asked.is_plain_pull() {
                return;
            }
            let mut late = late.lock().unwrap();
            let given = std::mem::replace(&mut *late, std::mem::take(&mut page.entries));
            page.entries = given;
            if !page.has_more {
                let rest = std::mem::take(&mut *late);
                let before = std::mem::replace(&mut page.entries, rest);
                page.entries.extend(before);
            }
        }),
    );
    scene.devices[1].resume().await;
    for n in 0..6 {
        scene.sees(1, &table, &format!("r{n}")).await;
    }
    // What came out of order was kept, not fetched again and again.
    assert!(scene.evils[1].asked_since(mark).len() < 40);
    scene.endures(1).await;
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_21_replayed_pages() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // Everything that ever came comes with every page again, before and after what is new, with
    // the manifests of then.
    let (seen, manifests) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    scene.play(
        1,
        Script::new().pages(move |_, page| {
            let mut seen = seen.lock().unwrap();
            let mut manifests = manifests.lock().unwrap();
            let new = std::mem::take(&mut page.entries);
            page.entries = seen.clone();
            page.entries.extend(new.iter().flat_map(|entry| [entry.clone(), entry.clone()]));
            page.entries.extend(seen.iter().rev().cloned());
            seen.extend(new);
            let new = page.manifests.clone();
            page.manifests.extend(manifests.iter().cloned());
            manifests.extend(new);
        }),
    );
    for n in 0..4 {
        scene.push(0, &table, &format!("r{n}"), &row(n)).await;
        scene.sees(1, &table, &format!("r{n}")).await;
        // Each overwrites a row that the replays know in an older version.
        scene.push(0, &table, "before", &row(n)).await;
        scene.sees(1, &table, "before").await;
    }
    scene.delete(0, &table, "r0").await;
    scene.pushed(0, &app()).await;
    scene.sees(1, &table, "r0").await;
    scene.push(0, &table, "after", &row("after")).await;
    scene.sees(1, &table, "after").await;
    scene.endures(1).await;
    assert_eq!(scene.devices[1].app_status(&app()).await.quarantined, 0);
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_22_drop_in_the_middle() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let author = scene.ids[0];
    let (table, other) = (table("t"), table("other"));
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    let mark = scene.play(1, Script::new().pages(move |_, page| without(page, author, |n| n == 2)));
    scene.push(0, &table, "r2", &row(2)).await;
    scene.push(0, &table, "r3", &row(3)).await;
    scene.alarm(1, "withheld", mark).await;
    for n in 4..6 {
        scene.push(0, &table, &format!("r{n}"), &row(n)).await;
    }
    // Nothing after it is shown in that lane; another lane is not held up.
    scene.push(0, &other, "elsewhere", &row("elsewhere")).await;
    scene.sees(1, &other, "elsewhere").await;
    for n in 2..6 {
        scene.never_saw(1, &table, &format!("r{n}")).await;
    }
    scene.endures(1).await;
    // A restart forgets neither what waits nor the alarm.
    scene.devices[1].stop();
    scene.devices[1].resume().await;
    scene.raised(1, "withheld").await;
    for n in 2..6 {
        scene.never_saw(1, &table, &format!("r{n}")).await;
    }
    scene.holds().await;
    scene.quiet(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_23_drop_the_tail() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let author = scene.ids[0];
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    let mark = scene.play(1, Script::new().pages(move |_, page| without(page, author, |n| n >= 2)));
    scene.push(0, &table, "tail", &row("tail")).await;
    scene.alarm(1, "withheld", mark).await;
    scene.never_saw(1, &table, "tail").await;
    let status = scene.devices[1].status().await;
    assert_ne!(status.state, SyncState::Synced, "it lacks something: {status:?}");
    scene.endures(1).await;
    scene.holds().await;
    scene.quiet(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_24_drop_under_a_filter() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let author = scene.ids[0];
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // The plain pull lacks one blob, and a pull of that table alone lacks everything but still
    // says that this was all.
    let mark = scene.play(
        1,
        Script::new().pages(move |asked, page| match asked.is_plain_pull() {
            true => without(page, author, |n| n == 2),
            false => page.entries.clear(),
        }),
    );
    scene.push(0, &table, "hidden", &row("hidden")).await;
    scene.push(0, &table, "behind", &row("behind")).await;
    scene.alarm(1, "withheld", mark).await;
    scene.never_saw(1, &table, "hidden").await;
    scene.never_saw(1, &table, "behind").await;
    scene.endures(1).await;
    scene.holds().await;
    scene.quiet(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_25_old_manifest() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let author = scene.ids[0];
    let table = table("t");
    let old = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&old);
    scene.play(
        1,
        Script::new().pages(move |_, page| {
            let mut keep = keep.lock().unwrap();
            if keep.is_none() {
                *keep = manifest_of(page, author);
            }
        }),
    );
    scene.push(0, &table, "first", &row(1)).await;
    scene.sees(1, &table, "first").await;
    scene.push(0, &table, "second", &row(2)).await;
    scene.sees(1, &table, "second").await;
    let old = old.lock().unwrap().clone();
    assert!(old.is_some());
    let mark = scene
        .play(1, Script::new().pages(move |_, page| manifests_up_to(page, author, old.as_ref())));
    scene.alarm(1, "rollback", mark).await;
    scene.endures(1).await;
    // None at all is no better.
    let none = Script::new().pages(move |_, page| manifests_up_to(page, author, None));
    scene.play(1, none);
    scene.raised(1, "rollback").await;
    scene.holds().await;
    scene.quiet(1).await;
}

/// A house in which an observer is to be shown a history without the second device; `freeze` says
/// whether its manifest stands still or is only kept back. Gives what was there when it began.
async fn split(freeze: bool) -> Scene {
    let scene = Scene::new(&["one", "two", "observer"]).await;
    let two = scene.ids[1];
    let table = table("t");
    scene.push(0, &table, "one", &row(1)).await;
    scene.push(1, &table, "two", &row(2)).await;
    for device in 0..3 {
        scene.sees(device, &table, "one").await;
        scene.sees(device, &table, "two").await;
    }
    let begun = Arc::new(Mutex::new(None));
    let head = Arc::clone(&begun);
    scene.play(
        2,
        Script::new().pages(move |_, page| {
            without(page, two, |_| true);
            page.manifests.retain(|bytes| author_of(bytes) != two);
            let mut head = head.lock().unwrap();
            if head.is_none() {
                *head = page.manifest_heads.iter().find(|head| head.device == two).copied();
            }
            if freeze {
                page.manifest_heads.retain(|head| head.device != two);
                page.manifest_heads.extend(*head);
            }
        }),
    );
    eventually("the observer's first page of it", DEADLINE, async || {
        begun.lock().unwrap().map(|_| ()).ok_or("none yet")
    })
    .await;
    scene.push(1, &table, "hidden", &row("hidden")).await;
    scene.sees(0, &table, "hidden").await;
    scene
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_27_split_view() {
    let mut scene = split(true).await;
    let table = table("t");
    // The first device goes on, and says in its manifest what it saw of the second.
    let mark = scene.evils[0].mark();
    let two = scene.ids[1];
    eventually("the first device says what it saw", DEADLINE, async || {
        scene.push(0, &table, "built-on-it", &row("built")).await;
        let asked = scene.evils[0].asked_since(mark);
        let last = asked.iter().rev().find_map(Asked::manifest).ok_or("no manifest")?;
        let seen = last.manifest.seen.iter().find(|(replica, _)| replica.device == two);
        if seen.is_some_and(|(_, n)| n.0 >= 2) { Ok(()) } else { Err("an old one") }
    })
    .await;
    scene.raised(2, "fork").await;
    scene.never_saw(2, &table, "hidden").await;
    scene.endures(2).await;
    scene.holds().await;
    scene.quiet(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_27_a_manifest_that_is_only_named() {
    let mut scene = split(false).await;
    let table = table("t");
    scene.push(0, &table, "news", &row("news")).await;
    scene.sees(2, &table, "news").await;
    scene.raised(2, "withheld").await;
    scene.never_saw(2, &table, "hidden").await;
    scene.endures(2).await;
    scene.holds().await;
    scene.quiet(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_15_bit_flips_in_manifests() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let author = scene.ids[0];
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // A manifest that does not verify would allow to drop what only it names.
    let mark = scene.play(
        1,
        Script::new().pages(move |_, page| {
            without(page, author, |n| n >= 2);
            for bytes in &mut page.manifests {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
        }),
    );
    scene.push(0, &table, "tail", &row("tail")).await;
    scene.alarm(1, "withheld", mark).await;
    scene.never_saw(1, &table, "tail").await;
    scene.endures(1).await;
    scene.holds().await;
    scene.quiet(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_34_early_trim() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let author = scene.ids[0];
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    scene.devices[1].stop();
    for n in 2..8 {
        scene.push(0, &table, &format!("r{n}"), &row(n)).await;
    }
    // All but the last are gone before the victim comes back.
    let mark = scene.play(1, Script::new().pages(move |_, page| without(page, author, |n| n < 7)));
    scene.devices[1].resume().await;
    scene.alarm(1, "withheld", mark).await;
    for n in 2..8 {
        scene.never_saw(1, &table, &format!("r{n}")).await;
    }
    scene.endures(1).await;
    scene.holds().await;
    scene.quiet(1).await;
}

/// What an evil server answers to a push that it does not store.
fn accepted(asked: &Asked, position: u64) -> Answer {
    let push = asked.push().expect("a push");
    let signed = SignedManifest::decode(&push.manifest).expect("a manifest");
    let mark = ManifestMark { n: signed.manifest.n, hash: signed.manifest.hash() };
    Answer::cbor(&PushResponse {
        generation: tidings_wire::Generation(Default::default()),
        position: (!push.blobs.is_empty()).then_some(Position(position)),
        head: Position(position),
        already: false,
        manifest: Some(mark),
        chain: signed.manifest.chain,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_40_lane_fork_after_a_push() {
    let mut scene = Scene::new(&["victim", "other"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // It takes a push, loses its answer, and then says that another blob stands there.
    let mark = scene.play(
        0,
        Script::new().before({
            let pushes = Mutex::new(0);
            move |asked| {
                if !asked.is("/api/sync/push") {
                    return Turn::Pass;
                }
                let mut pushes = pushes.lock().unwrap();
                *pushes += 1;
                match *pushes {
                    1 => Turn::Lose,
                    2 => Answer::problem(Code::LaneFork).into(),
                    _ => Turn::Pass,
                }
            }
        }),
    );
    scene.put(0, &table, "forked", &row("forked")).await;
    scene.endures(0).await;
    scene.pushed(0, &app()).await;
    scene.sees(1, &table, "forked").await;
    // It went on under a new incarnation.
    let asked = scene.evils[0].asked_since(mark);
    let pushes: Vec<_> = asked.iter().filter_map(Asked::manifest).collect();
    let first = pushes.first().unwrap().manifest.replica.incarnation;
    let last = pushes.last().unwrap().manifest.replica.incarnation;
    assert_ne!(first, last, "a new incarnation");
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_41_ack_and_drop() {
    let mut scene = Scene::with(&["victim", "other"], &["sync.poll=5s"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // It says that it took the push, and throws it away.
    let generation = Arc::new(Mutex::new(None));
    let learn = Arc::clone(&generation);
    scene.play(
        0,
        Script::new().pages(move |_, page| *learn.lock().unwrap() = Some(page.generation)),
    );
    eventually("a pull", DEADLINE, async || {
        generation.lock().unwrap().map(|_| ()).ok_or("none yet")
    })
    .await;
    let generation = generation.lock().unwrap().unwrap();
    let mark = scene.play(
        0,
        Script::new().answer("/api/sync/push", move |asked| {
            let mut answer = accepted(asked, 77);
            let mut response: PushResponse = answer.read_cbor().unwrap();
            response.generation = generation;
            answer.write_cbor(&response);
            answer
        }),
    );
    scene.push(0, &table, "dropped", &row("dropped")).await;
    // The next pull lacks the manifest that went with it.
    scene.play(0, Script::new());
    scene.alarm(0, "rollback", mark).await;
    scene.endures(0).await;
    scene.sees(1, &table, "dropped").await;
    scene.holds().await;
    scene.quiet(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_45_endless_paging() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // Empty pages that all say that more follows; then the same full page for ever.
    let empty = Script::new().pages(|_, page| {
        page.entries.clear();
        page.has_more = true;
    });
    let mark = scene.play(1, empty);
    scene.alarm(1, "no_progress", mark).await;
    scene.endures(1).await;
    scene.still(1).await;

    let first = Mutex::new(None);
    let same = Script::new().pages(move |_, page| {
        page.has_more = true;
        let mut first = first.lock().unwrap();
        *page = first.get_or_insert_with(|| page.clone()).clone();
    });
    scene.play(1, same);
    scene.push(0, &table, "new", &row("new")).await;
    scene.raised(1, "no_progress").await;
    scene.still(1).await;

    scene.holds().await;
    scene.quiet(1).await;
}
