//! Child programs that cannot outlive the demo.
//!
//! Each runs in a process group of its own, so that Ctrl-C reaches the demo alone and children
//! stop in order. On Linux they start through `tidings tied`, which asks the kernel to end the
//! program if the demo dies without a word.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};

use crate::cli::failure::Failure;

/// A running child with its log.
#[derive(Debug)]
pub struct Program {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

/// How long a program has to stop by itself.
const GRACE: Duration = Duration::from_secs(10);

impl Program {
    /// Starts a program; what it prints goes to the file `log`.
    ///
    /// # Errors
    /// The log cannot be written or the program not be started.
    pub fn start<'a>(
        name: &'static str,
        program: &Path,
        arguments: impl IntoIterator<Item = &'a OsStr>,
        log: &Path,
    ) -> io::Result<Self> {
        let output = File::create(log)?;
        let mut command = tied_command(program)?;
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true);
        forget_settings(&mut command);
        #[cfg(unix)]
        command.process_group(0);
        Ok(Self { name, child: command.spawn()?, log: log.to_owned() })
    }

    /// What the program is called in messages.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits until it has done its work.
    ///
    /// # Errors
    /// It failed; the error is what it said.
    pub async fn finished(&mut self) -> io::Result<()> {
        match self.child.wait().await?.success() {
            true => Ok(()),
            false => Err(io::Error::other(self.last_words())),
        }
    }

    /// The last lines of its log.
    pub fn last_words(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().collect();
        lines.get(lines.len().saturating_sub(5)..).unwrap_or_default().join("\n")
    }

    /// All it has printed.
    pub fn log(&self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(&self.log)?).into_owned())
    }

    /// Asks it to stop and waits; ends it by force if it does not.
    pub async fn stop(mut self) {
        #[cfg(unix)]
        if let Some(pid) = self.child.id().and_then(|id| i32::try_from(id).ok()) {
            let pid = rustix::process::Pid::from_raw(pid);
            if let Some(pid) = pid {
                // It may have ended by itself in this moment.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            if tokio::time::timeout(GRACE, self.child.wait()).await.is_ok() {
                return;
            }
        }
        // Nothing more can be done where even this fails.
        let _ = self.child.kill().await;
    }
}

/// The settings of the person who runs the demo are not the demo's.
fn forget_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TIDINGS_") {
            command.env_remove(name);
        }
    }
}

#[cfg(target_os = "linux")]
fn tied_command(program: &Path) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("tied").arg(std::process::id().to_string()).arg(program);
    Ok(command)
}

#[cfg(not(target_os = "linux"))]
fn tied_command(program: &Path) -> io::Result<Command> {
    Ok(Command::new(program))
}

/// Arguments of the hidden verb `tied`.
#[derive(Debug, clap::Args)]
pub struct TiedArgs {
    /// Process id of the program that this one is tied to.
    parent: u32,
    /// The program to become.
    program: PathBuf,
    /// Its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<std::ffi::OsString>,
}

/// Ties this process to its parent's life, then becomes the program.
///
/// # Errors
/// The parent is gone already, or the program cannot be started.
pub fn run_tied(args: TiedArgs) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::io("Starting a program of the demo", &error);
    #[cfg(target_os = "linux")]
    {
        let signal = Some(rustix::process::Signal::TERM);
        rustix::process::set_parent_process_death_signal(signal)
            .map_err(|errno| failed(errno.into()))?;
        let parent =
            rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
        if parent != Some(args.parent) {
            return Err(failed(io::Error::other("the demo is gone")));
        }
    }
    let mut command = std::process::Command::new(&args.program);
    command.args(&args.arguments);
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        Err(failed(command.exec()))
    }
    #[cfg(not(unix))]
    {
        command.status().map_err(failed).map(|_| ())
    }
}
