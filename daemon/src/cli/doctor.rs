//! `tidings doctor`: everything that sync depends on, one line each, with the next step.

use std::path::PathBuf;

use serde::Serialize;
use tidings_client::local::LocalError;
use tidings_client::socket::{OWNER_TOKEN_NAME, Places};
use tidings_wire::local::{StatusAnswer, SyncState};

use super::connect::Local;
use super::context::Context;
use super::failure::{Exit, Failure};
use super::status::{NO_KIT, describe, headline};

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    /// What was looked at.
    check: &'static str,
    /// Whether it is in order.
    ok: bool,
    /// What was found.
    found: String,
    /// The next step, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    #[serde(skip)]
    exit: Exit,
}

impl Check {
    fn fine(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, ok: true, found: found.into(), next: None, exit: Exit::Done }
    }

    fn wrong(
        check: &'static str,
        exit: Exit,
        found: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { check, ok: false, found: found.into(), next: Some(next.into()), exit }
    }
}

/// Looks at everything and prints what it found.
pub async fn run(_: Args, context: Context) -> Result<(), Failure> {
    let mut checks = Vec::new();
    match Places::find(context.home.as_deref()) {
        Err(error) => {
            checks.push(Check::wrong("home", Exit::Failed, error.to_string(), "set --home DIR"));
        }
        Ok(places) => {
            checks.push(home(&places));
            daemon(&context, &places, &mut checks).await?;
        }
    }
    for check in &checks {
        match context.out.is_json() {
            true => context.out.json_line(check)?,
            false => {
                let mark = if check.ok { "ok" } else { "!!" };
                context.out.line(format!("{mark}  {:<9} {}", check.check, check.found))?;
                if let Some(next) = &check.next {
                    context.out.line(format!("              → {next}"))?;
                }
            }
        }
    }
    let wrong: Vec<_> = checks.iter().filter(|check| !check.ok).collect();
    match wrong.first() {
        None => Ok(()),
        Some(first) => Err(Failure::doctor(wrong.len(), first.exit)),
    }
}

/// Whether the home is this user's alone.
fn home(places: &Places) -> Check {
    let shown = places.data.display();
    match std::fs::metadata(&places.data) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Check::fine("home", format!("{shown} (made when the daemon first starts)"))
        }
        Err(error) => Check::wrong(
            "home",
            Exit::Failed,
            format!("{shown}: {error}"),
            "make the directory readable to your user, or name another with --home",
        ),
        Ok(metadata) => match unwritable(places) {
            Some((dir, error)) => Check::wrong(
                "home",
                Exit::NeedsYou,
                format!("{} cannot be written: {error}; nothing stored is lost", dir.display()),
                WRITABLE,
            ),
            None => private(places, &metadata),
        },
    }
}

/// What to do about a disk that takes no writes.
const WRITABLE: &str = "make it writable for your user (a disk that failed is mounted read-only: \
                        the system's log says why), then start the daemon again";

/// The directory of the home that takes no writes, and why.
#[cfg(unix)]
fn unwritable(places: &Places) -> Option<(PathBuf, std::io::Error)> {
    use rustix::fs::{Access, access};
    let dirs = [places.data.clone(), places.data.join("store")];
    dirs.into_iter().filter(|dir| dir.exists()).find_map(|dir| {
        let error = access(&dir, Access::WRITE_OK).err()?;
        Some((dir, error.into()))
    })
}

#[cfg(not(unix))]
fn unwritable(_: &Places) -> Option<(PathBuf, std::io::Error)> {
    None
}

#[cfg(unix)]
fn private(places: &Places, metadata: &std::fs::Metadata) -> Check {
    use std::os::unix::fs::PermissionsExt;
    let shown = places.data.display();
    let mode = |metadata: &std::fs::Metadata| metadata.permissions().mode() & 0o777;
    let token = places.data.join(OWNER_TOKEN_NAME);
    if let Ok(token_metadata) = std::fs::metadata(&token)
        && mode(&token_metadata) & 0o077 != 0
    {
        let shown = token.display();
        return Check::wrong(
            "home",
            Exit::NeedsYou,
            format!("{shown} can be read by other users"),
            format!("chmod 600 {shown}"),
        );
    }
    match mode(metadata) & 0o077 {
        0 => Check::fine("home", format!("{shown}, this user's alone; rows in it are plain files")),
        _ => Check::wrong(
            "home",
            Exit::NeedsYou,
            format!("{shown} can be read by other users, and the rows in it are plain files"),
            format!("chmod 700 {shown}"),
        ),
    }
}

#[cfg(not(unix))]
fn private(places: &Places, _: &std::fs::Metadata) -> Check {
    Check::fine("home", places.data.display().to_string())
}

async fn daemon(
    context: &Context,
    places: &Places,
    checks: &mut Vec<Check>,
) -> Result<(), Failure> {
    let local = Local::at(places, context.home.as_deref())?;
    let ping = match local.client.ping().await {
        Ok(ping) => ping,
        Err(error) => {
            let exit = match error {
                LocalError::NoDaemon { .. } => Exit::NoDaemon,
                _ => Exit::Failed,
            };
            let failure = local.failure(error);
            checks.push(Check::wrong("daemon", exit, failure.happened, failure.next));
            return Ok(());
        }
    };
    let own = env!("CARGO_PKG_VERSION");
    let socket = places.socket.display();
    let found = format!("version {}, process {}, on {socket}", ping.version, ping.pid);
    checks.push(match ping.version == own {
        true => Check::fine("daemon", found),
        false => Check::wrong(
            "daemon",
            Exit::NeedsYou,
            format!("{found}, but this program is version {own}"),
            "restart the daemon",
        ),
    });
    checks.push(match local.client.health().await {
        Ok(health) if health.ok => Check::fine("store", "takes writes"),
        Ok(_) => Check::wrong(
            "store",
            Exit::Failed,
            "does not take writes; reading works and nothing stored is lost",
            "see what is said of sync below",
        ),
        Err(error) => {
            let failure = local.failure(error);
            Check::wrong("store", failure.exit, failure.happened, failure.next)
        }
    });
    match local.client.status().await {
        Ok(status) => {
            account(&local, &status, checks).await;
            checks.extend(kit(&status));
            sync(&status, checks);
        }
        Err(error) => {
            let failure = local.failure(error);
            checks.push(Check::wrong("sync", failure.exit, failure.happened, failure.next));
        }
    }
    Ok(())
}

