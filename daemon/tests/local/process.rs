//! The program itself: kill -9 in the middle of writes, and environments that surprise.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use tidings_client::local::Client;
use tidings_client::socket::OWNER_TOKEN_NAME;
use tidings_wire::AppId;

use crate::support::{DEADLINE, soon};

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A daemon as a process of its own, killed with the test.
struct Process {
    child: Child,
    home: PathBuf,
}

impl Process {
    fn start(home: &Path) -> Self {
        let child = program().env("TIDINGS_HOME", home).arg("daemon").spawn().unwrap();
        Self { child, home: home.to_owned() }
    }

    async fn client(&mut self) -> Client {
        let started = Instant::now();
        loop {
            let token = std::fs::read_to_string(self.home.join(OWNER_TOKEN_NAME));
            if let Ok(token) = token {
                let client = Client::new(self.home.join("tidings.sock"));
                let client = client.with_token(token.trim()).unwrap();
                if client.ping().await.is_ok() {
                    return client;
                }
            }
            assert!(self.child.try_wait().unwrap().is_none(), "the daemon ended");
            assert!(started.elapsed() < DEADLINE, "the daemon does not answer");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// kill -9.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_loses_no_acknowledged_row_and_never_blocks_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let app: AppId = "k".parse().unwrap();
    let mut acked: Vec<String> = Vec::new();
    let mut last_id = String::new();
    for round in 0..6_u64 {
        let mut process = Process::start(dir.path());
        let client = process.client().await;
        for id in &acked {
            soon("a row", client.row(&app, "t", id))
                .await
                .unwrap_or_else(|error| panic!("round {round}: {id} is gone: {error}"));
        }
        // A stream goes on over the kill: nothing acknowledged is missing from it either.
        if !last_id.is_empty() {
            let options = tidings_client::local::WatchOptions {
                last_event_id: Some(last_id.clone()),
                ..Default::default()
            };
            let mut stream = client.watch(&app, &["t".to_owned()], &options).await.unwrap();
            let connected = soon("connected", stream.next()).await.unwrap().unwrap();
            assert!(connected.data.contains(r#""resumed":true"#), "{}", connected.data);
        }
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..4 {
            let (client, app) = (client.clone(), app.clone());
            writers.spawn(async move {
                let mut acked = Vec::new();
                for n in 0.. {
                    let id = format!("{round}-{writer}-{n}");
                    let row = serde_json::json!({"id":id,"n":n});
                    match client.insert(&app, "t", &row).await {
                        Ok(answer) => acked.push((answer.position, id)),
                        Err(_) => break,
                    }
                }
                acked
            });
        }
        tokio::time::sleep(std::time::Duration::from_millis(100 + round * 37)).await;
        process.kill();
        let mut newest = None;
        while let Some(rows) = writers.join_next().await {
            for (position, id) in rows.unwrap() {
                newest = newest.max(Some(position));
                acked.push(id);
            }
        }
        last_id = newest.map(|position| position.to_string()).unwrap_or(last_id);
        assert!(dir.path().join("tidings.sock").exists(), "kill -9 leaves the socket file");
    }
    assert!(acked.len() > 50, "only {} writes were acknowledged", acked.len());
}

fn run(command: &mut Command) -> Output {
    let mut child = command.spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > DEADLINE {
            let _ = child.kill();
            panic!("{command:?} does not end");
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn an_environment_without_a_home_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    for verb in [&["daemon"][..], &["status"]] {
        for home in [None, Some("")] {
            let mut command = program();
            command.current_dir(dir.path()).args(verb);
            if let Some(home) = home {
                command.env("HOME", home);
            }
            let output = run(&mut command);
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{verb:?} {home:?}: {text}");
            assert!(text.contains("HOME is") && !text.contains("panicked"), "{text}");
        }
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was created");
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_homes_work_or_are_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    for name in [&b"h with space"[..], b"h\xff"] {
        let home = dir.path().join(OsStr::from_bytes(name));
        std::fs::create_dir(&home).unwrap();
        let data = home.join(".local/share/tidings");
        let child = program().env("HOME", &home).arg("daemon").spawn().unwrap();
        let mut process = Process { child, home: data.clone() };
        let started = Instant::now();
        let token = data.join(OWNER_TOKEN_NAME);
        while !token.exists() && process.child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < DEADLINE);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let places = tidings_client::socket::Environment {
            home: Some(home.clone().into()),
            ..tidings_client::socket::Environment::empty()
        };
        let client = Client::new(places.socket(None).unwrap());
        let started = Instant::now();
        while client.ping().await.is_err() {
            assert!(process.child.try_wait().unwrap().is_none(), "{name:?}: the daemon ended");
            assert!(started.elapsed() < DEADLINE, "{name:?}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    // A home that cannot be written: /proc is read-only for everybody.
    let output = run(program().env("HOME", "/proc/1/nothing").arg("daemon"));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.status.signal()), (Some(1), None), "{text}");
    assert!(!text.contains("panicked"), "{text}");
}
