//! Servers that abuse the transport: streams, bombs, redirects, lies about time and numbers.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tidings_tests::evil::{Answer, Asked, Script};
use tidings_tests::{DEADLINE, eventually};
use tidings_wire::sync::{ChainHead, ManifestHead, PullResponse};
use tidings_wire::{ChainIndex, Code, DeviceId, Hash, Incarnation, ManifestNumber, Position};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::scene::{Scene, app_of, row, table};

const STREAM: &str = "/api/sync/subscribe";

/// Plain pulls of an app.
fn pulls(asked: &[Asked], name: &str) -> usize {
    let app = app_of(name);
    asked.iter().filter(|asked| asked.is_plain_pull() && asked.app() == Some(app.clone())).count()
}

/// Streams that say the same piece many times and then end, the first time that one is opened;
/// later ones are quiet.
fn hints(piece: String, times: u64) -> Script {
    let opened = AtomicUsize::new(0);
    Script::new().answer(STREAM, move |_| match opened.fetch_add(1, Ordering::Relaxed) {
        0 => Answer::stream().pieces(Duration::from_millis(10), piece.clone(), times).ended(),
        _ => Answer::stream().pieces(Duration::from_millis(100), ": alive\n\n", 100_000),
    })
}

/// Waits until a device has heard a stream to its end, and has done what follows from it. Gives
/// what it asked, and how many streams it opened.
async fn heard_out(scene: &Scene, device: usize, mark: usize) -> (Vec<Asked>, usize) {
    eventually("a second stream", DEADLINE, async || {
        let asked = scene.evils[device].asked_since(mark);
        let opened = asked.iter().filter(|asked| asked.is(STREAM)).count();
        if opened >= 2 { Ok(()) } else { Err(opened) }
    })
    .await;
    scene.still(device).await;
    let asked = scene.evils[device].asked_since(mark);
    let opened = asked.iter().filter(|asked| asked.is(STREAM)).count();
    (asked, opened)
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_43_notify_abuse() {
    // No poll comes between: whatever is pulled is pulled for a stream or for a hint.
    let mut scene = Scene::with(&["author", "victim"], &["sync.poll=1h"]).await;
    let (table, photos) = (table("t"), app_of("photos"));
    scene.push(0, &table, "before", &row(0)).await;
    scene.push_in(0, &photos, &table, "photo", &row(0)).await;
    scene.sees(1, &table, "before").await;
    scene.sees_in(1, &photos, &table, "photo").await;
    scene.still(1).await;

    // 20,000 hints for one app in two seconds, ten thousand a second: they come together, and no
    // other app pays. A stream that opens has each app pulled once; one may be on its way.
    let flood = hints("event: changed\ndata: notes\n\n".repeat(100), 200);
    let mark = scene.play(1, flood);
    let (asked, opened) = heard_out(&scene, 1, mark).await;
    assert!(pulls(&asked, "notes") < 2_000, "{} pulls for hints", pulls(&asked, "notes"));
    let others = pulls(&asked, "photos");
    assert!(others <= opened + 1, "{others} pulls of another app for {opened} streams");
    scene.endures(1).await;

    // Hints for apps of nobody, for names that are none, and for another account's.
    let strange = "event: changed\ndata: nobody\n\nevent: changed\ndata: ../etc\n\n\
                   event: changed\ndata: \n\nevent: changed\n\nevent: what\ndata: notes\n\n"
        .repeat(50);
    // What was said before may still be on its way.
    scene.turn_honest(1);
    scene.still(1).await;
    let mark = scene.play(1, hints(strange, 100));
    let (asked, opened) = heard_out(&scene, 1, mark).await;
    for name in ["notes", "photos"] {
        let count = pulls(&asked, name);
        assert!(count <= opened + 1, "{count} pulls of {name} for {opened} streams");
    }
    assert_eq!(pulls(&asked, "nobody"), 0, "no work for an app that the account has not");
    scene.endures(1).await;
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_43_no_hints_at_all() {
    let settings = ["sync.poll=1s", "sync.stream_silence=60s"];
    let mut scene = Scene::with(&["author", "victim"], &settings).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // The stream lives and says nothing: the poll finds what is new.
    let quiet = Script::new().answer(STREAM, |_| {
        Answer::stream().pieces(Duration::from_millis(100), ": alive\n\n", 100_000)
    });
    scene.play(1, quiet);
    scene.push(0, &table, "polled", &row("polled")).await;
    scene.sees(1, &table, "polled").await;
    scene.endures(1).await;
    scene.holds().await;
}

/// Plays a stream that is of no use, and asserts that rows come all the same and that no memory
/// is lost to it.
async fn useless_stream(settings: &[&str], stream: impl Fn() -> Answer + Send + Sync + 'static) {
    let settings: Vec<&str> = ["sync.poll=1s", "sync.healthy_after=60s"]
        .into_iter()
        .chain(settings.iter().copied())
        .collect();
    let mut scene = Scene::with(&["author", "victim"], &settings).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    let before = scene.devices[1].process().peak_memory();
    scene.play(1, Script::new().answer(STREAM, move |_| stream()));
    for n in 0..3 {
        scene.push(0, &table, &format!("r{n}"), &row(n)).await;
        scene.sees(1, &table, &format!("r{n}")).await;
    }
    scene.endures(1).await;
    let grown = scene.devices[1].process().peak_memory().saturating_sub(before);
    assert!(grown < 64 << 20, "the daemon grew by {grown} bytes");
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_44_endless_line() {
    useless_stream(&[], || {
        Answer::stream().then("event: changed\ndata: ").pieces(
            Duration::ZERO,
            Bytes::from(vec![b'a'; 64 << 10]),
            100_000,
        )
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_44_endless_event() {
    useless_stream(&[], || {
        let line = "data: notes\n".repeat(5_000);
        Answer::stream().pieces(Duration::ZERO, line, 100_000)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_44_bad_text() {
    useless_stream(&["sync.retry_after_max=200ms"], || {
        let mut text = b"event: \xff\xfe\ndata: \xc3\x28\n\n".to_vec();
        text.extend_from_slice(b"\r\r\n\n\r:\r\n\r\nretry: -1\nretry: 99999999999999999999\n\n");
        text.extend_from_slice(b"event: changed\r\rdata: notes\r\n\r\nid: \0\n\n\xef\xbb\xbf:\n\n");
        text.extend_from_slice(b"event: reauth\ndata: {\"reason\":\"so\"}\n\n");
        Answer::stream().pieces(Duration::from_millis(20), text, 1_000).ended()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_44_drops_of_bytes() {
    // A byte now and then, of a line that never ends: life, but no news.
    useless_stream(&[], || Answer::stream().pieces(Duration::from_millis(200), "d", 100_000)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_44_held_back() {
    // Not one byte: something on the way holds them back, so it is polled more often.
    let settings = ["sync.poll=20s", "sync.stream_first_bytes=300ms", "sync.stream_silence=60s"];
    useless_stream(&settings, Answer::stream).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_44_silent_stream() {
    // It falls silent after its first words: it is dead after a while, and opened anew.
    let settings = ["sync.poll=20s", "sync.stream_silence=500ms"];
    useless_stream(&settings, || Answer::stream().then(": hello\n\n")).await;
}

/// Plays answers to pulls that are bombs, and asserts that they cost little and stop nothing.
async fn bomb(script: Script) {
    let mut scene = Scene::with(&["author", "victim"], &["sync.transfer_timeout=20s"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    let before = scene.devices[1].process().peak_memory();
    let mark = scene.play(1, script);
    eventually("three bombs", DEADLINE, async || {
        let seen = scene.evils[1].asked_since(mark).len();
        if seen >= 4 { Ok(()) } else { Err(seen) }
    })
    .await;
    scene.endures(1).await;
    let grown = scene.devices[1].process().peak_memory().saturating_sub(before);
    // Twice the largest answer that is read, and what else a daemon of a test build does.
    assert!(grown < 160 << 20, "the daemon grew by {} MiB", grown >> 20);
    scene.holds().await;
}

const PULL: &str = "/api/sync/pull";
const CBOR: &str = "application/cbor";
const MIB: usize = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn attack_46_a_gibibyte() {
    // One half says how long it will be, the other does not.
    let count = AtomicUsize::new(0);
    let piece = Bytes::from(vec![0; MIB]);
    bomb(Script::new().answer(PULL, move |_| {
        let answer =
            Answer::new(StatusCode::OK, CBOR, "").pieces(Duration::ZERO, piece.clone(), 1024);
        match count.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => answer.header("content-length", &(1_u64 << 30).to_string()),
            _ => answer,
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_46_lists_without_end() {
    // Lists that announce much, or hold a million of nothing.
    let count = AtomicUsize::new(0);
    bomb(Script::new().answer(PULL, move |_| {
        let body = match count.fetch_add(1, Ordering::Relaxed) % 4 {
            0 => {
                [&[0x8f, 0x50][..], &[0; 16], &[0x9b, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]].concat()
            }
            1 => [&[0x9a, 0, 0x1e, 0x84, 0x80][..], &[0x80; 2_000_000]].concat(),
            2 => vec![0x81; 8 * MIB],
            _ => vec![0xbf; 8 * MIB],
        };
        Answer::new(StatusCode::OK, CBOR, body)
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_46_a_million_manifests() {
    bomb(Script::new().pages(|_, page| {
        let head = ManifestHead {
            device: DeviceId([3; 16]),
            incarnation: Incarnation([0; 8]),
            n: ManifestNumber(1),
            hash: Hash::ZERO,
        };
        page.manifest_heads = vec![head; 500_000];
        page.manifests = vec![Vec::new().into(); 500_000];
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_46_a_long_chain_of_nothing() {
    let entries: Vec<String> = vec!["AAAA".to_owned(); 1_000_000];
    bomb(Script::new().after(move |asked, answer| {
        let head = ChainHead { index: ChainIndex(1_000_000), hash: Hash([9; 32]) };
        if asked.is("/api/chain") {
            answer.write_json(&serde_json::json!({ "entries": entries, "head": head }));
        } else if let Some(mut page) =
            asked.is(PULL).then(|| answer.read_cbor::<PullResponse>()).flatten()
        {
            page.chain = head;
            answer.write_cbor(&page);
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_46_deep_json() {
    bomb(Script::new().before(|asked| {
        let nested = || Answer::new(StatusCode::OK, "application/json", "[".repeat(4 * MIB));
        match asked.path.as_str() {
            "/api/sync/apps" | "/api/chain" | PULL => nested().into(),
            _ => tidings_tests::evil::Turn::Pass,
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_46_a_compressed_bomb() {
    bomb(Script::new().after(|asked, answer| {
        if asked.is(PULL) {
            *answer = answer.clone().header("content-encoding", "gzip");
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_46_headers_without_end() {
    bomb(Script::new().answer(PULL, |_| {
        Answer::new(StatusCode::OK, CBOR, "").header("x-bomb", &"b".repeat(4 * MIB))
    }))
    .await;
}

/// A place that nobody must ever be sent to: counts who came.
struct Trap {
    address: SocketAddr,
    visits: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl Trap {
    async fn set() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let visits = Arc::new(AtomicUsize::new(0));
        let (mut task, count) = (JoinSet::new(), Arc::clone(&visits));
        task.spawn(async move {
            while listener.accept().await.is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { address, visits, _task: task }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_48_redirects() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    let trap = Trap::set().await;
    let targets = Mutex::new((0, trap.address));
    let everywhere = Script::new().before(move |asked| {
        let mut targets = targets.lock().unwrap();
        targets.0 += 1;
        let status = [301, 302, 303, 307, 308][targets.0 % 5];
        let target = match targets.0 % 3 {
            0 => format!("http://{}{}?{}", targets.1, asked.path, asked.query),
            1 => format!("http://localhost:{}/", targets.1.port()),
            _ => "http://169.254.169.254/latest/meta-data/".to_owned(),
        };
        Answer::redirect(StatusCode::from_u16(status).unwrap(), &target).into()
    });
    let mark = scene.play(1, everywhere);
    // From the first request after a start to the last.
    scene.devices[1].stop();
    scene.devices[1].resume().await;
    eventually("it was sent elsewhere again and again", DEADLINE, async || {
        let asked = scene.evils[1].asked_since(mark).len();
        if asked >= 8 { Ok(()) } else { Err(asked) }
    })
    .await;
    scene.endures(1).await;
    assert_eq!(trap.visits.load(Ordering::Relaxed), 0, "it followed a redirect");
    let status = scene.devices[1].status().await;
    assert_eq!(status.state, tidings_wire::local::SyncState::Offline, "{status:?}");
    assert!(status.reason.as_deref().is_some_and(|why| why.contains("redirect")), "{status:?}");
    scene.holds().await;
    assert_eq!(trap.visits.load(Ordering::Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_12_every_refusal_there_is() {
    let settings = ["sync.poll=1s", "sync.retry_after_max=100ms", "sync.backoff_max=100ms"];
    let mut scene = Scene::with(&["author", "victim"], &settings).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // Downgrades, revocations, forks, quotas: the server says each of them to every call, and has
    // no proof of any.
    for (n, code) in Code::ALL.iter().enumerate() {
        let mark = scene.play(1, Script::new().before(|_| Answer::problem(*code).into()));
        scene.put(1, &table, &format!("r{n}"), &row(code.as_str())).await;
        eventually("it is refused again and again", DEADLINE, async || {
            let asked = scene.evils[1].asked_since(mark).len();
            if asked >= 3 { Ok(()) } else { Err(format!("{code}: {asked} calls")) }
        })
        .await;
        scene.sees(1, &table, "before").await;
    }
    scene.endures(1).await;
    assert_eq!(scene.devices[1].devices().await.devices.len(), 2);
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_29_metadata_tampering() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // Times, positions, heads and cursors are the server's own: none of them decides what is shown.
    scene.play(
        1,
        Script::new().pages(|_, page| {
            for entry in &mut page.entries {
                entry.received_ms = u64::MAX;
                entry.position = Position(u64::MAX - entry.position.0);
            }
            page.head = Position(1);
            page.position = Position(u64::MAX);
            page.part = u32::MAX;
            page.cursor = vec![0xff; 100].into();
        }),
    );
    for n in 0..3 {
        scene.push(0, &table, &format!("r{n}"), &row(n)).await;
        scene.push(0, &table, "before", &row(n)).await;
    }
    scene.endures(1).await;
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_30_time_tampering() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    for (n, time) in [0, 4_102_444_800_000, u64::MAX].into_iter().enumerate() {
        let lies = Script::new().pages(move |_, page| {
            page.now_ms = time;
            for entry in &mut page.entries {
                entry.received_ms = time;
            }
        });
        scene.play(1, lies);
        scene.push(0, &table, &format!("r{n}"), &row(n)).await;
        scene.sees(1, &table, &format!("r{n}")).await;
        // Whatever it says, a write made after seeing another wins.
        scene.push(1, &table, &format!("r{n}"), &row("later")).await;
        scene.sees(0, &table, &format!("r{n}")).await;
        scene.push(0, &table, &format!("r{n}"), &row("latest")).await;
        scene.sees(1, &table, &format!("r{n}")).await;
    }
    scene.endures(1).await;
    scene.holds().await;
}
