//! What a person reads when a command fails: what happened, whether their data is safe, and the
//! next command. Every text of that kind lives in this file and in its snapshots.
//!
//! Verbs build a [`Failure`]; `main` prints it and exits with its code. On `--json` it is one
//! object on standard error.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use tidings_wire::{Code, Problem};

/// How the program exits. The numbers are part of the command line's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: not done.
    Failed,
    /// 2: the command was not understood.
    Usage,
    /// 3: no daemon is running.
    NoDaemon,
    /// 4: something only the person can do comes first.
    NeedsYou,
    /// 78: the daemon cannot run until a person looked at it; a service manager must not restart it.
    NeedsPerson,
}

impl Exit {
    /// The number that the shell sees.
    pub const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NoDaemon => 3,
            Self::NeedsYou => 4,
            Self::NeedsPerson => 78,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// Why a command failed, in the three things that a person wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Names the kind of failure for programs.
    pub code: String,
    /// What happened, in one sentence.
    pub happened: String,
    /// Whether the data is safe, in one sentence.
    pub safe: String,
    /// The next command or step.
    pub next: String,
    /// How the program exits.
    pub exit: Exit,
}

impl Failure {
    fn new(
        code: &str,
        exit: Exit,
        happened: impl Into<String>,
        safe: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self {
            code: code.into(),
            happened: happened.into(),
            safe: safe.into(),
            next: next.into(),
            exit,
        }
    }

    /// No daemon answers on the socket of this home.
    pub fn no_daemon(socket: &Path, home: Option<&Path>) -> Self {
        let start = match home {
            Some(home) => format!("tidings daemon --home {}", quoted(home)),
            None => "tidings daemon".into(),
        };
        Self::new(
            "no_daemon",
            Exit::NoDaemon,
            format!("No daemon answers on {}.", socket.display()),
            "Your rows are on the disk of this computer; nothing was changed.",
            start,
        )
    }

    /// The home cannot be found, read or used.
    pub fn home(reason: impl fmt::Display) -> Self {
        Self::new(
            "home",
            Exit::Failed,
            sentence(reason),
            "Nothing was changed.",
            "name a directory with --home DIR or TIDINGS_HOME",
        )
    }

    /// The daemon cannot start.
    pub fn daemon(reason: impl fmt::Display, exit: Exit) -> Self {
        Self::new(
            "daemon",
            exit,
            format!("The daemon did not start. {}", sentence(reason)),
            "Your rows are where they were; nothing was changed.",
            "tidings doctor",
        )
    }

    /// The daemon ended in a way that it should not.
    pub fn daemon_stopped(reason: impl fmt::Display) -> Self {
        Self::new(
            "daemon.stopped",
            Exit::Failed,
            format!("The daemon ended. {}", sentence(reason)),
            "Every change that was confirmed is on the disk.",
            "tidings daemon",
        )
    }

    /// The verb needs an app and none was named.
    pub fn no_app() -> Self {
        Self::new(
            "usage.no_app",
            Exit::Usage,
            "Which app? None was named.",
            "Nothing was changed.",
            "add --app NAME or set TIDINGS_APP; tidings apps lists those that have data",
        )
    }

    /// An argument that cannot be read.
    pub fn argument(name: &str, reason: impl fmt::Display) -> Self {
        Self::new(
            "usage.argument",
            Exit::Usage,
            format!("{name} cannot be used: {}", sentence(reason)),
            "Nothing was changed.",
            "add --help to the command to see what it takes",
        )
    }

    /// A file or stream that cannot be read or written.
    pub fn io(doing: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::new(
            "io",
            Exit::Failed,
            format!("{doing}: {}", sentence(error)),
            "Nothing was changed.",
            "check the path and try again",
        )
    }

