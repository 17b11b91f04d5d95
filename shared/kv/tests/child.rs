//! A process of its own that writes until it is killed, and the parent's side of it. The child is
//! this test binary, started again with one test and its orders in the environment.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use crate::workload::{self, Acks, Subject};

const DIR: &str = "TIDINGS_KV_CHILD_DIR";
const SUBJECT: &str = "TIDINGS_KV_CHILD_SUBJECT";
const DEADLINE: Duration = Duration::from_secs(60);

/// Not a test by itself: the body of the child process.
#[test]
fn entry() {
    let Some((dir, subject)) = orders() else { return };
    let store = subject.open(&dir).unwrap();
    let failure = workload::write(&store, subject, |writer, head| {
        let mut out = std::io::stdout().lock();
        // The parent reads whole lines; one write each keeps them whole when this process dies.
        out.write_all(format!("\nack {writer} {head}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    });
    panic!("a writer failed: {failure}");
}

/// A command that runs one test of this binary in a process of its own, with orders in its
/// environment.
pub fn again(test: &str, dir: &Path, subject: Subject) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .env(SUBJECT, subject.name());
    command
}

/// The orders of [`again`], in the child; none in an ordinary run of the tests.
pub fn orders() -> Option<(PathBuf, Subject)> {
    let dir = std::env::var_os(DIR)?;
    Some((dir.into(), Subject::named(&std::env::var(SUBJECT).ok()?)?))
}

/// Lets a command run among mounts of its own, which go with it, and as root among them.
#[cfg(target_os = "linux")]
pub fn apart(command: &mut Command) {
    let root = rustix::process::geteuid().is_root();
    let flags: &[&str] =
        if root { &["--mount"] } else { &["--mount", "--user", "--map-root-user"] };
    let tried = Command::new("unshare").args(flags).arg("true").status();
    assert!(
        tried.is_ok_and(|status| status.success()),
        "this test mounts a disk, which this system lets only root do: run it as root, as CI does"
    );
    let mut outer = Command::new("unshare");
    outer.args(flags).arg(command.get_program()).args(command.get_args());
    outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    *command = outer;
}

/// Mounts something at `dir`, or changes how it is mounted.
#[cfg(target_os = "linux")]
pub fn mount(arguments: &[&str], dir: &Path) {
    let status = Command::new("mount").args(arguments).arg(dir).status().unwrap();
    assert!(status.success(), "mount {arguments:?}");
}

/// A running child.
pub struct Writers {
    child: Child,
    lines: Receiver<String>,
    acks: Acks,
}

impl Writers {
    /// Starts one; `prepare` may add to its environment.
    pub fn start(dir: &Path, subject: Subject, prepare: impl FnOnce(&mut Command)) -> Self {
        let mut command = again("child::entry", dir, subject);
        command.stdout(Stdio::piped());
        prepare(&mut command);
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines, acks: Acks::new() }
    }

    /// Waits for this many acknowledgements, kills the child, and answers all that it gave.
    pub fn kill_after(self, acks: u64) -> Acks {
        self.meanwhile(acks, || {})
    }

    /// [`Writers::kill_after`], with work to do between the two.
    pub fn meanwhile(mut self, acks: u64, work: impl FnOnce()) -> Acks {
        let deadline = Instant::now() + DEADLINE;
        let mut seen = 0;
        while seen < acks {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => seen += u64::from(self.note(&line)),
                Err(error) => {
                    self.child.kill().unwrap();
                    panic!("after {seen} acknowledgements: {error}; {:?}", self.child.wait());
                }
            }
        }
        work();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        loop {
            match self.lines.recv_timeout(DEADLINE) {
                Ok(line) => self.note(&line),
                Err(RecvTimeoutError::Disconnected) => return self.acks,
                Err(RecvTimeoutError::Timeout) => panic!("the child's output does not end"),
            };
        }
    }

    /// Notes an acknowledgement of a synced writer; anything else the test harness printed.
    fn note(&mut self, line: &str) -> bool {
        let mut words = line.split(' ');
        let (Some("ack"), Some(writer), Some(head)) = (words.next(), words.next(), words.next())
        else {
            return false;
        };
        let (Ok(writer), Ok(head)) = (writer.parse(), head.parse()) else { return false };
        self.acks.insert(writer, head);
        writer < workload::SYNCED
    }
}
