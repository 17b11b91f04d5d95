//! Servers that withhold, reorder or repeat blobs: lanes say so.

use std::sync::Mutex;

use tidings_tests::evil::Script;
use tidings_wire::DeviceId;
use tidings_wire::local::SyncState;
use tidings_wire::sync::PullResponse;

use super::scene::{Scene, app, blob_of, row, seq_of, table};

/// Takes every blob of an author with these numbers out of a page.
pub fn without(page: &mut PullResponse, author: DeviceId, numbers: impl Fn(u64) -> bool) {
    page.entries.retain(|entry| blob_of(entry, author).is_none_or(|blob| !numbers(seq_of(&blob))));
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
    scene.turn_honest(1);
    scene.quiet(1).await;
    let mark = scene.play(1, same);
    scene.push(0, &table, "new", &row("new")).await;
    scene.alarm(1, "no_progress", mark).await;
    scene.still(1).await;

    scene.holds().await;
    scene.quiet(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_45_endless_paging_of_what_is_missing() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let author = scene.ids[0];
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // A blob is kept back, and who asks for its table is sent from one empty page to the next.
    let script = Script::new().pages(move |asked, page| match asked.is_plain_pull() {
        true => without(page, author, |n| n == 2),
        false => {
            page.entries.clear();
            page.has_more = true;
        }
    });
    let mark = scene.play(1, script);
    scene.push(0, &table, "missing", &row(1)).await;
    scene.push(0, &table, "behind", &row(2)).await;
    scene.alarm(1, "withheld", mark).await;
    scene.still(1).await;
    let asked = scene.evils[1].asked_since(mark);
    let again = asked.iter().filter(|asked| asked.is("/api/sync/pull") && !asked.is_plain_pull());
    let (again, hints) =
        (again.count(), asked.iter().filter(|asked| asked.is_plain_pull()).count());
    // Three tries, each of three pages at most, and as many again for each time that it looks anew.
    assert!(again <= 9 * (hints + 1), "{again} pages of what is missing for {hints} pulls");
    scene.never_saw(1, &table, "missing").await;
    scene.never_saw(1, &table, "behind").await;
    scene.endures(1).await;
    scene.holds().await;
    scene.quiet(1).await;
}