    /// Standard output cannot be written; a reader that went away is no failure.
    pub fn output(error: &std::io::Error) -> Self {
        let mut failure = Self::io("Writing the output", error);
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            failure.exit = Exit::Done;
        }
        failure
    }

    /// A file to import holds something that is not a row; found before anything was sent.
    pub fn bad_row(file: &str, place: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self::new(
            "import.bad_row",
            Exit::Failed,
            format!("{file}, {place}: {}", sentence(reason)),
            "Nothing was imported: a file is checked from start to end before its first row is sent.",
            "correct the file, then run the same command again",
        )
    }

    /// The daemon stopped an import part of the way.
    pub fn import_stopped(
        imported: u64,
        total: u64,
        place: Option<String>,
        cause: &Failure,
    ) -> Self {
        let place = place.map(|place| format!(" at {place}")).unwrap_or_default();
        Self::new(
            "import.stopped",
            cause.exit,
            format!("The import stopped{place}. {}", cause.happened),
            format!(
                "{imported} of {total} rows are imported and stay; importing them again changes nothing."
            ),
            match cause.exit {
                Exit::NoDaemon => format!("{}, then the same import again", cause.next),
                _ => "correct what is named above, then run the same command again".into(),
            },
        )
    }

    /// The daemon answered with a problem.
    pub fn problem(problem: &Problem) -> Self {
        let (exit, next) = next_step(problem);
        let safe = match problem.code {
            Code::StorageFull => "The change was not stored; what was stored before is safe.",
            Code::StoreUnavailable | Code::Internal => {
                "The change may not be stored; what was stored before is safe."
            }
            _ if is_unknown(problem) => {
                "The server may have done it all the same; the rows on this computer are safe."
            }
            _ => "Nothing was changed.",
        };
        let next = problem.hint.clone().unwrap_or(next);
        Self::new(problem.code.as_str(), exit, sentence(&problem.message), safe, next)
    }

    /// The same failure at one of several rows, when those before it are deleted.
    #[must_use]
    pub fn at_row(mut self, id: &str, deleted: usize, total: usize) -> Self {
        if total > 1 {
            self.happened = format!("{id}: {}", self.happened);
        }
        if deleted > 0 {
            self.safe = format!(
                "The {deleted} of {total} rows before it are deleted; the others were not touched."
            );
        }
        self
    }

    /// The connection to the daemon broke off.
    pub fn lost(reason: impl fmt::Display) -> Self {
        Self::new(
            "lost",
            Exit::Failed,
            format!("The daemon went away in the middle of the command. {}", sentence(reason)),
            "A change that was not confirmed may or may not be stored; everything confirmed is.",
            "tidings status",
        )
    }

    /// Something this program did not expect.
    pub fn unexpected(reason: impl fmt::Display) -> Self {
        Self::new(
            "unexpected",
            Exit::Failed,
            sentence(reason),
            "What was stored before is safe.",
            "tidings doctor",
        )
    }

    /// A check of `tidings doctor` found something.
    pub fn doctor(found: usize, exit: Exit) -> Self {
        Self::new(
            "doctor",
            exit,
            match found {
                1 => "One check did not pass.".into(),
                found => format!("{found} checks did not pass."),
            },
            "Each line above says what it means for your data.",
            "follow the steps after the arrows, then run tidings doctor again",
        )
    }

    /// An account was recovered, and its kit was not replaced.
    pub fn no_new_kit(reason: impl fmt::Display) -> Self {
        Self::new(
            "recovery.no_new_kit",
            Exit::NeedsYou,
            format!("No new recovery kit could be made: {}", sentence(reason)),
            "This computer is in the account again; the words that you typed still work.",
            "tidings recovery kit",
        )
    }

    /// The demo has no server program to start.
    pub fn no_server_program() -> Self {
        Self::new(
            "demo.no_server",
            Exit::Failed,
            "The demo needs the program tidings-server, and it is neither beside this one nor in PATH.",
            "Nothing was changed.",
            "cargo build --release -p tidings-server",
        )
    }

    /// The demo was asked to stop before it was done.
    pub fn demo_interrupted() -> Self {
        Self::new(
            "demo.interrupted",
            Exit::Failed,
            "The demo was stopped before it was done.",
            "Its programs are ended and its directory is gone; your own data was not touched.",
            "tidings demo",
        )
    }

    /// A phase of the demo failed.
    pub fn demo(phase: &str, reason: impl fmt::Display) -> Self {
        Self::new(
            "demo.failed",
            Exit::Failed,
            format!("The demo stopped while {phase}. {}", sentence(reason)),
            "It works in a directory of its own, which is gone now; your own data was not touched.",
            "run it again with --keep to keep that directory and its logs",
        )
    }

    /// The demo ran to its end and the result is not what was promised.
    pub fn demo_result(reason: &str) -> Self {
        Self::new(
            "demo.wrong_result",
            Exit::Failed,
            reason,
            "It works in a directory of its own; your own data was not touched.",
            "run it again with --keep, and report it with the directory that it names",
        )
    }

    /// The failure as one JSON object.
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "error": {
                "code": self.code,
                "message": self.happened,
                "safe": self.safe,
                "next": self.next,
                "exit": self.exit.number(),
            }
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.happened)?;
        writeln!(f, "{}", self.safe)?;
        write!(f, "Next: {}", self.next)
    }
}

/// Whether nobody can say what became of it: the server's answer was lost.
fn is_unknown(problem: &Problem) -> bool {
    problem.details.as_ref().is_some_and(|details| details["outcome"] == "unknown")
}

