//! Blobs that are damaged, moved or made up. They never reach an app; they are kept, counted and
//! asked for, and their lane goes on.

use serde_json::json;
use tidings_proof::{Blob, BlobHeader, Signature};
use tidings_tests::evil::{Asked, Script};
use tidings_tests::hand::{Hand, plain};
use tidings_tests::{DEADLINE, eventually};
use tidings_wire::sync::{Entry, Item};
use tidings_wire::{AppId, Position, TableTag};

use super::scene::{Scene, app, app_of, blob_of, row, seq_of, swapped, table};

/// Header, sealed bytes and signature of a blob.
fn parts(blob: &[u8]) -> (BlobHeader, Vec<u8>, Signature) {
    let parsed = Blob::parse(blob).unwrap();
    let header = parsed.header().clone();
    let (start, end) = (header.encode().len(), blob.len() - Signature::LEN);
    (header, blob[start..end].to_vec(), parsed.signed_header().signature)
}

/// Where each field of a blob begins, by name.
fn fields(blob: &[u8]) -> Vec<(&'static str, usize)> {
    let (header, sealed, _) = parts(blob);
    let app = header.lane.app.as_str().len();
    let lengths = [
        ("format", 1),
        ("account", 16),
        ("app", 1 + app),
        ("device", 16),
        ("incarnation", 8),
        ("tag", 16),
        ("seq", 8),
        ("prev", 32),
        ("epoch", 4),
        ("nonce", 24),
        ("ciphertext", sealed.len() - 24),
        ("signature", Signature::LEN),
    ];
    let mut at = 0;
    let mut fields = Vec::new();
    for (name, length) in lengths {
        // The last byte of a field: the least of a number, a letter of a text.
        at += length;
        fields.push((name, at - 1));
    }
    assert_eq!(at, blob.len(), "the fields are those of a blob");
    fields
}

const FIELDS: u64 = 12;

#[tokio::test(flavor = "multi_thread")]
async fn attack_15_bit_flips() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let author = scene.ids[0];
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;

    // Of each of the next blobs one bit of another field is flipped, always the same one, however
    // often the victim asks.
    let mark = scene.play(
        1,
        Script::new().pages(move |_, page| {
            for entry in &mut page.entries {
                let Some(mut blob) = blob_of(entry, author) else { continue };
                let field = seq_of(&blob) - 2;
                if seq_of(&blob) >= 2 && field < FIELDS {
                    let (_, at) = fields(&blob)[usize::try_from(field).unwrap()];
                    blob[at] ^= 1;
                    *entry = swapped(entry, blob);
                }
            }
        }),
    );
    for field in 0..FIELDS {
        scene.push(0, &table, &format!("flipped-{field}"), &row(field)).await;
        if field == 0 {
            scene.alarm(1, "bad_blob", mark).await;
        }
    }
    scene.quarantined(1, &app(), FIELDS).await;
    scene.endures(1).await;

    // The lane goes on.
    scene.push(0, &table, "after", &row("after")).await;
    scene.sees(1, &table, "after").await;
    for field in 0..FIELDS {
        let id = format!("flipped-{field}");
        scene.never_saw(1, &table, &id).await;
        scene.lies_in_quarantine(1, &app(), &table, &id);
    }

    // The victim's manifest asks for each of them.
    let wanted: Vec<u64> = (2..2 + FIELDS).collect();
    eventually("a manifest that wants them", DEADLINE, async || {
        let asked = scene.evils[1].asked_since(mark);
        let last = asked.iter().rev().find_map(|asked| asked.manifest());
        let wants = last.map(|signed| signed.manifest.wants).unwrap_or_default();
        let seqs: Vec<u64> = wants
            .iter()
            .filter(|want| want.replica.device == author)
            .map(|want| want.seq.0)
            .collect();
        if seqs == wanted { Ok(()) } else { Err(format!("{seqs:?}")) }
    })
    .await;

    // Written again, a row comes as a blob of its own: nothing stands in its way.
    scene.evils[1].turn_honest();
    scene.push(0, &table, "flipped-0", &row("again")).await;
    scene.sees(1, &table, "flipped-0").await;
    scene.holds().await;
}