/// Whether there is an account, and where its keys lie.
async fn account(local: &Local, status: &StatusAnswer, checks: &mut Vec<Check>) {
    if status.account.is_none() {
        checks.push(Check::wrong(
            "account",
            Exit::NeedsYou,
            "none yet: apps work, nothing is synced",
            "tidings account create URL on your first computer, tidings login URL on the others",
        ));
        return;
    }
    match local.account().await {
        Ok(account) => {
            let (id, name) = (account.account, account.name);
            checks.push(Check::fine("account", format!("{id}, this computer is {name:?} in it")));
            checks.push(Check::fine(
                "keys",
                match account.keystore.as_str() {
                    "keychain" => "in the keychain of this desktop",
                    _ => "in a file that only this user can read",
                },
            ));
        }
        Err(failure) => {
            checks.push(Check::wrong("account", failure.exit, failure.happened, failure.next));
        }
    }
}

/// Whether something brings the account back once every computer is lost. That nothing does is no
/// fault, only a reminder.
fn kit(status: &StatusAnswer) -> Option<Check> {
    Some(match status.recovery_kit? {
        true => Check::fine("recovery", "there is a recovery kit that works"),
        false => {
            let next = Some("tidings recovery kit".to_owned());
            Check { next, ..Check::fine("recovery", NO_KIT) }
        }
    })
}

/// What the daemon says of its server and its apps.
fn sync(status: &StatusAnswer, checks: &mut Vec<Check>) {
    checks.extend(server(status));
    let found = headline(status);
    let wrong = |exit, next: &str| Check::wrong("sync", exit, found.clone(), next);
    let check = match status.state {
        SyncState::Starting | SyncState::Synced | SyncState::Syncing => {
            Some(Check::fine("sync", found.clone()))
        }
        // Said already: there is no account.
        SyncState::Local => None,
        SyncState::Offline => Some(wrong(
            Exit::Failed,
            "check the network and the server; the daemon goes on trying by itself",
        )),
        SyncState::Waiting => Some(wrong(Exit::NeedsYou, "see the reason in parentheses")),
        SyncState::Reauth | SyncState::Revoked => {
            Some(wrong(Exit::NeedsYou, "tidings login URL links this computer again"))
        }
        SyncState::Degraded => Some(wrong(
            Exit::NeedsYou,
            match status.alarms.iter().any(|alarm| alarm.code == READ_ONLY) {
                true => WRITABLE,
                false => "free some space on this disk; the daemon goes on by itself then",
            },
        )),
        SyncState::Damaged => Some(wrong(
            Exit::NeedsPerson,
            "keep a copy of the home, then link this computer anew: tidings login URL",
        )),
    };
    checks.extend(check);
    for app in status.apps.iter().filter(|app| app.quarantined > 0) {
        checks.push(Check::wrong(
            "app",
            Exit::Failed,
            format!("{}: {} changes arrived that do not open", app.id, app.quarantined),
            "they are kept; update Tidings on this computer, then restart the daemon",
        ));
    }
    for alarm in &status.alarms {
        checks.push(Check::wrong(
            "alarm",
            Exit::NeedsYou,
            format!("{} (since {}; {})", alarm.message, alarm.since, alarm.code),
            remedy(&alarm.code, status.state),
        ));
    }
}

/// Whether the server can be asked, and how old what it proved is.
fn server(status: &StatusAnswer) -> Option<Check> {
    let server = status.server.as_ref()?;
    let proven = match &status.proven_at {
        Some(at) => format!("last proof of what it holds at {at}"),
        None => "no proof of what it holds yet".to_owned(),
    };
    Some(match status.state {
        SyncState::Offline => Check::wrong(
            "server",
            Exit::Failed,
            format!("{server} cannot be reached; {proven}"),
            "is the address right, and does the server run? its log says more",
        ),
        _ => Check::fine("server", format!("{server}, {proven}")),
    })
}

/// The code of the alarm about a disk that turned read-only.
const READ_ONLY: &str = crate::disk::Trouble::ReadOnly.code();

/// What to do about an alarm.
fn remedy(code: &str, state: SyncState) -> &'static str {
    match code {
        _ if describe(state).0 == "revoked" => "tidings login URL links this computer again",
        "clock_differs" => {
            "set this computer's clock right, or tell whoever runs the server if it is the server's"
        }
        "clock_ahead" => "set that computer's clock right",
        "bad_blob" => "update Tidings on this computer, then restart the daemon",
        "stream_buffered" => {
            "tell whoever runs the server: the proxy has to pass /api/sync/subscribe on unbuffered \
             and uncompressed (nginx: proxy_buffering off, and no text/event-stream in gzip_types)"
        }
        READ_ONLY => WRITABLE,
        "disk_full" => "free some space on this disk; the daemon goes on by itself then",
        _ => "tell whoever runs the server, with these words",
    }
}