/// What to do about a problem that came without a hint, and how to exit.
fn next_step(problem: &Problem) -> (Exit, String) {
    let text = |text: &str| text.to_owned();
    match problem.code {
        Code::NoAccount => (
            Exit::NeedsYou,
            text(
                "tidings account create URL on your first computer, tidings login URL on the others",
            ),
        ),
        Code::AccountExists => (Exit::Failed, text("tidings status")),
        Code::InviteRequired => {
            (Exit::NeedsYou, text("ask who runs the server for an invite, then add --invite CODE"))
        }
        Code::InviteInvalid => {
            (Exit::NeedsYou, text("ask who runs the server for a new invite: each works once"))
        }
        Code::MailboxNotFound => (
            Exit::NeedsYou,
            text("tidings login URL on the new computer shows a new code; each lasts ten minutes"),
        ),
        Code::AuthRequired | Code::TokenExpired | Code::TokenInvalid => (
            Exit::NeedsYou,
            text("run the command as the user who runs the daemon, with the same --home"),
        ),
        Code::DeviceRevoked => (Exit::NeedsYou, text("tidings login URL")),
        Code::AccountPresent => (Exit::Failed, text("tidings account show")),
        Code::KeysLocked => (
            Exit::NeedsYou,
            text("unlock the keychain of your desktop; the daemon goes on by itself"),
        ),
        Code::PairWrongCode | Code::PairEnded => {
            (Exit::NeedsYou, text("tidings login URL on the new computer shows a new code"))
        }
        Code::AppNotFound => (Exit::Failed, text("tidings apps")),
        Code::TableNotFound => (Exit::Failed, text("tidings tables")),
        Code::RowNotFound => (Exit::Failed, text("tidings query TABLE")),
        Code::RowExists => {
            (Exit::Failed, text("tidings put replaces a row, tidings patch changes it"))
        }
        Code::VersionMismatch => {
            (Exit::Failed, text("tidings get TABLE ID shows the row and its version now"))
        }
        Code::StorageFull => (Exit::Failed, text("free some space on this disk, then try again")),
        Code::UpstreamFailed | Code::Unavailable => {
            (Exit::Failed, text("tidings doctor checks the way to the server"))
        }
        Code::RateLimited | Code::StreamLimit => match problem.retry_after {
            Some(seconds) => (Exit::Failed, format!("try again in {seconds} s")),
            None => (Exit::Failed, text("try again in a while")),
        },
        Code::StoreUnavailable | Code::Internal => (Exit::Failed, text("tidings doctor")),
        _ => (Exit::Failed, text("add --help to the command to see what it takes")),
    }
}

/// Ends a text like a sentence and starts it like one.
fn sentence(text: impl fmt::Display) -> String {
    let text = text.to_string();
    let text = text.trim();
    let mut characters = text.chars();
    let mut sentence = match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect::<String>(),
        None => "Something went wrong".into(),
    };
    if !sentence.ends_with(['.', '!', '?']) {
        sentence.push('.');
    }
    sentence
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let socket = Path::new("/run/user/1000/tidings/tidings.sock");
        let lost = std::io::Error::other("broken pipe");
        let mut all = vec![
            Failure::no_daemon(socket, None),
            Failure::no_daemon(socket, Some(Path::new("/tmp/it's here"))),
            Failure::home("HOME is not set"),
            Failure::daemon("another daemon (process 4711) uses this home", Exit::NeedsPerson),
            Failure::daemon_stopped("the store stopped: no space left on device"),
            Failure::no_app(),
            Failure::demo_interrupted(),
            Failure::demo_result("The two devices do not hold the same rows."),
            Failure::argument("--filter", "expected `}` at byte 7"),
            Failure::io("Reading movies.json", &lost),
            Failure::bad_row("movies.json", "row 12 (line 345)", "a lone surrogate"),
            Failure::import_stopped(
                2000,
                3201,
                Some("row 2012 (line 40)".into()),
                &Failure::problem(&Problem::new(Code::RowInvalid, "the row is too large")),
            ),
            Failure::import_stopped(2000, 3201, None, &Failure::no_daemon(socket, None)),
            Failure::lost("connection reset"),
            Failure::unexpected("an answer without an id"),
            Failure::doctor(1, Exit::NeedsYou),
            Failure::no_new_kit("the server cannot be reached"),
            Failure::problem(&Problem {
                details: Some(json!({ "outcome": "unknown" })),
                ..Problem::new(Code::UpstreamFailed, "the server did not answer in time")
            }),
            Failure::no_server_program(),
            Failure::demo("linking the second device", "no code within 20 s"),
        ];
        all.extend(
            Code::ALL.iter().map(|code| {
                Failure::problem(&Problem::new(*code, format!("what happened ({code})")))
            }),
        );
        let text = all
            .iter()
            .map(|failure| {
                format!("[{} → exit {}]\n{failure}\n", failure.code, failure.exit.number())
            })
            .collect::<Vec<_>>()
            .join("\n");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn every_text_has_the_three_things() {
        for code in Code::ALL {
            let failure = Failure::problem(&Problem::new(*code, "m"));
            assert!(!failure.happened.is_empty() && !failure.safe.is_empty());
            assert!(!failure.next.is_empty(), "{code}");
        }
    }
}
