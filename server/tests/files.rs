//! Open files: streams count against what the process may open, leave some spare, give them back,
//! and when there are none left nothing spins.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::cli::Running;
use crate::fixture::reader::{Reader, subscribe};
use crate::fixture::{Session, within};

/// A server that may open so many files.
fn server(dir: &Path, files: u64) -> Running {
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={files}:{files}")).arg(env!("CARGO_BIN_EXE_tidings-server"));
    command.env("HOME", dir);
    Running::under(command, &["--store", "memory:", "--set", "registration=open"])
}

fn open_files(server: &Running) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.child.id())).unwrap().count()
}

/// Time on the processor so far, in hundredths of a second (proc(5): fields 14 and 15).
fn ticks(server: &Running) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum()
}

async fn connect(server: &Running) -> TcpStream {
    let address = server.url.strip_prefix("http://").unwrap();
    within(TcpStream::connect(address)).await.unwrap()
}

/// Opens a stream, unless the server refuses the connection with 503.
async fn try_open(server: &Running, session: &Session, app: &str) -> Option<Reader<TcpStream>> {
    let mut socket = connect(server).await;
    // It may be closed already.
    let _ = socket.write_all(subscribe(session, app).as_bytes()).await;
    let mut first = [0; 12];
    within(socket.read_exact(&mut first)).await.ok()?;
    let status = std::str::from_utf8(&first).unwrap();
    if status != "HTTP/1.1 200" {
        assert_eq!(status, "HTTP/1.1 503");
        return None;
    }
    let mut reader = Reader::new(socket);
    reader.until(": connected\n\n").await;
    Some(reader)
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::fixture::DEADLINE, waiting).await.expect(what);
}

#[tokio::test]
async fn streams_leave_files_spare_and_give_theirs_back() {
    const FILES: u64 = 256;
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path(), FILES);
    let a = crate::fixture::session::create(&server.client(), None).await;
    let before = open_files(&server);
    let mut open = Vec::new();
    // Three per app, so that no other limit is in the way.
    while let Some(reader) = try_open(&server, &a, &format!("app{}", open.len() / 3)).await {
        open.push(reader);
        assert!(open.len() < 256, "never refused");
    }
    // 64 spare: 192 connections, of which the account's client has one.
    assert!((185..192).contains(&open.len()), "{}", open.len());
    let spare = usize::try_from(FILES).unwrap() - open_files(&server);
    assert!(spare + before >= 64, "{spare} spare");
    // Who is there already is served.
    assert_eq!(a.get("/api/sync/apps").await.status, 200);
    drop(open);
    until("files were kept", || open_files(&server) <= before + 2).await;
    assert!(try_open(&server, &a, "notes").await.is_some());
}

#[tokio::test]
async fn without_files_the_server_waits_and_does_not_spin() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path(), 256);
    let mut a = crate::fixture::session::create(&server.client(), None).await;
    let mut parked = try_open(&server, &a, "_account").await.unwrap();
    let pid = Pid::from_raw(i32::try_from(server.child.id()).unwrap());
    let limit = |files| {
        let files = Rlimit { current: Some(files), maximum: Some(256) };
        prlimit(pid, Resource::Nofile, files).unwrap();
    };
    // The first eight are taken since the start.
    limit(8);
    let mut waiting = connect(&server).await;
    let before = ticks(&server);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let spent = ticks(&server) - before;
    assert!(spent < 30, "{spent} hundredths of a second were spent on waiting");
    // What is open goes on meanwhile.
    a.link().await;
    assert_eq!(parked.until("\n\n").await, "event: changed\ndata:\n\n");
    limit(256);
    waiting.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = [0; 12];
    within(waiting.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}
