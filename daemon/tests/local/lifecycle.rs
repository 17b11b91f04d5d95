//! Starting and stopping: one daemon per home, sockets left behind, a newer store, kill -9.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use tidings_daemon::daemon::StartError;

use crate::support::{Start, home_in};

#[tokio::test]
async fn a_second_daemon_leaves_the_first_alone() {
    let daemon = Start::default().fresh().await;
    let refused = Start::default().in_home(daemon.home.clone()).await.err().unwrap();
    let text = refused.to_string();
    assert!(matches!(refused, StartError::AlreadyRunning { .. }), "{text}");
    assert_eq!(refused.exit_code(), 0);
    assert!(text.contains(&format!("already running, pid {}", std::process::id())), "{text}");
    assert!(text.contains(daemon.socket().to_str().unwrap()), "{text}");
    daemon.get("/v1/ping").send().await.ok();
    daemon.stop().await;
}

#[tokio::test]
async fn of_many_starts_at_once_one_wins() {
    let dir = tempfile::tempdir().unwrap();
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let home = home_in(dir.path());
        starts.spawn(async move { Start::default().in_home(home).await });
    }
    let mut running = Vec::new();
    while let Some(start) = starts.join_next().await {
        match start.unwrap() {
            Ok(daemon) => running.push(daemon),
            Err(error) => assert!(matches!(error, StartError::AlreadyRunning { .. }), "{error}"),
        }
    }
    assert_eq!(running.len(), 1);
    let daemon = running.pop().unwrap();
    daemon.get("/v1/ping").send().await.ok();
    daemon.stop().await;
}

#[tokio::test]
async fn a_foreign_file_at_the_socket_s_path_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let home = home_in(dir.path());
    home.create().unwrap();
    fs::write(home.socket(), "precious").unwrap();
    let refused = Start::default().in_home(home.clone()).await.err().unwrap();
    assert_eq!(refused.exit_code(), 78);
    assert!(refused.to_string().contains("is a file, not a socket"), "{refused}");
    assert_eq!(fs::read(home.socket()).unwrap(), b"precious");
    // Nothing that was left blocks the next start.
    fs::remove_file(home.socket()).unwrap();
    let daemon = Start::default().in_home(home).await.unwrap();
    let found = fs::metadata(daemon.socket()).unwrap();
    assert_eq!(found.mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(daemon.home.data()).unwrap().mode() & 0o777, 0o700);
    daemon.stop().await;
}

#[tokio::test]
async fn a_newer_store_is_left_as_it_is() {
    let daemon = Start::default().fresh().await;
    daemon.post("/v1/apps/a/tables/t/rows", r#"{"id":"1"}"#).send().await.ok();
    let home = daemon.home.clone();
    let dir = daemon.stop().await;
    let marker = home.store().join("STORE");
    let text = fs::read_to_string(&marker).unwrap();
    assert!(text.starts_with("tidings-store 1\n"), "{text}");
    fs::write(&marker, text.replacen("tidings-store 1\n", "tidings-store 2\n", 1)).unwrap();
    let contents = |home: &std::path::Path| {
        let mut files: Vec<_> = fs::read_dir(home.join("store"))
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_name() != "LOCK" && entry.file_type().unwrap().is_file())
            .map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()))
            .collect();
        files.sort();
        files
    };
    let before = contents(home.data());
    let refused = Start::default().in_home(home.clone()).await.err().unwrap();
    assert_eq!(refused.exit_code(), 78, "{refused}");
    assert!(refused.to_string().contains("version 2"), "{refused}");
    assert_eq!(contents(home.data()), before);
    drop(dir);
}

#[tokio::test]
async fn a_setting_that_does_not_exist_is_refused_at_start() {
    let dir = tempfile::tempdir().unwrap();
    let home = home_in(dir.path());
    home.create().unwrap();
    fs::write(home.config(), "[api]\nstreams_per_ap = 3\n").unwrap();
    let refused = Start::default().in_home(home.clone()).await.err().unwrap();
    assert!(refused.to_string().contains("did you mean `api.streams_per_app`?"), "{refused}");
    fs::write(home.config(), "[api]\nstreams_per_app = 3\n").unwrap();
    Start::default().in_home(home).await.unwrap().stop().await;
}

#[tokio::test]
async fn a_request_that_never_ends_does_not_hold_up_the_end() {
    use tokio::io::AsyncWriteExt as _;
    let daemon = Start::default().set("api.drain", "300ms").fresh().await;
    let mut open = tokio::net::UnixStream::connect(daemon.socket()).await.unwrap();
    let head = format!(
        "POST /v1/apps/a/tables/t/rows HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{{",
        daemon.token
    );
    open.write_all(head.as_bytes()).await.unwrap();
    daemon.get("/v1/ping").send().await.ok();
    let socket = daemon.socket().to_owned();
    let home = daemon.home.clone();
    let dir = daemon.stop().await;
    assert!(!socket.exists(), "the socket goes with the daemon");
    Start::default().in_home(home).await.unwrap().stop().await;
    drop(dir);
}
