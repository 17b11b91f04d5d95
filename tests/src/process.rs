//! A child program: its output is kept, its end is certain.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A running program. Dropping it kills it, and prints what it said if a test is failing.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    output: Arc<Output>,
}

/// What a program printed, both streams in the order of their lines' arrival.
#[derive(Debug, Default)]
struct Output {
    state: Mutex<Lines>,
    grown: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    lines: Vec<String>,
    /// Streams that are still open.
    open: usize,
}

/// A command whose environment holds nothing of the person who runs the tests: no home, no
/// runtime directory, no session bus, none of our own variables.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let ours = text.starts_with("TIDINGS_") || text.starts_with("XDG_");
        if ours || matches!(&*text, "HOME" | "DBUS_SESSION_BUS_ADDRESS" | "NOTIFY_SOCKET") {
            command.env_remove(&name);
        }
    }
    command
}

impl Process {
    /// Starts a program; `name` is what failures call it.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start(name: impl Into<String>, command: &mut Command) -> Self {
        let name = name.into();
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap_or_else(|error| panic!("starting {name}: {error}"));
        let output = Arc::new(Output::default());
        output.read(child.stdout.take());
        output.read(child.stderr.take());
        Self { name, child, output }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Most memory that it ever had, in bytes.
    ///
    /// # Panics
    /// It does not run.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()));
        let status = status.expect("the state of a process");
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("its peak");
        let peak = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
        peak.expect("a number of KiB") << 10
    }

    /// Everything it printed so far.
    pub fn log(&self) -> String {
        self.output.lock().lines.join("\n")
    }

    /// Waits for a line that says something.
    ///
    /// # Panics
    /// No such line came by the deadline, or before the program ended.
    pub fn line<T>(
        &self,
        what: &str,
        deadline: Duration,
        says: impl FnMut(&str) -> Option<T>,
    ) -> T {
        self.try_line(deadline, says)
            .unwrap_or_else(|fault| panic!("{}: no line with {what}: {fault}", self.name))
    }

    /// The same, for programs that may end before.
    ///
    /// # Errors
    /// Why there was no such line, with everything that was said.
    pub fn try_line<T>(
        &self,
        deadline: Duration,
        mut says: impl FnMut(&str) -> Option<T>,
    ) -> Result<T, String> {
        let end = Instant::now() + deadline;
        let mut seen = 0;
        let mut state = self.output.lock();
        loop {
            for line in &state.lines[seen..] {
                if let Some(found) = says(line) {
                    return Ok(found);
                }
            }
            seen = state.lines.len();
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || state.open == 0 {
                let fault = if state.open == 0 { "it ended" } else { "the deadline passed" };
                drop(state);
                return Err(format!("{fault}\n{}", self.log()));
            }
            let waited = self.output.grown.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    /// It did not by the deadline.
    pub fn ended(&mut self, deadline: Duration) -> ExitStatus {
        let end = Instant::now() + deadline;
        loop {
            if let Some(status) = self.child.try_wait().expect("the state of a child") {
                return status;
            }
            let late = Instant::now() >= end;
            assert!(!late, "{} did not end within {deadline:?}\n{}", self.name, self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal.
    pub fn signal(&mut self, signal: Signal) {
        // A child that was waited for has no process id any more.
        if self.runs() {
            let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            let sent = kill_process(id.expect("a process id"), signal);
            sent.unwrap_or_else(|error| panic!("a signal to {}: {error}", self.name));
        }
    }

    /// Asks it to stop, and waits.
    ///
    /// # Panics
    /// It did not stop by the deadline, or not well.
    pub fn stop(&mut self, deadline: Duration) {
        self.signal(Signal::TERM);
        let status = self.ended(deadline);
        assert!(status.success(), "{} ended with {status}\n{}", self.name, self.log());
    }

    /// Ends it at once, as a crash or a power cut would.
    pub fn kill(&mut self) {
        // It may have ended in this moment: that is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for the end and for all of its output: for programs that answer and go.
    ///
    /// # Panics
    /// It did not end by the deadline.
    pub fn finished(mut self, deadline: Duration) -> (ExitStatus, String) {
        let status = self.ended(deadline);
        let end = Instant::now() + deadline;
        let mut state = self.output.lock();
        while state.open > 0 && Instant::now() < end {
            let waited = self.output.grown.wait_timeout(state, Duration::from_millis(50));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let text = state.lines.join("\n");
        drop(state);
        (status, text)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("---- {} ({}) said:\n{}\n----", self.name, self.id(), self.log());
        }
    }
}

impl Output {
    fn lock(&self) -> std::sync::MutexGuard<'_, Lines> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a stream to its end, line by line, on a thread of its own.
    fn read(self: &Arc<Self>, stream: Option<impl Read + Send + 'static>) {
        let Some(stream) = stream else { return };
        self.lock().open += 1;
        let output = Arc::clone(self);
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            while matches!(reader.read_until(b'\n', &mut line), Ok(read) if read > 0) {
                let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
                output.lock().lines.push(text);
                output.grown.notify_all();
                line.clear();
            }
            output.lock().open -= 1;
            output.grown.notify_all();
        });
    }
}
