//! strace beside a running program: what it calls, and what fails of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::fault::{Act, Call, Fault, Phase};
use crate::process::Process;
use crate::wait::DEADLINE;

/// A running strace. It ends with the program.
#[derive(Debug)]
pub(super) struct Trace {
    process: Process,
    log: PathBuf,
}

impl Trace {
    /// Attaches to a program and puts a fault into it, or only listens. `files` are those whose
    /// calls count; none is all.
    ///
    /// # Errors
    /// Why it cannot be traced.
    pub(super) fn attach(
        id: u32,
        log: &Path,
        files: &BTreeSet<String>,
        fault: Option<Fault>,
    ) -> Result<Self, String> {
        let calls: Vec<_> = Call::ALL.iter().map(|call| call.names()).collect();
        let mut command = Command::new("strace");
        command.args(["-f", "-y", "-e", &format!("trace={}", calls.join(","))]);
        command.arg("-o").arg(log).args(["-p", &id.to_string()]);
        for file in files {
            command.args(["-P", file]);
        }
        if let Some((fault, how)) = fault.and_then(|fault| Some((fault, fault.act.injection()?))) {
            let (names, kth) = (fault.call.names(), fault.kth);
            command.args(["-e", &format!("inject={names}:{how}:when={kth}")]);
        }
        let there = Command::new("strace").arg("-V").stdout(Stdio::null()).status();
        if !there.is_ok_and(|status| status.success()) {
            return Err("there is no strace".to_owned());
        }
        let process = Process::start("strace", &mut command);
        process
            .try_line(DEADLINE, |line| line.contains("attached").then_some(()))
            .map_err(|said| format!("this system does not let us trace: {said}"))?;
        Ok(Self { process, log: log.to_owned() })
    }

    /// Waits for its end, which comes with the program's, and reads what was called.
    pub(super) fn ended(mut self) -> String {
        self.process.ended(DEADLINE);
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// What a program calls on its way through the script.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The most calls that any one thread makes.
    counts: BTreeMap<(Phase, Call), u64>,
    /// Calls that change files.
    changes: BTreeMap<Phase, u64>,
    /// Files below the program's directory.
    pub(super) files: BTreeSet<String>,
}

impl Seen {
    /// Reads a log of strace's.
    pub(super) fn read(&mut self, phase: Phase, log: &str, dir: &Path) {
        let dir = dir.display().to_string();
        let mut threads: BTreeMap<(&str, Call), u64> = BTreeMap::new();
        for line in log.lines() {
            let Some((thread, rest)) = line.split_once(' ') else { continue };
            let rest = rest.trim_start();
            let Some(call) = rest.split_once('(').and_then(|(name, _)| Call::named(name)) else {
                continue;
            };
            let paths: Vec<_> = rest.match_indices(&dir).map(|(at, _)| path(&rest[at..])).collect();
            if paths.is_empty() {
                continue;
            }
            self.files.extend(paths.into_iter().map(str::to_owned));
            *threads.entry((thread, call)).or_default() += 1;
            if !matches!(call, Call::Openat | Call::Read) {
                *self.changes.entry(phase).or_default() += 1;
            }
        }
        for ((_, call), count) in threads {
            let most = self.counts.entry((phase, call)).or_default();
            *most = (*most).max(count);
        }
    }

    /// Every fault that can be put into it.
    pub(super) fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (&(phase, call), &count) in &self.counts {
            for kth in 1..=count {
                faults.extend(call.acts().iter().map(|&act| Fault { phase, call, kth, act }));
            }
        }
        for (&phase, &count) in &self.changes {
            for kth in 1..=count {
                let acts = [Act::Short, Act::Torn];
                faults.extend(acts.map(|act| Fault { phase, call: Call::Write, kth, act }));
            }
        }
        faults
    }
}

/// The path at the beginning of a text of strace's.
fn path(text: &str) -> &str {
    let end = text.find(['"', '>', '<', ',']).unwrap_or(text.len());
    &text[..end]
}

/// Whether a fault came, by strace's own word.
pub(super) fn came(log: &str, fault: Fault) -> bool {
    match fault.act {
        Act::Kill => log.contains("killed by SIGKILL"),
        _ => log.contains("(INJECTED)"),
    }
}

/// Whether the fault was a failed sync of the engine's own data.
pub(super) fn broke_the_data(log: &str) -> bool {
    log.lines().any(|line| {
        let data = ["/db>", "/data.redb>"].iter().any(|name| line.contains(name));
        line.contains("(INJECTED)") && line.contains("sync(") && data
    })
}
