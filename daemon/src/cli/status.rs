//! `tidings status`.

use tidings_wire::local::{StatusAnswer, SyncState};

use super::context::Context;
use super::failure::Failure;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Prints what the daemon does and how far each app is synced.
pub async fn run(_: Args, context: Context) -> Result<(), Failure> {
    let local = context.local()?;
    let status = local.ask(local.client.status()).await?;
    if context.out.is_json() {
        return context.out.json_line(&status);
    }
    context.out.line(headline(&status))?;
    if let Some(server) = &status.server {
        context.out.line(format!("server: {server}"))?;
    }
    if let Some(proven) = &status.proven_at {
        context.out.line(format!("last proof of what the server holds: {proven}"))?;
    }
    let apps: Vec<_> = status
        .apps
        .iter()
        .map(|app| {
            let first = if app.complete { "" } else { "first sync is running" };
            vec![
                app.id.to_string(),
                app.pending.to_string(),
                app.quarantined.to_string(),
                first.to_owned(),
            ]
        })
        .collect();
    if !apps.is_empty() {
        context.out.columns(&["app", "waiting to be sent", "unreadable", ""], &apps)?;
    }
    if status.recovery_kit == Some(false) && status.state != SyncState::Revoked {
        context.out.line(format!("{NO_KIT}: tidings recovery kit"))?;
    }
    if status.state == SyncState::Revoked {
        let unsent: u64 = status.apps.iter().map(|app| app.pending).sum();
        if unsent > 0 {
            context.out.line(format!(
                "{unsent} changes were never sent: tidings export --unsent writes them out"
            ))?;
        }
        context.out.line("tidings login URL links this computer again")?;
    }
    for alarm in &status.alarms {
        context.out.line(format!("! {} (since {}; {})", alarm.message, alarm.since, alarm.code))?;
    }
    Ok(())
}

/// What is said where nothing brings the account back once every computer is lost.
pub const NO_KIT: &str = "no recovery kit: if every computer is lost, so is the account";

/// The state in one sentence.
pub fn headline(status: &StatusAnswer) -> String {
    let (word, meaning) = match (describe(status.state), &status.reason) {
        // There is more on the server than can be read here.
        (("synced", _), Some(_)) => ("synced", "everything that can be read here is"),
        (described, _) => described,
    };
    let reason = match &status.reason {
        Some(reason) => format!(" ({reason})"),
        None => String::new(),
    };
    format!("{word}: {meaning}{reason}")
}

/// A state's word and what it means.
pub fn describe(state: SyncState) -> (&'static str, &'static str) {
    match state {
        SyncState::Starting => ("starting", "the daemon opens its store"),
        SyncState::Local => ("local", "apps work, nothing is synced: there is no account yet"),
        SyncState::Synced => {
            ("synced", "everything here is on the server, and the other way round")
        }
        SyncState::Syncing => ("syncing", "changes are on their way"),
        SyncState::Offline => ("offline", "the server cannot be reached; apps work, changes wait"),
        SyncState::Waiting => ("waiting", "something else has to happen first"),
        SyncState::Reauth => ("reauth", "you have to sign in again"),
        SyncState::Revoked => ("revoked", "this computer was unlinked; your rows are still here"),
        SyncState::Degraded => ("degraded", "the disk does not take writes; reading works"),
        SyncState::Damaged => ("damaged", "stored bytes are not what was written"),
    }
}
