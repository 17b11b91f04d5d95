//! The program that is swept: brought to the same beginning each time, led through the script, and
//! looked at afterwards.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;
use tidings_client::ErrorKind;
use tidings_disk::Disk;
use tidings_wire::AppId;

use super::fault::{Act, Fault, Phase};
use super::trace::{Seen, Trace, broke_the_data, came};
use super::{SCRIPT, Swept};
use crate::process::Process;
use crate::soak::pushes::Pushes;
use crate::soak::rows::{Rows, TABLE};
use crate::wait::DEADLINE;
use crate::{Device, Server};

/// Which program is swept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The server over an engine: `sled` or `redb`.
    Server(&'static str),
    /// The daemon.
    Daemon,
}

/// A program and all that it needs.
#[derive(Debug)]
pub struct Program {
    sides: Sides,
    /// Its directory, and a copy of it from before everything.
    dir: PathBuf,
    before: TempDir,
    disk: Disk,
    files: BTreeSet<String>,
}

#[derive(Debug)]
enum Sides {
    Server { server: Box<Server>, pushes: Box<Pushes> },
    Daemon { device: Box<Device>, rows: Rows, app: AppId },
}

/// What one run of the script came to.
#[derive(Debug, Default)]
struct Run {
    acknowledged: u64,
    refused: u64,
    /// Acknowledged after the first refusal.
    after: u64,
}

impl Program {
    /// Makes the beginning: an account, and something in it.
    pub(super) async fn prepare(subject: Subject) -> Self {
        let (sides, dir) = match subject {
            Subject::Server(engine) => {
                let settings = [
                    "rates.address=off",
                    "rates.account=off",
                    "timeouts.drain=1s",
                    "auth.token_life=24h",
                ];
                let mut server = Server::over(engine, &settings);
                let mut pushes = Pushes::start(&server.url(), 1).await;
                for _ in 0..3 {
                    pushes.push_one().await.expect("a push");
                }
                server.stop();
                let dir = server.store_dir();
                (Sides::Server { server: Box::new(server), pushes: Box::new(pushes) }, dir)
            }
            Subject::Daemon => {
                let mut server = Server::start();
                let mut device = Device::start("a").await;
                device.create_account(&server.url()).await;
                let app: AppId = "soak".parse().expect("an app");
                let mut rows = Rows::new("a", 1);
                for _ in 0..3 {
                    rows.write_one(device.client(), &app).await.expect("a write");
                }
                device.synced().await;
                device.stop();
                // From now on the daemon is offline: what it writes is its own.
                server.stop();
                let dir = device.home();
                (Sides::Daemon { device: Box::new(device), rows, app }, dir)
            }
        };
        let below: &[&str] = if subject == Subject::Daemon { &["store"] } else { &[] };
        let disk = Disk::under_dir(&dir, below);
        let before = TempDir::new().expect("a directory");
        copy(&dir, &before.path().join("before"));
        Self { sides, dir, before, disk, files: BTreeSet::new() }
    }

    /// Runs the script without a fault and notes what is called.
    pub(super) async fn profile(&mut self) -> Result<Seen, String> {
        let mut seen = Seen::default();
        for phase in [Phase::Opening, Phase::Serving] {
            self.restore();
            let log = self.before.path().join("log");
            let trace = self.begin(phase, &log, None).await?;
            if phase == Phase::Serving {
                let mut sides = self.sides.clone_promises();
                let run = script(&mut self.sides, &mut sides).await?;
                if run.refused > 0 {
                    return Err(format!("without a fault {} operations failed", run.refused));
                }
            }
            let status = self.stop();
            if !status.success() {
                return Err(format!("without a fault it ended with {status}"));
            }
            seen.read(phase, &trace.ended(), &self.dir);
        }
        self.files = seen.files.clone();
        Ok(seen)
    }