/// Plays a script in which so many blobs of the author's lane are changed, from a number on: that
/// after the row that is pushed here first. Asserts that none of them is shown.
async fn replaced(
    scene: &mut Scene,
    from: u64,
    count: u64,
    change: impl Fn(&[Entry], &Entry, Vec<u8>) -> Vec<u8> + Send + Sync + 'static,
) {
    let author = scene.ids[0];
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    let mark = scene.play(
        1,
        Script::new().pages(move |_, page| {
            let before = page.entries.clone();
            for entry in &mut page.entries {
                let Some(blob) = blob_of(entry, author) else { continue };
                if (from..from + count).contains(&seq_of(&blob)) {
                    *entry = swapped(entry, change(&before, entry, blob));
                }
            }
        }),
    );
    for n in 0..count {
        let id = format!("replaced-{n}");
        scene.push(0, &table, &id, &row(n)).await;
        scene.lies_in_quarantine(1, &app(), &table, &id);
    }
    scene.quarantined(1, &app(), count).await;
    scene.endures(1).await;
    scene.alarm(1, "bad_blob", mark).await;
    scene.push(0, &table, "after", &row("after")).await;
    scene.sees(1, &table, "after").await;
    for n in 0..count {
        scene.never_saw(1, &table, &format!("replaced-{n}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_16_cut_and_paste() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let (other, photos) = (table("other"), app_of("photos"));
    // Bodies of another row of the table, of another table, of another device and another app.
    scene.push(0, &table("t"), "donor", &row("row")).await;
    scene.push(0, &other, "donor", &row("table")).await;
    scene.push(1, &table("t"), "donor-2", &row("device")).await;
    scene.push_in(0, &photos, &table("t"), "donor", &row("app")).await;
    let first = |device: usize, app: &AppId, skip: usize| {
        let asked = scene.evils[device].asked();
        let of_app = asked.iter().filter(|asked| asked.app().as_ref() == Some(app));
        of_app.flat_map(Asked::blobs).nth(skip).expect("a donor")
    };
    let donors =
        [first(0, &app(), 0), first(0, &app(), 1), first(1, &app(), 0), first(0, &photos, 0)];
    // Each under the header of another blob: with its own signature, and with the header's.
    replaced(&mut scene, 3, 8, move |_, _, blob| {
        let (header, _, signature) = parts(&blob);
        let turn = usize::try_from(seq_of(&blob)).unwrap();
        let (_, body, others_signature) = parts(&donors[turn % 4]);
        let signature = if turn % 8 < 4 { signature } else { others_signature };
        Blob::join(&header, &body, &signature)
    })
    .await;
    scene.sees(1, &other, "donor").await;
    scene.sees_in(1, &photos, &table("t"), "donor").await;
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_17_cross_app_replay() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let photos = app_of("photos");
    let table = table("t");
    scene.push_in(0, &photos, &table, "secret-of-photos", &row("photo")).await;
    scene.sees_in(1, &photos, &table, "secret-of-photos").await;
    let photo = scene.evils[0].asked().iter().rev().find_map(|asked| {
        (asked.app() == Some(app_of("photos"))).then(|| asked.blobs().pop()).flatten()
    });
    let photo = photo.expect("the photo's blob");
    replaced(&mut scene, 2, 1, move |_, _, _| photo.clone()).await;
    scene.never_saw(1, &table, "secret-of-photos").await;
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_18_cross_account_replay() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let mut stranger = Hand::create(&scene.server.url()).await;
    let table = table("t");
    let body = plain(&stranger.body(&table, &[("stranger", row("stranger"))]));
    let blob: Vec<u8> = stranger.seal(&app(), &[(&table, body)]).blobs.pop().unwrap().into();
    replaced(&mut scene, 2, 1, move |_, _, _| blob.clone()).await;
    scene.never_saw(1, &table, "stranger").await;
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_19_table_tags_swapped() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    // Relabelled on the way: the tag is signed.
    replaced(&mut scene, 2, 1, |_, _, blob| {
        let (mut header, sealed, signature) = parts(&blob);
        header.lane.tag = TableTag([7; 16]);
        Blob::join(&header, &sealed, &signature)
    })
    .await;
    // Relabelled by a linked device that works for the server: all is signed, but the table's
    // name is inside and hashes to another tag.
    let mut insider = join(&mut scene).await;
    let body = plain(&insider.body(&table("t"), &[("relabelled", row("relabelled"))]));
    insider.push_packed(&app(), &table("other"), body).await;
    scene.quarantined(1, &app(), 2).await;
    scene.quarantined(0, &app(), 1).await;
    for device in 0..2 {
        scene.never_saw(device, &table("t"), "relabelled").await;
        scene.never_saw(device, &table("other"), "relabelled").await;
    }
    scene.holds().await;
}

/// A linked device that is not what it seems.
async fn join(scene: &mut Scene) -> Hand {
    let insider = Hand::join(&scene.devices[0], &scene.server.url()).await;
    scene.ids.push(insider.replica(&app()).device);
    insider
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_31_injected_blobs() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let author = scene.ids[0];
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // After every blob of the author: well-formed ones with its header and random sealed bytes,
    // one further on in the lane, random bytes, none at all, and one that came already.
    let mark = scene.play(
        1,
        Script::new().pages(move |_, page| {
            let mut entries = Vec::new();
            for entry in page.entries.drain(..) {
                entries.push(entry.clone());
                let Some(blob) = blob_of(&entry, author) else { continue };
                let (mut header, sealed, signature) = parts(&blob);
                let noise = vec![0x5a; sealed.len()];
                entries.push(swapped(&entry, Blob::join(&header, &noise, &signature)));
                header.seq.0 += 1;
                entries.push(swapped(&entry, Blob::join(&header, &noise, &signature)));
                entries.push(swapped(&entry, vec![0xa5; 500]));
                entries.push(swapped(&entry, Vec::new()));
                entries.push(entry);
            }
            page.entries = entries;
        }),
    );
    scene.push(0, &table, "real", &row("real")).await;
    scene.sees(1, &table, "real").await;
    scene.quarantined(1, &app(), 4).await;
    scene.endures(1).await;
    scene.alarm(1, "bad_blob", mark).await;
    scene.push(0, &table, "after", &row("after")).await;
    scene.sees(1, &table, "after").await;
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_47_poison_blobs() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let mut insider = join(&mut scene).await;
    let table = table("poison");
    let before = scene.devices[1].process().peak_memory();
    let mark = scene.evils[1].mark();
    // A gibibyte of nothing in 32 KiB.
    let bomb = {
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
        let nothing = std::io::Read::take(std::io::repeat(0), 1 << 30);
        std::io::copy(&mut { nothing }, &mut encoder).unwrap();
        encoder.finish().unwrap()
    };
    assert!(bomb.len() < 100 << 10, "{} bytes", bomb.len());
    let poisons: [Vec<u8>; 7] = [
        tidings_tests::hand::zstd(&bomb),
        // Nothing, another packing, no frame, no body, a body that is cut, a list without end.
        Vec::new(),
        vec![9, 1, 2, 3],
        tidings_tests::hand::zstd(b"no frame"),
        plain(b"no body"),
        {
            let mut body = insider.body(&table, &[("cut", json!({ "v": 1 }))]);
            body.truncate(body.len() - 3);
            plain(&body)
        },
        plain(&vec![0x9b; 300 << 10]),
    ];
    let count = u64::try_from(poisons.len()).unwrap();
    for (n, poison) in poisons.into_iter().enumerate() {
        insider.push_packed(&app(), &table, poison).await;
        if n == 0 {
            scene.alarm(1, "bad_blob", mark).await;
        }
    }
    // The same lane goes on, and every other.
    insider.push(&app(), &table, &[("healthy", row("healthy"))]).await;
    scene.note(&app(), &table, "healthy", Some(row("healthy")));
    for device in 0..2 {
        scene.quarantined(device, &app(), count).await;
        scene.sees(device, &table, "healthy").await;
        scene.never_saw(device, &table, "cut").await;
        scene.endures(device).await;
    }
    let grown = scene.devices[1].process().peak_memory().saturating_sub(before);
    assert!(grown < 64 << 20, "the daemon grew by {} MiB", grown >> 20);
    // Over a restart the lane stands where it stood.
    scene.devices[1].stop();
    insider.push(&app(), &table, &[("healthy", row("again"))]).await;
    scene.note(&app(), &table, "healthy", Some(row("again")));
    scene.devices[1].resume().await;
    scene.sees(1, &table, "healthy").await;
    scene.quarantined(1, &app(), count).await;
    scene.holds().await;
}

/// What a damaged record of the server's own store is served as.
#[tokio::test(flavor = "multi_thread")]
async fn attack_15_records_that_the_server_calls_damaged() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let author = scene.ids[0];
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    let mark = scene.play(
        1,
        Script::new().pages(move |_, page| {
            for entry in &mut page.entries {
                if blob_of(entry, author).is_some_and(|blob| seq_of(&blob) == 2) {
                    *entry = Entry { item: Item::Damaged, ..entry.clone() };
                }
            }
        }),
    );
    scene.push(0, &table, "damaged", &row(2)).await;
    scene.lies_in_quarantine(1, &app(), &table, "damaged");
    scene.quarantined(1, &app(), 1).await;
    scene.alarm(1, "bad_blob", mark).await;
    scene.push(0, &table, "after", &row(3)).await;
    scene.sees(1, &table, "after").await;
    scene.never_saw(1, &table, "damaged").await;
    scene.endures(1).await;
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_31_a_flood_of_rubbish() {
    let settings = ["sync.transfer_timeout=60s", "sync.answer_timeout=30s"];
    let mut scene = Scene::with(&["author", "victim"], &settings).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // Pages that rise and are full of what is no blob: more than is noted, and more bytes than are
    // kept.
    let at = std::sync::Mutex::new(1_u64 << 40);
    let flood = Script::new().pages(move |asked, page| {
        if !asked.is_plain_pull() {
            return;
        }
        let mut at = at.lock().unwrap();
        let full = *at < (1 << 40) + 160_000;
        let count = if full { 40_000 } else { 0 };
        page.entries.extend((0..count).map(|n| {
            *at += 1;
            let size = if n % 200 == 0 { 150_000 } else { 1 };
            let (position, item) = (Position(*at), Item::Blob(vec![7; size].into()));
            Entry { position, received_ms: 0, item }
        }));
        page.position = Position(*at);
        page.head = Position(*at);
        page.has_more = full;
    });
    let mark = scene.play(1, flood);
    scene.alarm(1, "bad_blob", mark).await;
    let held = |status: &tidings_wire::local::StatusAnswer| {
        status.apps.iter().any(|app| app.quarantined >= 160_000)
    };
    scene.devices[1].status_until("all of it counted", held).await;
    let store: u64 = std::fs::read_dir(scene.devices[1].home().join("store"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(store < 400 << 20, "{} MiB on the disk", store >> 20);
    scene.push(0, &table, "after", &row("after")).await;
    scene.sees(1, &table, "after").await;
    scene.endures(1).await;
    scene.holds().await;
}
