//! Servers that lose what they took, with or without saying so.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tidings_proof::SignedManifest;
use tidings_tests::evil::{Answer, Asked, Evil, Script, Turn};
use tidings_tests::{DEADLINE, eventually};
use tidings_wire::sync::{ManifestMark, PushResponse};
use tidings_wire::{Code, ManifestNumber, Position};

use super::scene::{Scene, app, device, row, table};

#[tokio::test(flavor = "multi_thread")]
async fn attack_26_full_rollback() {
    let mut scene = Scene::with(&["author", "victim"], &["sync.poll=3s"]).await;
    let table = table("t");
    scene.push(0, &table, "old", &row("old")).await;
    scene.sees(1, &table, "old").await;
    // The operator restores yesterday's files.
    scene.server.stop();
    let store = scene.server.store_dir();
    let yesterday = scene.server.dir().join("yesterday");
    copy_dir(&store, &yesterday);
    scene.server.resume();
    scene.push(0, &table, "lost", &row("lost")).await;
    scene.push(1, &table, "lost-too", &row("lost too")).await;
    scene.push(0, &table, "old", &row("changed")).await;
    scene.sees(0, &table, "lost-too").await;
    scene.sees(1, &table, "lost").await;
    scene.server.stop();
    std::fs::remove_dir_all(&store).unwrap();
    copy_dir(&yesterday, &store);
    scene.server.resume();
    scene.endures(0).await;
    scene.endures(1).await;
    // Nothing is deleted here, and a computer that is linked now gets everything.
    scene.sees(1, &table, "lost").await;
    let evil = Evil::start(scene.server.address()).await;
    let new = device("new", &[]).await;
    let account = scene.devices[0].link(&new, &evil.url()).await;
    scene.add(new, evil, account.device);
    scene.holds().await;
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_dir(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
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

/// Says that it took pushes and throws them away; what it says that it holds is up to `named`.
async fn dropped(named: impl Fn(ManifestMark) -> Option<ManifestMark> + Send + Sync + 'static) {
    let mut scene = Scene::with(&["victim", "other"], &["sync.poll=5s"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
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
            response.manifest = response.manifest.and_then(&named);
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
async fn attack_41_ack_and_drop() {
    dropped(Some).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_41_ack_and_drop_naming_an_older_manifest() {
    // As if the push had never been: an answer that says so is no excuse.
    dropped(|mark| Some(ManifestMark { n: ManifestNumber(mark.n.0 - 1), ..mark })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_41_ack_and_drop_naming_no_manifest() {
    dropped(|_| None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_42_claims_of_a_copy() {
    let mut scene = Scene::new(&["victim", "other"]).await;
    let own = scene.ids[0];
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // It claims to hold manifests that a copy of this computer must have signed, and shows none.
    let far = |n: ManifestNumber| ManifestNumber(n.0 + 1_000);
    let script = Script::new()
        .pages(move |_, page| {
            for head in page.manifest_heads.iter_mut().filter(|head| head.device == own) {
                head.n = far(head.n);
            }
        })
        .after(move |asked, answer| {
            if asked.is("/api/sync/push")
                && let Some(mut response) = answer.read_cbor::<PushResponse>()
            {
                response.manifest =
                    response.manifest.map(|mark| ManifestMark { n: far(mark.n), ..mark });
                answer.write_cbor(&response);
            }
        });
    let mark = scene.play(0, script);
    scene.alarm(0, "withheld", mark).await;
    for n in 0..4 {
        scene.push(0, &table, &format!("r{n}"), &row(n)).await;
        scene.sees(1, &table, &format!("r{n}")).await;
    }
    scene.endures(0).await;
    // Its word alone makes nobody begin anew.
    let pushes: BTreeSet<_> = scene.evils[0]
        .asked()
        .iter()
        .filter_map(Asked::manifest)
        .map(|signed| signed.manifest.replica.incarnation)
        .collect();
    assert_eq!(pushes.len(), 1, "{pushes:?}");
    scene.holds().await;
    scene.quiet(0).await;
}
