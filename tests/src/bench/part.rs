//! Parts of a benchmark that run in a process of their own: the limits that are programs, and
//! those who read streams, because a process may open only so many files.
//!
//! A part is this same program started anew. It is asked by lines on its standard input, answers
//! each by a line of JSON, and ends with its input.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// A running part; dropping it ends it.
#[derive(Debug)]
pub(super) struct Part {
    name: &'static str,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Part {
    /// Starts a part with its arguments.
    ///
    /// # Panics
    /// It does not start.
    pub(super) fn start(name: &'static str, arguments: &[&str]) -> Self {
        let own = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(own);
        command.arg("part").arg(name).args(arguments);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("starting {name}: {error}"));
        let to = child.stdin.take().expect("its input");
        let from = BufReader::new(child.stdout.take().expect("its output"));
        Self { name, child, to, from }
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line of its own accord.
    ///
    /// # Panics
    /// It ended.
    pub(super) fn answer(&mut self) -> Value {
        let mut line = String::new();
        let read = self.from.read_line(&mut line).unwrap_or(0);
        assert!(read > 0, "the part {} ended without an answer", self.name);
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{}: {error}: {line}", self.name))
    }

    /// Asks and waits for the answer.
    ///
    /// # Panics
    /// It ended.
    pub(super) fn ask(&mut self, question: &str) -> Value {
        writeln!(self.to, "{question}").unwrap_or_else(|error| panic!("{}: {error}", self.name));
        self.answer()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a part, in its own process; returns when its input ends.
///
/// # Panics
/// There is no such part, or it fails.
pub fn run(name: &str, arguments: &[String]) {
    match name {
        "floor" => super::floor::run(arguments),
        "load" => super::load::run(arguments),
        "idle" => super::idle_daemon::run_idle(),
        other => panic!("there is no part {other}"),
    }
}

/// Ends this process when its input does, so that none outlives who started it.
pub(super) fn end_with_input() {
    std::thread::spawn(|| {
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line).is_ok_and(|read| read > 0) {}
        std::process::exit(0);
    });
}

/// Answers a line.
pub(super) fn say(answer: &Value) {
    println!("{answer}");
}
