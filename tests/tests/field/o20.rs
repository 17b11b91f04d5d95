//! O20: a socket path over 107 bytes is cut silently or fails with "invalid argument"; clients
//! then talk to nothing, or to each other's socket.

use std::path::{Path, PathBuf};
use std::process::Command;

use tidings_client::local::Client;
use tidings_client::socket::{Environment, SOCKET_NAME};
use tidings_tests::process::command;
use tidings_tests::{DEADLINE, Process, eventually, programs};

/// A home of exactly so many bytes in a directory.
fn home_of(dir: &Path, length: usize) -> PathBuf {
    let fill = length - dir.as_os_str().len() - 1;
    let home = dir.join("h".repeat(fill));
    assert_eq!(home.as_os_str().len(), length);
    home
}

fn tidings(home: &Path, runtime: Option<&Path>, verb: &[&str]) -> Command {
    let mut command = command(programs::tidings());
    command.env("HOME", "/nonexistent").arg("--home").arg(home).args(verb);
    if let Some(runtime) = runtime {
        command.env("XDG_RUNTIME_DIR", runtime);
    }
    command
}

/// Where the daemon of a home listens: by the rule that clients go by.
fn socket(home: &Path, runtime: Option<&Path>) -> PathBuf {
    let mut environment = Environment::empty();
    if let Some(runtime) = runtime {
        environment.xdg_runtime_dir = Some(runtime.into());
        environment.runtime_is_private = true;
    }
    environment.socket(Some(home)).unwrap()
}

async fn answers(socket: &Path) {
    eventually("the daemon answers", DEADLINE, async || Client::new(socket).ping().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o20_the_longest_path_works() {
    let dir = tempfile::tempdir().unwrap();
    let home = home_of(dir.path(), 107 - SOCKET_NAME.len() - 1);
    let path = home.join(SOCKET_NAME);
    assert_eq!(path.as_os_str().len(), 107);
    let mut daemon = Process::start("107 bytes", &mut tidings(&home, None, &["daemon"]));
    answers(&path).await;
    let (status, said) =
        Process::start("status", &mut tidings(&home, None, &["status"])).finished(DEADLINE);
    assert!(status.success(), "{said}");
    daemon.stop(DEADLINE);
}

#[tokio::test(flavor = "multi_thread")]
async fn o20_a_longer_path_is_refused_in_words_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for verb in ["daemon", "status"] {
        let home = home_of(dir.path(), 108 - SOCKET_NAME.len() - 1);
        let refused = Process::start("108 bytes", &mut tidings(&home, None, &[verb]));
        let (status, said) = refused.finished(DEADLINE);
        assert_eq!(status.code(), Some(1), "{verb}: {said}");
        let path = home.join(SOCKET_NAME);
        for part in [path.to_str().unwrap(), "108", "107"] {
            assert!(said.contains(part), "{verb} does not name {part}: {said}");
        }
        assert!(!home.exists(), "{verb} made {}", home.display());
    }
    // The next start in a home that fits is not blocked by anything.
    let home = home_of(dir.path(), 107 - SOCKET_NAME.len() - 1);
    let mut daemon = Process::start("the next", &mut tidings(&home, None, &["daemon"]));
    answers(&home.join(SOCKET_NAME)).await;
    daemon.stop(DEADLINE);
}

#[tokio::test(flavor = "multi_thread")]
async fn o20_a_longer_path_has_a_short_one_in_the_runtime_directory() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let runtime = dir.path().join("run");
    std::fs::create_dir(&runtime).unwrap();
    std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
    // Two homes that differ only in their last byte.
    let long = home_of(dir.path(), 149);
    let homes = ["a", "b"].map(|last| PathBuf::from(format!("{}{last}", long.display())));
    let mut daemons = Vec::new();
    let mut pids = Vec::new();
    for home in &homes {
        assert_eq!(home.as_os_str().len(), 150);
        let mut daemon = tidings(home, Some(&runtime), &["daemon"]);
        let daemon = Process::start(home.display().to_string(), &mut daemon);
        let socket = socket(home, Some(&runtime));
        assert!(socket.starts_with(&runtime) && socket.as_os_str().len() <= 107, "{socket:?}");
        answers(&socket).await;
        let pid = Client::new(&socket).ping().await.unwrap().pid;
        assert_eq!(pid, daemon.id(), "another home's daemon answers");
        pids.push(pid);
        // The command line comes to the same place.
        let status = tidings(home, Some(&runtime), &["--json", "status"]).output().unwrap();
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
        daemons.push(daemon);
    }
    assert_ne!(pids[0], pids[1]);
    assert_ne!(socket(&homes[0], Some(&runtime)), socket(&homes[1], Some(&runtime)));
    for mut daemon in daemons {
        daemon.stop(DEADLINE);
    }
}
