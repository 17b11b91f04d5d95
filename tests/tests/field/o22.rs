//! O22: an empty, unset or non-UTF-8 HOME makes a Rust program panic at start.
//!
//! What is asked for is an error of one line. Ours has one for what happened and, as all errors of
//! the command line have, one for what became of the data and one for the next step.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use tidings_client::local::Client;
use tidings_client::socket::{Environment, Places};
use tidings_tests::{DEADLINE, Process, eventually, programs};

/// The program in an environment of nothing but this HOME, standing in this directory.
fn tidings(home: Option<&OsStr>, stands_in: &Path, verb: &[&str]) -> Command {
    let mut command = Command::new(programs::tidings());
    command.env_clear().current_dir(stands_in).args(verb);
    if let Some(home) = home {
        command.env("HOME", home);
    }
    command
}

fn places(home: &OsStr) -> Places {
    Environment { home: Some(home.into()), ..Environment::empty() }.places(None).unwrap()
}

/// What the root of the file system holds.
fn root() -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> =
        std::fs::read_dir("/").unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

/// The verb is refused with one line and exit 1, and nothing is made where it stands or in `/`.
fn refused(command: &mut Command, stands_in: &Path) -> String {
    let before = root();
    let (status, said) = Process::start("refused", command).finished(DEADLINE);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(!said.contains("panicked at"), "{said}");
    let lines: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    assert!((1..=3).contains(&lines.len()), "{said}");
    assert_eq!(std::fs::read_dir(stands_in).unwrap().count(), 0, "something was made here");
    assert_eq!(root(), before, "something was made in /");
    said
}

#[test]
fn o22_without_a_home_it_says_so() {
    let here = tempfile::tempdir().unwrap();
    for verb in ["daemon", "status"] {
        let said = refused(&mut tidings(None, here.path(), &[verb]), here.path());
        assert!(said.contains("HOME is not set"), "{said}");
        let said = refused(&mut tidings(Some("".as_ref()), here.path(), &[verb]), here.path());
        assert!(said.contains("HOME is empty"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o22_spaces_and_bytes_that_are_no_text_work_end_to_end() {
    let here = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    for name in [&b"h with space"[..], b"h\xff"] {
        let home = dir.path().join(OsStr::from_bytes(name));
        std::fs::create_dir(&home).unwrap();
        let home = home.as_os_str();
        let name = home.to_string_lossy();
        let mut daemon = Process::start(&*name, &mut tidings(Some(home), here.path(), &["daemon"]));
        let socket = places(home).socket;
        eventually("it answers", DEADLINE, async || Client::new(&socket).ping().await).await;
        let put = ["--app", "notes", "put", "t", r#"{"id":"r1","v":1}"#];
        let get = ["--app", "notes", "--json", "get", "t", "r1"];
        for verb in [&put[..], &get] {
            let verb = Process::start("a verb", &mut tidings(Some(home), here.path(), verb));
            let (status, said) = verb.finished(DEADLINE);
            assert!(status.success(), "{name}: {said}");
        }
        daemon.stop(DEADLINE);
    }
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
}

#[test]
fn o22_a_home_that_cannot_be_written_is_refused() {
    let here = tempfile::tempdir().unwrap();
    let mount = tempfile::tempdir().unwrap();
    // A read-only mount of its own name space; where the system grants none, the kernel's own
    // file system, in which nobody can make a directory.
    let program = programs::tidings();
    let script = "mount -t tmpfs none \"$1\" && mount -o remount,ro \"$1\" && exec \"$2\" daemon";
    let probe = "mount -t tmpfs none \"$1\"";
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-r", "-m", "sh", "-c", script, "sh"]).arg(mount.path()).arg(&program);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("HOME", mount.path()).current_dir(here.path());
        command
    };
    let can_mount = unshare(probe).output().is_ok_and(|output| output.status.success());
    let said = if can_mount {
        refused(&mut unshare(script), here.path())
    } else {
        refused(&mut tidings(Some("/proc".as_ref()), here.path(), &["daemon"]), here.path())
    };
    let names = said.contains(mount.path().to_str().unwrap()) || said.contains("/proc");
    assert!(names && said.contains("annot use the home"), "{said}");
}
