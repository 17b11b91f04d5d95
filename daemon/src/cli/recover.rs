//! `tidings recover URL`: back into an account with its recovery kit.

use std::io::{BufRead, IsTerminal, Write as _};

use tidings_wire::AccountId;
use tidings_wire::linking::{DeviceInfo, Recover};

use super::account;
use super::connect::Local;
use super::context::Context;
use super::failure::Failure;
use super::linking::SetupArgs;
use super::recovery;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The words are read from standard input, never from the command line, where \
                        other programs could see them. On a terminal it asks for everything that \
                        is missing."
)]
pub struct Args {
    /// The server, such as https://tidings.example.org.
    url: String,
    /// The account, as the recovery kit names it; without it, it is asked for.
    #[arg(long, value_name = "ID")]
    account: Option<AccountId>,
    /// How many entries the recovery kit names: tells whether the server hides later ones.
    #[arg(long, value_name = "NUMBER")]
    entries: Option<u64>,
    /// A computer that is lost, to be unlinked at once; may be given several times. On a terminal
    /// it asks.
    #[arg(long, value_name = "NAME")]
    revoke: Vec<String>,
    #[command(flatten)]
    setup: SetupArgs,
}

/// Asks for the words, comes back, and shows the new kit.
pub async fn run(args: Args, context: Context) -> Result<(), Failure> {
    let setup = args.setup.setup()?;
    let local = context.local()?;
    let person = std::io::stdin().is_terminal() && !context.out.is_json();
    let account = match args.account {
        Some(account) => account,
        None => ask(person, "account: ")?
            .trim()
            .to_lowercase()
            .parse()
            .map_err(|error| Failure::argument("--account", error))?,
    };
    let words = ask_words(person)?;
    let request = Recover { url: args.url, account, words, entries: args.entries, setup };
    let answer = local.recover(&request).await?;
    if context.out.is_json() {
        context.out.json_line(&answer)?;
    } else {
        context.out.line("Recovered. What you stored comes back now.")?;
        if answer.older {
            context.out.line(
                "! The server shows fewer entries than your kit names: it hides something, or it \
                 lost data. Ask whoever runs it.",
            )?;
        }
        account::print(&context, &answer.account)?;
        if let Some(kit) = &answer.kit {
            context.out.line("")?;
            recovery::show(&context, kit)?;
            context.out.line("")?;
            context.out.line("The old kit does not work any more: keep this one in its place.")?;
        }
    }
    unlink_lost(&context, &local, args.revoke, &answer.others, person).await?;
    answer.kit_missing.map_or(Ok(()), |reason| Err(Failure::no_new_kit(reason)))
}

/// Unlinks the computers that are lost: those that were named, or those that the person picks.
async fn unlink_lost(
    context: &Context,
    local: &Local,
    mut lost: Vec<String>,
    others: &[DeviceInfo],
    person: bool,
) -> Result<(), Failure> {
    if person && lost.is_empty() {
        for device in others {
            let name = device.name.clone().unwrap_or_else(|| device.id.to_string());
            let answer =
                ask(person, &format!("Is {name} lost, so that it is to be unlinked? [y/N] "))?;
            if answer.trim().eq_ignore_ascii_case("y") {
                lost.push(device.id.to_string());
            }
        }
    }
    if lost.is_empty() {
        if !others.is_empty() && !context.out.is_json() {
            context
                .out
                .line("Still linked; unlink what is lost with tidings devices revoke NAME:")?;
            for device in others {
                let name = device.name.as_deref().unwrap_or("a computer");
                context.out.line(format!("  {name} ({})", device.id))?;
            }
        }
        return Ok(());
    }
    let unlinked = local.revoke_devices(&lost).await?.devices;
    for device in &unlinked {
        match context.out.is_json() {
            true => context.out.json_line(device)?,
            false => {
                let name = device.name.clone().unwrap_or_else(|| device.id.to_string());
                context.out.line(format!("Unlinked: {name}"))?;
            }
        }
    }
    Ok(())
}

/// The words: on a terminal the lines up to twelve words, else all of standard input.
fn ask_words(person: bool) -> Result<String, Failure> {
    const WORDS: usize = 12;
    if person {
        prompt("the twelve words: ")?;
    }
    let mut text = String::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure::io("Reading the words", &error))?;
        text.push_str(&line);
        text.push('\n');
        let count =
            text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).count();
        if count >= WORDS || text.len() > 4_096 {
            break;
        }
    }
    Ok(text)
}

fn ask(person: bool, question: &str) -> Result<String, Failure> {
    if person {
        prompt(question)?;
    }
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| Failure::io("Reading standard input", &error))?;
    Ok(line)
}

fn prompt(question: &str) -> Result<(), Failure> {
    let mut out = std::io::stderr().lock();
    out.write_all(question.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::output(&error))
}
