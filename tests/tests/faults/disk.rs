//! Disks that are full, and disks that take no writes any more.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;
use tidings_client::local::LocalError;
use tidings_tests::apart::{behind, inside, need_root, on_disk, on_image, remount};
use tidings_tests::{DEADLINE, Device, House, Process, Server, eventually};
use tidings_wire::local::{StatusAnswer, SyncState};

use super::{alarms, doctor, finds, notes, status};

/// Small enough to be filled in no time, and larger than a store's reserve.
const SMALL: &str = "size=64m";

/// Fills a disk that a program sees at a directory; gives the file to remove.
fn fill(process: u32, dir: &std::path::Path) -> std::path::PathBuf {
    let filler = inside(process, dir).join("filler");
    // As full as the system lets it be.
    let _ = std::fs::write(&filler, vec![1; 64 << 20]);
    filler
}

/// What a server answers to a plain request of a monitor.
fn ask(server: &Server, path: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The refusal of a local write.
async fn refused(device: &Device, id: &str) -> (u16, String) {
    match device.client().put(&notes(), "t", id, &json!({ "v": 1 }), None).await {
        Err(LocalError::Problem { status, problem, .. }) => {
            (status, problem.code.as_str().to_owned())
        }
        other => panic!("{other:?}"),
    }
}

/// The server's disk is full: writes wait and say why, reading goes on, and room is enough to heal.
#[tokio::test(flavor = "multi_thread")]
async fn f04_the_servers_disk_is_full() {
    let app = notes();
    let mut server = Server::start();
    server.stop();
    let dir = server.store_dir();
    std::fs::remove_dir_all(&dir).unwrap();
    server.resume_with(|command| on_disk(command, &dir, SMALL));
    let device = |name| Device::new(name).set("sync.retry_after_max=200ms").set("sync.poll=500ms");
    let mut house = House::of(server, None, [device("a"), device("b")]).await;
    let (a, b) = (house.device(0), house.device(1));
    a.put(&app, "t", "before", &json!({})).await;
    b.rows_become(&app, "t", 1).await;
    let pid = house.server.process().id();
    let filler = fill(pid, &dir);

    let (a, b) = (house.device(0), house.device(1));
    a.put(&app, "t", "during", &json!({})).await;
    let waits = |status: &StatusAnswer| {
        let reason = status.reason.clone().unwrap_or_default();
        status.state == SyncState::Waiting && reason.contains("the server's disk is full")
    };
    a.status_until("it waits for the server's disk", waits).await;
    let (code, found) = doctor(a);
    assert_eq!(code, 4, "{found:?}");
    finds(&found, "sync", &["the server's disk is full"]);
    assert_eq!(a.row(&app, "t", "during").await, json!({ "id": "during" }).as_object().cloned());
    let ready = ask(&house.server, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 507") && ready.contains("retry-after: "), "{ready}");
    // Who reads is told that what it has is fresh, and how fresh.
    let proven = b.status().await.proven_at;
    b.status_until("b goes on reading", |status| {
        status.proven_at > proven && status.state == SyncState::Synced
    })
    .await;

    std::fs::remove_file(filler).unwrap();
    b.rows_become(&app, "t", 2).await;
    a.synced().await;
    let ready = ask(&house.server, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 200"), "{ready}");
}

/// This computer's disk is full: apps are refused in words, nothing is half stored, reading goes
/// on, the person is told once, and room is enough to heal.
#[tokio::test(flavor = "multi_thread")]
async fn f05_this_computers_disk_is_full() {
    let app = notes();
    let server = Server::start();
    let mut a = Device::new("a");
    let store = a.home().join("store");
    a.resume_with(|command| on_disk(command, &store, SMALL)).await;
    a.create_account(&server.url()).await;
    let b = Device::start("b").await;
    a.link(&b, &server.url()).await;
    a.put(&app, "t", "before", &json!({ "v": 1 })).await;
    b.rows_become(&app, "t", 1).await;
    let filler = fill(a.process().id(), &store);

    assert_eq!(refused(&a, "during").await, (507, "storage.full".to_owned()));
    let full = a.status_until("degraded", |status| status.state == SyncState::Degraded).await;
    let path = store.to_str().unwrap();
    assert!(full.reason.unwrap().contains(path));
    assert_eq!(full.alarms.iter().filter(|alarm| alarm.code == "disk_full").count(), 1);
    assert_eq!(status(&a)["state"], "degraded");
    let (code, found) = doctor(&a);
    assert_ne!(code, 0);
    finds(&found, "store", &["does not take writes"]);
    finds(&found, "sync", &["degraded", path, "free some space"]);
    let (ended, said) = a.run(&["--app", "notes", "put", "t", "{}", "--id", "during"]);
    assert_eq!(ended.code(), Some(1), "{said}");
    assert!(said.contains("The change was not stored"), "{said}");
    // Again and again, and still no half row, and what was there is there.
    for _ in 0..20 {
        assert_eq!(refused(&a, "before").await.0, 507);
    }
    b.put(&app, "t", "of b", &json!({})).await;
    let rows = a.rows(&app, "t").await;
    assert_eq!(rows, [json!({ "id": "before", "v": 1 }).as_object().cloned().unwrap()]);

    std::fs::remove_file(filler).unwrap();
    a.rows_become(&app, "t", 2).await;
    let healed = a.synced().await;
    assert_eq!(alarms(&healed), [""; 0]);
    a.put(&app, "t", "after", &json!({})).await;
    b.rows_become(&app, "t", 3).await;
}

/// No more files may be made on this computer's disk: a write is stored whole or refused.
#[tokio::test(flavor = "multi_thread")]
async fn f05_this_computers_disk_takes_no_more_files() {
    let app = notes();
    let mut a = Device::new("a");
    let store = a.home().join("store");
    a.resume_with(|command| on_disk(command, &store, "size=64m,nr_inodes=24")).await;
    a.put(&app, "t", "before", &json!({})).await;
    let seen = inside(a.process().id(), &store);
    let fillers = (0..100).map(|n| seen.join(format!("filler{n}")));
    let fillers: Vec<_> = fillers.take_while(|filler| std::fs::write(filler, []).is_ok()).collect();
    assert!(fillers.len() < 100, "the disk never got full");
    let mut stored = 1;
    for n in 0..50 {
        let written = a.client().put(&app, "t", &format!("r{n}"), &json!({}), None).await;
        match written {
            Ok(_) => stored += 1,
            Err(LocalError::Problem { status: 507, .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(a.rows(&app, "t").await.len(), stored);
    for filler in fillers {
        std::fs::remove_file(filler).unwrap();
    }
    eventually("it takes writes", DEADLINE, async || {
        a.client().put(&app, "t", "after", &json!({}), None).await
    })
    .await;
    assert!(a.process().runs());
}

/// The file system turns read-only under the daemon: it goes on reading, names the path, and is
/// not started over and over.
#[tokio::test(flavor = "multi_thread")]
async fn f07_the_disk_turns_read_only() {
    let app = notes();
    let server = Server::start();
    let mut a = Device::new("a");
    let store = a.home().join("store");
    a.resume_with(|command| on_image(command, &store, 64)).await;
    a.create_account(&server.url()).await;
    let b = Device::start("b").await;
    a.link(&b, &server.url()).await;
    a.put(&app, "t", "before", &json!({})).await;
    b.rows_become(&app, "t", 1).await;
    a.synced().await;
    // As the kernel does after an error: files that are open for writing do not keep it from it.
    remount(a.process().id(), &store, "remount,abort");

    let (code, name) = refused(&a, "during").await;
    assert_eq!((code, name.as_str()), (503, "store.unavailable"));
    let seen = a.status_until("degraded", |status| status.state == SyncState::Degraded).await;
    let path = store.to_str().unwrap();
    assert!(seen.reason.as_ref().unwrap().contains(path), "{seen:?}");
    assert_eq!(alarms(&seen), ["disk_read_only"]);
    let (code, found) = doctor(&a);
    assert_ne!(code, 0);
    finds(&found, "sync", &["degraded", path, "make it writable"]);
    // What comes cannot be stored, and what is here is read.
    b.put(&app, "t", "of b", &json!({})).await;
    assert_eq!(refused(&a, "again").await.0, 503);
    assert_eq!(a.rows(&app, "t").await.len(), 1);
    assert!(a.process().runs(), "a restart would not help");
    assert_eq!(a.status().await.state, SyncState::Degraded);
}

/// A start on a read-only disk says so once and asks not to be repeated.
#[tokio::test(flavor = "multi_thread")]
async fn f07_a_start_on_a_read_only_disk() {
    need_root();
    let app = notes();
    let mut device = Device::start("a").await;
    device.put(&app, "t", "r", &json!({})).await;
    device.stop();
    let store = device.home().join("store");
    let mut command = device.daemon_command();
    const SCRIPT: &str = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && shift && \
                          exec \"$@\"";
    let path = store.to_str().unwrap();
    behind(&mut command, ["unshare", "--mount", "sh", "-c", SCRIPT, "sh", path]);
    let (ended, said) = Process::start("on a read-only disk", &mut command).finished(DEADLINE);
    assert_eq!(ended.code(), Some(78), "{said}");
    assert!(said.contains(path) && said.contains("Read-only file system"), "{said}");
    // Nothing of it stays in the way once the disk is writable.
    device.resume().await;
    assert_eq!(device.rows(&app, "t").await.len(), 1);
}

/// A start without the right to write says so once and asks not to be repeated.
#[tokio::test(flavor = "multi_thread")]
async fn f07_a_start_without_the_right_to_write() {
    use std::os::unix::fs::{PermissionsExt, chown};

    need_root();
    const NOBODY: u32 = 65_534;
    let mut device = Device::start("a").await;
    device.stop();
    let (home, store) = (device.home(), device.home().join("store"));
    chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
    let parent = home.parent().unwrap();
    std::fs::set_permissions(parent, std::fs::Permissions::from_mode(0o711)).unwrap();
    // Programs of a build may lie where only their owner gets.
    let program = parent.join("tidings");
    std::fs::copy(tidings_tests::programs::tidings(), &program).unwrap();
    let mut command = tidings_tests::process::command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    command.env("HOME", parent).arg("--home").arg(&home).arg("daemon");
    let (ended, said) = Process::start("as nobody", &mut command).finished(DEADLINE);
    assert_eq!(ended.code(), Some(78), "{said}");
    let named = said.contains(store.to_str().unwrap());
    assert!(named && said.contains("Permission denied"), "{said}");
}
