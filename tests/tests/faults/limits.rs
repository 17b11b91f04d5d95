//! Too much of everything: files, connections, bytes, depth.

use std::os::unix::net::UnixStream;

use serde_json::json;
use tidings_tests::apart::behind;
use tidings_tests::hand::zstd;
use tidings_tests::{DEADLINE, Device, Hand, House, Server, eventually, within};
use tidings_wire::local::SyncState;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{alarms, doctor, finds, notes};

/// Apps take every connection that there is: those that stand go on, sync goes on, and when they
/// leave the next one gets in.
#[tokio::test(flavor = "multi_thread")]
async fn f22_the_daemon_runs_out_of_files() {
    let app = notes();
    let server = Server::start();
    let mut a = Device::new("a");
    a.resume_with(|command| behind(command, ["prlimit", "--nofile=64:64"])).await;
    a.create_account(&server.url()).await;
    let b = Device::start("b").await;
    a.link(&b, &server.url()).await;
    a.put(&app, "t", "first", &json!({})).await;
    b.rows_become(&app, "t", 1).await;
    let mut follower = a.follow(&app, "t").await;

    let flood: Vec<_> = (0..200).map_while(|_| UnixStream::connect(a.socket()).ok()).collect();
    assert!(flood.len() >= 64, "only {} got to the door", flood.len());
    let files = format!("/proc/{}/fd", a.process().id());
    eventually("the daemon has as many as it takes", DEADLINE, async || {
        let open = std::fs::read_dir(&files).map_or(0, Iterator::count);
        if open >= 40 { Ok(()) } else { Err(format!("{open} are open")) }
    })
    .await;
    // An app that is there hears what another computer writes, so the sync has files too.
    b.put(&app, "t", "of b", &json!({})).await;
    assert_eq!(follower.change().await.row_id, "of b");
    assert!(a.process().runs());
    drop(flood);
    a.put(&app, "t", "of a", &json!({})).await;
    b.rows_become(&app, "t", 3).await;
    assert_eq!(a.status().await.state, SyncState::Synced);
}

/// Hundreds that dawdle at the server's door, and streams that nobody reads: others notice nothing.
#[tokio::test(flavor = "multi_thread")]
async fn f23_connections_that_dawdle() {
    let app = notes();
    let server = Server::with(&["timeouts.header=2s"]);
    let mut dawdling = Vec::new();
    for _ in 0..300 {
        let mut stream = within("a connection", DEADLINE, TcpStream::connect(server.address()))
            .await
            .expect("a connection");
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ").await.unwrap();
        dawdling.push(stream);
    }
    let house = House::of(server, None, ["a", "b"].map(Device::new)).await;
    let (a, b) = (house.device(0), house.device(1));
    let mut follower = b.follow(&app, "t").await;
    for n in 0..10 {
        a.put(&app, "t", &format!("r{n}"), &json!({})).await;
        assert_eq!(follower.change().await.row_id, format!("r{n}"));
    }
    // And they are shown out.
    for mut stream in dawdling {
        let mut rest = Vec::new();
        let read = within("the end of a dawdler", DEADLINE, stream.read_to_end(&mut rest)).await;
        assert!(read.is_err() || rest.starts_with(b"HTTP/1.1 4") || rest.is_empty());
    }
}

/// What is too large or too deep is refused at the app's own door, with the limit in words.
#[tokio::test(flavor = "multi_thread")]
async fn f24_f25_rows_that_are_too_large_or_too_deep() {
    let app = notes();
    let device = Device::start("a").await;
    device.put(&app, "t", "sound", &json!({ "v": 1 })).await;
    let dir = tempfile::tempdir().unwrap();
    let deep = format!("{{\"v\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000));
    let large = json!({ "v": "x".repeat(300 << 10) }).to_string();
    for (what, body, code, words) in [
        ("deep", deep, "request.too_deep", "levels"),
        ("large", large, "request.too_large", "262144"),
    ] {
        let path = format!("/v1/apps/{app}/tables/t/rows/{what}");
        let sent = device.send_raw(http::Method::PUT, &path, body.clone().into_bytes()).await;
        let Err(tidings_client::local::LocalError::Problem { problem, .. }) = sent else {
            panic!("{what}: {sent:?}")
        };
        assert_eq!(problem.code.as_str(), code, "{problem}");
        assert!(problem.message.contains(words), "{problem}");
        let file = dir.path().join(what);
        std::fs::write(&file, &body).unwrap();
        let (ended, said) =
            device.run(&["--app", "notes", "put", "t", &format!("@{}", file.display())]);
        assert!(!ended.success(), "{what}: {said}");
        assert!(said.contains("Nothing was changed."), "{what}: {said}");
    }
    assert_eq!(device.rows(&app, "t").await.len(), 1);
}

/// A gibibyte of zeros in a valid seal: it lies in quarantine, the person is told, memory stays
/// flat, and sync goes on.
#[tokio::test(flavor = "multi_thread")]
async fn f26_a_bomb_inside_a_valid_seal() {
    let app = notes();
    let server = Server::start();
    let mut device = Device::start("a").await;
    device.create_account(&server.url()).await;
    let mut hand = Hand::join(&device, &server.url()).await;
    hand.push(&app, "t", &[("first", json!({}))]).await;
    device.rows_become(&app, "t", 1).await;
    let mut encoder = ::zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    for _ in 0..1 << 10 {
        std::io::Write::write_all(&mut encoder, &[0; 1 << 20]).unwrap();
    }
    let request = hand.seal(&app, &[("t", zstd(&encoder.finish().unwrap()))]);
    let before = peak(device.process().id());
    hand.client().push(&app, &request).await.unwrap();
    let told = device.status_until("it is told", |status| alarms(status) == ["bad_blob"]).await;
    assert_eq!(told.apps[0].quarantined, 1);
    hand.push(&app, "t", &[("last", json!({}))]).await;
    device.rows_become(&app, "t", 2).await;
    let after = peak(device.process().id());
    assert!(after < before + (16 << 10), "{before} KiB before, {after} KiB after");
    // Fresh, but not everything: both are said.
    let synced = device.synced().await;
    assert!(synced.reason.unwrap().contains("1 changes of notes"));
    let (code, found) = doctor(&device);
    assert_ne!(code, 0);
    finds(&found, "app", &["notes", "do not open", "they are kept"]);
}

/// The most memory that a process has ever held, in KiB (proc(5)).
fn peak(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
