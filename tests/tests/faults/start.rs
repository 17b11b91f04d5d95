//! Starts: two daemons on one home, a stale socket and twenty starts at once, a store that a newer
//! program wrote.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;
use tidings_tests::{DEADLINE, Device, Process, Server};
use tidings_wire::AppId;

/// Every file below a directory with its bytes; not the lock and the name of its last holder.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(contents(&entry.path()));
        } else if kind.is_file() && !entry.file_name().to_string_lossy().starts_with("LOCK") {
            found.insert(entry.path(), std::fs::read(entry.path()).unwrap());
        }
    }
    found
}

/// Makes the store look as if a program of the year 2031 had written it.
fn make_newer(store: &Path) {
    let marker = store.join("STORE");
    let text = std::fs::read_to_string(&marker).unwrap();
    let mut lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("tidings-store ") && lines[1].starts_with("written-by "));
    lines[0] = "tidings-store 99";
    lines[1] = "written-by 31.4.0";
    std::fs::write(&marker, lines.join("\n") + "\n").unwrap();
}

/// It ends with 78, says both versions, and leaves every byte as it is.
fn refuses_newer(name: &str, command: &mut std::process::Command, store: &Path) {
    let before = contents(store);
    let (status, said) = Process::start(name, command).finished(DEADLINE);
    assert_eq!(status.code(), Some(78), "{name}: {said}");
    for part in ["31.4.0", env!("CARGO_PKG_VERSION")] {
        assert!(said.contains(part), "{name} does not name {part}: {said}");
    }
    let after = contents(store);
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>(), "{name}");
    let changed: Vec<_> = before.keys().filter(|&path| before[path] != after[path]).collect();
    assert!(changed.is_empty(), "{name} changed {changed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f20_two_daemons_on_one_home() {
    let app: AppId = "notes".parse().unwrap();
    let mut first = Device::start("first").await;
    first.put(&app, "t", "r", &json!({ "v": 1 })).await;
    let second = Process::start("second", &mut first.daemon_command());
    let (status, said) = second.finished(DEADLINE);
    assert_eq!(status.code(), Some(0), "there is a daemon, which was wanted: {said}");
    let pid = first.process().id().to_string();
    let socket = first.socket();
    for part in ["already running", &pid, socket.to_str().unwrap()] {
        assert!(said.contains(part), "it does not say {part}: {said}");
    }
    // The first was not disturbed.
    first.row_becomes(&app, "t", "r", &json!({ "id": "r", "v": 1 })).await;
    assert_eq!(first.client().ping().await.unwrap().pid.to_string(), pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn f21_twenty_starts_over_a_stale_socket() {
    let mut device = Device::start("killed").await;
    device.kill();
    assert!(device.socket().exists());
    let mut starts: Vec<_> = (0..20)
        .map(|number| Process::start(format!("start {number}"), &mut device.daemon_command()))
        .collect();
    // Nineteen find one that runs, and go in peace.
    let ended = tidings_tests::eventually("nineteen have ended", DEADLINE, async || {
        let running = starts.iter_mut().filter_map(|start| start.runs().then_some(())).count();
        if running == 1 { Ok(()) } else { Err(format!("{running} run")) }
    });
    ended.await;
    let running = starts.iter_mut().position(Process::runs).unwrap();
    let mut winner = starts.swap_remove(running);
    for start in starts {
        let (status, said) = start.finished(DEADLINE);
        assert_eq!(status.code(), Some(0), "{said}");
        assert!(said.contains("already running"), "{said}");
    }
    tidings_tests::eventually("the one answers", DEADLINE, async || {
        device.client().ping().await.map(|answer| assert_eq!(answer.pid, winner.id()))
    })
    .await;
    winner.stop(DEADLINE);
}

#[tokio::test(flavor = "multi_thread")]
async fn f30_a_newer_store_is_refused_and_left_alone_by_the_daemon() {
    let mut device = Device::start("older").await;
    device.stop();
    let store = device.home().join("store");
    make_newer(&store);
    refuses_newer("tidings daemon", &mut device.daemon_command(), &store);
}

#[test]
fn f30_a_newer_store_is_refused_and_left_alone_by_the_server() {
    for engine in ["sled", "redb"] {
        let mut server = Server::over(engine, &[]);
        server.stop();
        make_newer(&server.store_dir());
        let serve = &mut server.command(&["serve", "--listen", "127.0.0.1:0"]);
        refuses_newer(engine, serve, &server.store_dir());
        let invite = &mut server.command(&["invite", "create"]);
        refuses_newer(engine, invite, &server.store_dir());
    }
}
