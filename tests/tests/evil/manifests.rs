//! Servers that hold manifests back, or show old ones: what devices say of each other tells.

use std::sync::{Arc, Mutex};

use minicbor::bytes::ByteVec;
use tidings_proof::SignedManifest;
use tidings_tests::evil::{Answer, Asked, Script};
use tidings_tests::{DEADLINE, eventually};
use tidings_wire::DeviceId;
use tidings_wire::sync::{AppsResponse, ManifestHead, PullResponse};

use super::lanes::without;
use super::scene::{Scene, app, app_of, row, table};

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
async fn attack_28_freeze() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // Every pull is answered with the same page for ever, and the stream says only that it lives.
    let page: Mutex<Option<PullResponse>> = Mutex::new(None);
    let script = Script::new()
        .pages(move |_, answer| {
            let mut page = page.lock().unwrap();
            let frozen = page.get_or_insert_with(|| answer.clone());
            let cursor = answer.cursor.clone();
            *answer = frozen.clone();
            (answer.cursor, answer.entries) = (cursor, Vec::new());
        })
        .answer("/api/sync/subscribe", |_| {
            Answer::stream().pieces(std::time::Duration::from_millis(100), ": alive\n\n", 100_000)
        });
    let mark = scene.play(1, script);
    eventually("a frozen page", DEADLINE, async || {
        let asked = scene.evils[1].asked_since(mark);
        asked.iter().find(|asked| asked.is_plain_pull()).map(|_| ()).ok_or("not yet")
    })
    .await;
    scene.push(0, &table, "unseen", &row("unseen")).await;
    scene.never_saw(1, &table, "unseen").await;
    // To a device that only reads it looks as if nobody wrote. One that writes finds its own
    // manifest missing, as soon as it looks.
    scene.endures(1).await;
    scene.pushed(1, &app()).await;
    scene.devices[1].stop();
    scene.devices[1].resume().await;
    scene.raised(1, "rollback").await;
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_23_a_whole_app_dropped() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let (table, photos) = (table("t"), app_of("photos"));
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // It names one app less than there are, and says nothing when something is new in it.
    let hidden = Script::new()
        .after(|asked, answer| {
            if asked.is("/api/sync/apps") && answer.status.is_success() {
                let mut apps: AppsResponse = answer.read_json();
                apps.apps.retain(|app| app.app_id != app_of("photos"));
                answer.write_json(&apps);
            }
        })
        .answer("/api/sync/subscribe", |_| {
            let hint = "event: changed\ndata: notes\n\n";
            Answer::stream().pieces(std::time::Duration::from_millis(300), hint, 100_000)
        });
    scene.play(1, hidden);
    scene.push_in(0, &photos, &table, "photo", &row("photo")).await;
    eventually("a manifest of the one app names the other", DEADLINE, async || {
        scene.push(0, &table, "meanwhile", &row("meanwhile")).await;
        let asked = scene.evils[0].asked();
        let last = asked.iter().rev().find_map(Asked::manifest).ok_or("no manifest")?;
        let names = last.manifest.app == app() && last.manifest.apps.contains(&photos);
        if names { Ok(()) } else { Err("it does not") }
    })
    .await;
    scene.raised(1, "app_withheld").await;
    scene.never_saw_in(1, &photos, &table, "photo").await;
    scene.endures(1).await;
    scene.holds().await;
    scene.quiet(1).await;
}
