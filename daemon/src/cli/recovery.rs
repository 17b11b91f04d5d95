//! `tidings recovery kit`: what to print and keep, for the day every computer is lost.

mod print;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use tidings_wire::linking::RecoveryKit;

use super::context::Context;
use super::failure::Failure;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a recovery kit: twelve words that bring the account back when every computer is lost.
    /// One that was made before does not work any more then.
    Kit {
        /// Write a page to print into this file instead, as HTML; nobody but you can read it.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
}

/// Makes the kit and shows it.
pub async fn run(args: Args, context: Context) -> Result<(), Failure> {
    let Action::Kit { html } = args.action;
    // A kit that could not be written would replace one that works.
    let page = html.as_deref().map(|path| Ok((path, create(path)?))).transpose()?;
    let kit = context.local()?.recovery_kit().await?;
    match page {
        None => show(&context, &kit),
        Some((path, file)) => {
            write(path, file, &kit)?;
            let shown = path.display();
            match context.out.is_json() {
                true => context.out.json_line(&serde_json::json!({ "written": shown.to_string() })),
                false => context.out.line(format!(
                    "Written: {shown}. Print it, keep it where you keep your passport, and delete \
                     the file."
                )),
            }
        }
    }
}

/// Prints a kit, for programs or people.
///
/// # Errors
/// The reader went away.
pub fn show(context: &Context, kit: &RecoveryKit) -> Result<(), Failure> {
    match context.out.is_json() {
        true => context.out.json_line(kit),
        false => context.out.line(print::text(kit)),
    }
}

/// Makes a new file that only the person can read.
fn create(path: &Path) -> Result<std::fs::File, Failure> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
        .open(path)
        .map_err(|error| Failure::io(format_args!("Writing {}", path.display()), &error))
}

fn write(path: &Path, mut file: std::fs::File, kit: &RecoveryKit) -> Result<(), Failure> {
    use std::io::Write as _;

    let page = print::html(kit).map_err(Failure::unexpected)?;
    file.write_all(page.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|error| Failure::io(format_args!("Writing {}", path.display()), &error))
}