    /// Runs the script with a fault, and then looks at what is left.
    pub(super) async fn suffer(&mut self, fault: Fault, swept: &mut Swept) -> Result<(), String> {
        self.restore();
        let mut promises = self.sides.clone_promises();
        let log = self.before.path().join("log");
        let traced = fault.act.injection().is_some();
        let trace = match traced {
            true => self.begin(fault.phase, &log, Some(fault)).await.map(Some),
            false => self.begin_on_disk(fault).await.map(|()| None),
        };
        let opened = trace.is_ok();
        let run = match opened {
            true => script(&mut self.sides, &mut promises).await?,
            false => Run::default(),
        };
        let (ended, by_itself) = self.wait_or_stop(&run);
        let said = self.process().log();
        let log = match trace {
            Ok(Some(trace)) => trace.ended(),
            _ => std::fs::read_to_string(&log).unwrap_or_default(),
        };
        self.end();
        let hit = if traced { came(&log, fault) } else { self.disk.came() };
        if !traced {
            self.disk.spare();
        }
        // sled panics where it cannot sync while it is let go of; that is caught.
        let ours = |line: &str| line.contains("panicked at") && !line.contains("/sled-");
        if said.lines().any(ours) {
            return Err(format!("a panic:\n{said}"));
        }
        let killed = matches!(fault.act, Act::Kill | Act::Torn);
        let as_told = matches!(ended.code(), Some(0 | 1 | 78)) || (killed && hit);
        if !as_told {
            return Err(format!("it ended with {ended}:\n{said}"));
        }
        if hit {
            swept.faults += 1;
        } else {
            swept.missed += 1;
        }
        swept.acknowledged += run.acknowledged;
        swept.refused += run.refused;
        swept.unopened += u64::from(!opened);
        swept.ended += u64::from(opened && by_itself && !ended.success());
        if opened && traced && broke_the_data(&log) {
            // Nobody knows what is on the disk: no more promises, and no more life.
            if run.after > 0 {
                return Err(format!("{} promises after a failed sync", run.after));
            }
            if ended.success() {
                return Err(format!("it says that all is well after a failed sync:\n{said}"));
            }
        }
        if !hit && (run.refused > 0 || !opened) {
            return Err(format!("without a fault it refused or did not start:\n{said}"));
        }
        self.look(&mut promises).await.map_err(|wrong| format!("{wrong}\n---- said:\n{said}"))
    }

    /// A start without a fault: everything promised is there, one more promise is kept, and it
    /// stops well.
    async fn look(&mut self, promises: &mut Promises) -> Result<(), String> {
        self.sides.begin(|_| {});
        self.sides.served().await.map_err(|said| format!("does not start again: {said}"))?;
        promises.check(&self.sides).await?;
        promises.one(&self.sides).await.map_err(|refusal| match refusal {
            Refusal::Typed(text) | Refusal::Odd(text) => format!("afterwards refused: {text}"),
            Refusal::Gone => "afterwards gone".to_owned(),
        })?;
        promises.check(&self.sides).await?;
        let status = self.stop();
        self.end();
        if status.success() { Ok(()) } else { Err(format!("afterwards it ended with {status}")) }
    }

    /// Brings the directory back to its beginning.
    fn restore(&self) {
        if self.dir.exists() {
            std::fs::remove_dir_all(&self.dir).expect("the directory of the last run");
        }
        copy(&self.before.path().join("before"), &self.dir);
    }

    /// Starts it with strace at its side from the first instruction, or once it serves.
    async fn begin(
        &mut self,
        phase: Phase,
        log: &Path,
        fault: Option<Fault>,
    ) -> Result<Trace, String> {
        match phase {
            Phase::Opening => {
                self.sides.begin(stopped);
                let id = self.process().id();
                halted(id)?;
                let trace = Trace::attach(id, log, &self.files, fault)?;
                self.process().signal(Signal::CONT);
                if let Err(said) = self.sides.served().await {
                    drop(trace.ended());
                    return Err(said);
                }
                Ok(trace)
            }
            Phase::Serving => {
                self.sides.begin(|_| {});
                self.sides.served().await?;
                Trace::attach(self.process().id(), log, &self.files, fault)
            }
        }
    }

    /// Starts it on the disk of the tests.
    async fn begin_on_disk(&mut self, fault: Fault) -> Result<(), String> {
        let act = match fault.act {
            Act::Torn => tidings_disk::Act::Torn,
            _ => tidings_disk::Act::Short,
        };
        let disk = &self.disk;
        if fault.phase == Phase::Opening {
            disk.at(fault.kth, act);
        }
        self.sides.begin(|command| disk.under(command));
        self.sides.served().await?;
        if fault.phase == Phase::Serving {
            self.disk.at(fault.kth, act);
        }
        Ok(())
    }

    /// Waits for an end that a refusal announces; without one, asks it to stop. Answers how it
    /// ended, and whether by itself.
    fn wait_or_stop(&mut self, run: &Run) -> (ExitStatus, bool) {
        let patience = if run.refused > 0 { Duration::from_secs(1) } else { Duration::ZERO };
        let late = Instant::now() + patience;
        while self.process().runs() && Instant::now() < late {
            std::thread::sleep(Duration::from_millis(5));
        }
        if self.process().runs() {
            return (self.stop(), false);
        }
        (self.process().ended(DEADLINE), true)
    }

