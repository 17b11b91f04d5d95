//! `tidings demo [FILE]`: a row travels from one device to another, on one machine.
//!
//! A real server and two real daemons as child processes, TLS with a certificate made on the
//! spot, a relay that records every byte before TLS, and a search for the rows in all of it. The
//! demo works in a directory of its own and leaves nothing behind, however it ends.

mod account;
mod certificate;
mod compare;
mod edits;
mod look;
mod outcome;
pub mod plaintext;
mod program;
mod relay;
mod sealed;
mod stage;
mod story;

use std::path::PathBuf;

pub use outcome::{Outcome, Percentiles};
pub use program::{TiedArgs, run_tied};

use self::look::Teller;
use self::stage::Stage;
use self::story::Story;
use super::context::Context;
use super::failure::Failure;
use super::signals::Stop;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
    Without --once the demo stays until Ctrl-C, so that you can try the sockets. With --once --json \
    it prints one line: rows, tables, equal, import_s, replicate_s, write_to_event_ms, \
    server_bytes, plaintext_found; and exits 0 only if both devices are equal and nothing was \
    found.\n\n\
    The search is for each string of 6 bytes or more in the rows and each table and column name: \
    as they are, as JSON escapes them, and as UTF-16. --plant shows that it would find them: it \
    writes one row in clear text among the server's files, and the demo must fail.")]
pub struct Args {
    /// Your own JSON, NDJSON or CSV; without it, 3,201 films.
    file: Option<PathBuf>,
    /// End as soon as everything is verified.
    #[arg(long)]
    once: bool,
    /// Keep the directory with stores, detailed logs and the recording, and say where it is.
    #[arg(long)]
    keep: bool,
    /// Write one row in clear text among the server's files: the search has to find it.
    #[arg(long, hide = true)]
    plant: bool,
}

/// Plays it.
pub async fn run(args: Args, context: Context) -> Result<(), Failure> {
    let mut stop = Stop::listen().map_err(|error| Failure::io("Listening to signals", &error))?;
    let teller = Teller::new(context.out);
    let material = story::Material::read(args.file.as_deref())?;
    let keep = args.keep;
    let mut stage = Stage::new(keep)?;
    let result = tokio::select! {
        result = play(&args, &context, teller, &material, &mut stage) => result,
        () = stop.asked() => Err(Failure::demo_interrupted()),
    };
    if keep && result.is_err() {
        stage.write_statuses().await;
    }
    let dir = stage.dir().to_owned();
    let staying = result.is_ok() && !args.once;
    if staying {
        stop.asked().await;
    }
    tokio::select! {
        closed = stage.close(keep) => closed?,
        // Asked twice: what still runs is killed as it is dropped.
        () = stop.asked() => {}
    }
    if keep {
        eprintln!("kept: {}", dir.display());
    } else if staying {
        teller.line("Everything is stopped and removed.")?;
    }
    result
}

async fn play(
    args: &Args,
    context: &Context,
    teller: Teller,
    material: &story::Material,
    stage: &mut Stage,
) -> Result<(), Failure> {
    let mut story = Story::new(stage, material, teller)?;
    let outcome = story.play(args.plant).await?;
    if !args.once {
        story.invite_to_try()?;
    }
    if context.out.is_json() {
        context.out.json_line(&outcome)?;
    }
    match (outcome.equal, outcome.plaintext_found) {
        (true, false) => Ok(()),
        (false, _) => Err(Failure::demo_result("The two devices do not hold the same rows.")),
        (_, true) => Err(Failure::demo_result("Text of the rows was found outside the devices.")),
    }
}
