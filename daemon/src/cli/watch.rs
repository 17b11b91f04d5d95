//! `tidings watch TABLE...`: every change as it happens, until Ctrl-C.
//!
//! A stream that ends is opened again after the last change that was printed, so nothing is
//! missed; a change may be printed twice around that moment.

use std::time::Duration;

use serde_json::{Value, json};
use tidings_client::ErrorKind;
use tidings_client::local::{EventStream, LocalError, OldRecord, WatchOptions};
use tidings_wire::local::{Change, ChangeKind, Closed, Retry};
use tidings_wire::sse::Event;

use super::context::Context;
use super::failure::Failure;
use super::output::Output;
use super::record;
use super::signals::Stop;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --json each event is one line: {\"event\": its name, \"data\": as in the \
                  stream}. After a \"resync\" read the table anew: changes were missed, or were \
                  too many to name."
)]
pub struct Args {
    /// The tables; without one, all of the app.
    #[arg(value_name = "TABLE")]
    tables: Vec<String>,
    /// Only these kinds of change.
    #[arg(long, value_name = "KIND,KIND", value_delimiter = ',', value_parser = kind)]
    events: Vec<ChangeKind>,
    /// Only rows that match, as JSON.
    #[arg(long, value_name = "JSON")]
    filter: Option<String>,
    /// Print the row as it was before, too.
    #[arg(long, value_enum)]
    old: Option<Old>,
    /// Go on after this event.
    #[arg(long, value_name = "ID")]
    since: Option<String>,
}

/// Whether to print the row before.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Old {
    /// No.
    None,
    /// Yes.
    Full,
}

fn kind(text: &str) -> Result<ChangeKind, String> {
    text.parse().map_err(|()| "one of insert, update, delete".to_owned())
}

/// Longest pause between two tries to open the stream again.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Prints changes until the process is asked to stop.
pub async fn run(args: Args, context: Context) -> Result<(), Failure> {
    let mut stop = Stop::listen().map_err(|error| Failure::io("Listening to signals", &error))?;
    tokio::select! {
        () = stop.asked() => Ok(()),
        result = watch(args, context) => result,
    }
}

async fn watch(args: Args, context: Context) -> Result<(), Failure> {
    let app = context.app()?;
    let filter = args.filter.as_deref().map(|text| record::value("--filter", text)).transpose()?;
    let mut options = WatchOptions {
        events: args.events,
        filter,
        fields: Vec::new(),
        old: args.old.map(|old| match old {
            Old::None => OldRecord::None,
            Old::Full => OldRecord::Full,
        }),
        last_event_id: args.since,
    };
    let mut pause = Duration::from_millis(200);
    let mut opened_once = false;
    loop {
        // Read anew each time: a daemon that starts for the first time makes its token.
        let local = context.local()?;
        match local.client.watch(&app, &args.tables, &options).await {
            Ok(mut stream) => {
                opened_once = true;
                let ended = print(&mut stream, context.out).await?;
                if !stream.last_event_id().is_empty() {
                    options.last_event_id = Some(stream.last_event_id().to_owned());
                }
                match ended {
                    Ended::Never => return Ok(()),
                    Ended::After(wait) => pause = wait.min(LONGEST_PAUSE),
                }
            }
            // The first try tells the person; later ones wait for a daemon that restarts.
            Err(error) if opened_once && error.kind() == ErrorKind::Retry => {
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(error) => return Err(local.failure(error)),
        }
        tokio::time::sleep(pause).await;
    }
}

/// What to do after a stream ended.
enum Ended {
    /// Open it again after this time.
    After(Duration),
    /// It will not come back.
    Never,
}

async fn print(stream: &mut EventStream, out: Output) -> Result<Ended, Failure> {
    loop {
        match stream.next().await {
            Ok(Some(event)) => {
                let data: Value = serde_json::from_str(&event.data).unwrap_or(Value::Null);
                match out.is_json() {
                    true => out.json_line(&json!({ "event": event.name, "data": data }))?,
                    false => say(&event, &data, out)?,
                }
                if event.name == "closed"
                    && let Ok(closed) = serde_json::from_value::<Closed>(data)
                {
                    return Ok(match closed.retry {
                        Retry::Never => Ended::Never,
                        _ => Ended::After(Duration::from_millis(closed.after_ms.unwrap_or(500))),
                    });
                }
            }
            Ok(None) | Err(LocalError::Interrupted(_) | LocalError::Timeout) => {
                return Ok(Ended::After(stream.retry().unwrap_or(Duration::from_secs(1))));
            }
            Err(error) => return Err(Failure::unexpected(error)),
        }
    }
}

fn say(event: &Event, data: &Value, out: Output) -> Result<(), Failure> {
    match event.name.as_str() {
        "connected" => Ok(()),
        "insert" | "update" | "delete" => {
            let Ok(change) = serde_json::from_value::<Change>(data.clone()) else { return Ok(()) };
            let from = match change.origin.client.as_str() {
                "remote" => " (another computer)",
                _ => "",
            };
            let row = change.record.map(|record| Value::Object(record).to_string());
            let row = row.unwrap_or_default();
            out.line(format!("{} {} {}{from} {row}", event.name, change.table, change.row_id))
        }
        name => out.line(format!("{name} {data}")),
    }
}