    fn stop(&mut self) -> ExitStatus {
        self.process().signal(Signal::TERM);
        self.process().ended(DEADLINE)
    }

    /// Lets go of a program that has ended.
    fn end(&mut self) {
        match &mut self.sides {
            Sides::Server { server, .. } => server.kill(),
            Sides::Daemon { device, .. } => device.kill(),
        }
    }

    fn process(&mut self) -> &mut Process {
        match &mut self.sides {
            Sides::Server { server, .. } => server.process(),
            Sides::Daemon { device, .. } => device.process(),
        }
    }
}

impl Sides {
    fn begin(&mut self, prepare: impl FnOnce(&mut Command)) {
        match self {
            Self::Server { server, .. } => {
                server.kill();
                server.begin_with(prepare);
            }
            Self::Daemon { device, .. } => {
                device.kill();
                device.begin_with(prepare);
            }
        }
    }

    async fn served(&mut self) -> Result<(), String> {
        match self {
            Self::Server { server, .. } => server.served(),
            Self::Daemon { device, .. } => device.served().await,
        }
    }

    /// What was promised before everything.
    fn clone_promises(&self) -> Promises {
        match self {
            Self::Server { pushes, .. } => Promises::Pushes(pushes.clone()),
            Self::Daemon { rows, .. } => Promises::Rows(rows.clone()),
        }
    }
}

/// What was promised.
#[derive(Debug)]
enum Promises {
    Pushes(Box<Pushes>),
    Rows(Rows),
}

/// Why an operation was not acknowledged.
#[derive(Debug)]
enum Refusal {
    /// The program said so, and what to do.
    Typed(String),
    /// The program is not there.
    Gone,
    /// It said something that it must not say.
    Odd(String),
}

impl Promises {
    async fn one(&mut self, sides: &Sides) -> Result<(), Refusal> {
        match (self, sides) {
            (Self::Pushes(pushes), _) => pushes.push_one().await.map_err(|error| {
                let gone = !matches!(error, tidings_client::remote::ClientError::Problem { .. });
                refusal(gone, error.kind(), error.to_string())
            }),
            (Self::Rows(rows), Sides::Daemon { device, app, .. }) => {
                rows.write_one(device.client(), app).await.map_err(|error| {
                    let gone = !matches!(error, tidings_client::local::LocalError::Problem { .. });
                    refusal(gone, error.kind(), error.to_string())
                })
            }
            (Self::Rows(_), Sides::Server { .. }) => Ok(()),
        }
    }

    async fn check(&mut self, sides: &Sides) -> Result<(), String> {
        let tally = &mut crate::soak::Tally::default();
        match (self, sides) {
            (Self::Pushes(pushes), _) => pushes.check(true, tally).await,
            (Self::Rows(rows), Sides::Daemon { device, app, .. }) => {
                rows.settle(&device.rows(app, TABLE).await, tally)
            }
            (Self::Rows(_), Sides::Server { .. }) => Ok(()),
        }
    }
}

fn refusal(gone: bool, kind: ErrorKind, text: String) -> Refusal {
    match (gone, kind) {
        (true, ErrorKind::Retry) => Refusal::Gone,
        (false, ErrorKind::Retry) => Refusal::Typed(text),
        _ => Refusal::Odd(text),
    }
}

/// The script. It goes on over refusals, and ends where the program is gone.
async fn script(sides: &mut Sides, promises: &mut Promises) -> Result<Run, String> {
    let mut run = Run::default();
    for _ in 0..SCRIPT {
        match promises.one(sides).await {
            Ok(()) => {
                run.acknowledged += 1;
                run.after += u64::from(run.refused > 0);
            }
            Err(Refusal::Typed(_)) => run.refused += 1,
            Err(Refusal::Gone) => {
                run.refused += 1;
                break;
            }
            Err(Refusal::Odd(text)) => return Err(format!("no answer to a fault: {text}")),
        }
    }
    Ok(run)
}

/// A command that halts itself before its program begins, until somebody lets it go on.
fn stopped(command: &mut Command) {
    let mut outer = Command::new("sh");
    outer.args(["-c", "kill -STOP $$ && exec \"$@\"", "sh"]);
    outer.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    *command = outer;
}

/// Waits until a process has halted itself.
fn halted(id: u32) -> Result<(), String> {
    let late = Instant::now() + DEADLINE;
    while Instant::now() < late {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        if stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T')) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err("the program did not halt before it began".to_owned())
}

/// Copies a directory as it is, holes and times included.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").args(["-a", "--sparse=always"]).arg(from).arg(to).status();
    assert!(status.is_ok_and(|status| status.success()), "copying {}", from.display());
}
