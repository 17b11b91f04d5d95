//! The real program: its lines, its exit codes, and what survives `kill -9`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fixture::{Client, DEADLINE, Session};

fn program(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings-server"));
    command.env_clear().env("HOME", dir).stdin(Stdio::null());
    command
}

pub fn run(dir: &Path, arguments: &[&str]) -> Output {
    program(dir).args(arguments).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A running server; killed when a test fails.
pub struct Running {
    pub child: Child,
    pub url: String,
    line: Value,
}

impl Running {
    pub fn start(dir: &Path, arguments: &[&str]) -> Self {
        Self::under(program(dir), arguments)
    }

    /// Starts it by a command that ends with the program.
    pub fn under(mut command: Command, arguments: &[&str]) -> Self {
        command.args(["serve", "--json", "--listen", "127.0.0.1:0"]).args(arguments);
        Self::logging(command.stderr(Stdio::null()))
    }

    /// Starts a whole command, which says where the log goes.
    pub fn logging(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let line: Value = serde_json::from_str(&line).expect("no line of JSON");
        assert_eq!(line["event"], "listening");
        Self { child, url: line["url"].as_str().unwrap().to_owned(), line }
    }

    pub fn client(&self) -> Client {
        Client::new(self.url.clone())
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    pub fn wait(&mut self) -> Option<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(start.elapsed() < DEADLINE, "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn store(dir: &Path, engine: &str) -> (PathBuf, String) {
    let path = dir.join("store");
    let store = format!("{engine}:{}", path.display());
    (path, store)
}

#[tokio::test]
async fn an_operator_starts_invites_and_stops() {
    let dir = tempfile::tempdir().unwrap();
    let (_, store) = store(dir.path(), "sled");
    let flags = ["--store", store.as_str()];
    let mut server = Running::start(dir.path(), &flags);
    assert_eq!(server.line["server_id"].as_str().unwrap().len(), 64);
    let created = run(dir.path(), &["invite", "create", "--note", "Ada", flags[0], flags[1]]);
    assert!(created.status.success(), "{}", text(&created.stderr));
    let out = text(&created.stdout);
    let command = out.lines().last().unwrap().trim();
    let code = command.rsplit(' ').next().unwrap().to_owned();
    let url = &server.url;
    assert_eq!(command, format!("tidings account create {url} --invite {code}"));
    let listed = run(dir.path(), &["invite", "list", "--json", flags[0], flags[1]]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["invites"][0]["note"], "Ada");
    crate::fixture::session::create(&server.client(), Some(code)).await;
    let health = run(
        dir.path(),
        &["healthcheck", "--listen", url.strip_prefix("http://").unwrap(), flags[0], flags[1]],
    );
    assert_eq!(text(&health.stdout), "ready\n");
    // A second server on the same store says who holds it.
    let second = run(dir.path(), &["serve", "--listen", "127.0.0.1:0", flags[0], flags[1]]);
    assert_eq!(second.status.code(), Some(78));
    let pid = server.child.id().to_string();
    assert!(text(&second.stderr).contains(&pid), "{}", text(&second.stderr));
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
    let health = run(dir.path(), &["healthcheck", "--listen", "127.0.0.1:9", flags[0], flags[1]]);
    assert_eq!(health.status.code(), Some(1));
}

#[test]
fn faults_have_their_exit_codes_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let usage = run(dir.path(), &["serv"]);
    assert_eq!(usage.status.code(), Some(2));
    let unknown = run(dir.path(), &["serve", "--set", "lisen=127.0.0.1:1"]);
    assert_eq!(unknown.status.code(), Some(78));
    assert!(text(&unknown.stderr).contains("did you mean \"listen\"?"));
    let open = run(dir.path(), &["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(open.status.code(), Some(78));
    let none = program(dir.path()).env_remove("HOME").arg("serve").output().unwrap();
    assert_eq!(none.status.code(), Some(78));
    assert!(text(&none.stderr).contains("store"), "{}", text(&none.stderr));

    // A store that a newer program wrote stays as it is.
    let (path, store) = store(dir.path(), "sled");
    assert!(run(dir.path(), &["invite", "list", "--store", &store]).status.success());
    let marker = path.join("STORE");
    let written = std::fs::read_to_string(&marker).unwrap();
    let newer = written.replace("tidings-store 1", "tidings-store 9");
    assert_ne!(newer, written);
    std::fs::write(&marker, &newer).unwrap();
    let refused = run(dir.path(), &["serve", "--listen", "127.0.0.1:0", "--store", &store]);
    assert_eq!(refused.status.code(), Some(78), "{}", text(&refused.stderr));
    assert_eq!(std::fs::read_to_string(&marker).unwrap(), newer);
    // One whose data is gone is damaged, not empty.
    std::fs::write(&marker, &written).unwrap();
    for entry in std::fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            std::fs::remove_dir_all(entry.path()).unwrap();
        }
    }
    let refused = run(dir.path(), &["serve", "--listen", "127.0.0.1:0", "--store", &store]);
    assert_eq!(refused.status.code(), Some(78), "{}", text(&refused.stderr));
    assert!(!text(&refused.stderr).contains("panicked"));
}

#[test]
fn the_configuration_is_shown_with_its_origins() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server.toml");
    std::fs::write(&file, "registration = \"open\"\n[stream]\nkeepalive = \"20s\"\n").unwrap();
    let shown = program(dir.path())
        .args(["config", "show", "--json", "--listen", "127.0.0.1:1", "--config"])
        .arg(&file)
        .env("TIDINGS_SERVER_TIMEOUTS_DRAIN", "3s")
        .output()
        .unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let value = |name: &str| (shown[name]["value"].clone(), shown[name]["origin"].clone());
    assert_eq!(value("stream.keepalive"), ("20s".into(), file.display().to_string().into()));
    let drain = ("3s".into(), "TIDINGS_SERVER_TIMEOUTS_DRAIN".into());
    assert_eq!(value("timeouts.drain"), drain);
    assert_eq!(value("listen"), ("127.0.0.1:1".into(), "--listen".into()));
    assert_eq!(value("auth.token_life").1, "default");
    let home = format!("sled:{}", dir.path().join(".local/share/tidings-server").display());
    assert_eq!(value("store"), (home.into(), "derived".into()));
    let checked = run(dir.path(), &["config", "check"]);
    assert!(checked.status.success());
    // The template is a configuration.
    let template = run(dir.path(), &["config", "template"]);
    std::fs::write(&file, &template.stdout).unwrap();
    let checked = program(dir.path()).args(["config", "check", "--config"]).arg(&file).output();
    assert!(checked.unwrap().status.success());
    assert!(!dir.path().join(".local").exists(), "a look must not make a store");
}

/// With hardly any files left it refuses, does not spin, and recovers.
#[tokio::test]
async fn running_out_of_files_is_survived() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64 && exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_tidings-server")).env("HOME", dir.path());
    let (_, store) = store(dir.path(), "redb");
    let mut server = Running::under(command, &["--store", &store]);
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let cpu = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let held: Vec<_> = (0..200).map(|_| std::net::TcpStream::connect(&address).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(300));
    let before = cpu(server.child.id());
    std::thread::sleep(Duration::from_secs(1));
    let used = cpu(server.child.id()) - before;
    assert!(used < 50, "{used} of 100 ticks while nothing happened");
    drop(held);
    let client = server.client();
    let recovered = async {
        while client.try_get("/readyz").await != Some(200) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    crate::fixture::within(recovered).await;
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
}

/// Pushes until the server is killed; what was acknowledged is there afterwards.
async fn killed(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (_, store) = store(dir.path(), engine);
    let flags = ["--store", store.as_str(), "--set", "registration=open"];
    let mut server = Running::start(dir.path(), &flags);
    let mut first = crate::fixture::session::create(&server.client(), None).await;
    let reader = first.link().await;
    let mut book = first.book("notes");
    let mut acknowledged = 0;
    let answers = Arc::new(AtomicUsize::new(0));
    for round in 0..4u64 {
        let session =
            Session::sign_in(&server.client(), first.device.clone(), first.chain.clone()).await;
        let pid = server.child.id().to_string();
        // At a moment of its own choice once something was acknowledged in this round.
        let (seen, enough) = (answers.clone(), acknowledged + 3);
        let killing = std::thread::spawn(move || {
            while seen.load(Ordering::SeqCst) < enough {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(7 * round));
            assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
        });
        let (next, body) = loop {
            let mut next = book.clone();
            let blob = next.blob(&session.chain, crate::fixture::tag(1), 200);
            let manifest = next.manifest(&session.chain);
            let body = crate::fixture::session::push_body(&[blob], &manifest);
            match session.attempt("notes", body.clone()).await {
                Some(200) => {
                    acknowledged += 1;
                    answers.store(acknowledged, Ordering::SeqCst);
                    book = next;
                }
                Some(status) => panic!("refused: {status}"),
                None => break (next, body),
            }
        };
        killing.join().unwrap();
        server.wait();
        server = Running::start(dir.path(), &flags);
        let session =
            Session::sign_in(&server.client(), first.device.clone(), first.chain.clone()).await;
        let reading =
            Session::sign_in(&server.client(), reader.device.clone(), first.chain.clone()).await;
        let there = reading.pull_all("notes", "").await.len();
        assert!(there >= acknowledged, "{there} of {acknowledged} acknowledged are there");
        assert!(there <= acknowledged + 1);
        // The one without an answer is sent again, the very same bytes.
        let reply = session.post_cbor("/api/sync/push?app_id=notes", body).await;
        let pushed: tidings_wire::sync::PushResponse = reply.cbor();
        assert_eq!(pushed.already, there > acknowledged);
        book = next;
        acknowledged += 1;
        assert_eq!(reading.pull_all("notes", "").await.len(), acknowledged);
    }
    server.signal("-INT");
    assert_eq!(server.wait(), Some(0));
}

#[tokio::test]
async fn acknowledged_pushes_survive_kill_9_on_sled() {
    killed("sled").await;
}

#[tokio::test]
async fn acknowledged_pushes_survive_kill_9_on_redb() {
    killed("redb").await;
}
