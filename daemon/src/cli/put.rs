//! `tidings put TABLE ROW`.

use super::context::Context;
use super::failure::Failure;
use super::record;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
#[command(after_help = "Without --id the row's own \"id\" counts; without that one is made.")]
pub struct Args {
    /// The table.
    table: String,
    /// The row as a JSON object; `-` reads standard input, `@FILE` a file.
    row: String,
    /// The row's id.
    #[arg(long)]
    id: Option<String>,
    /// Only if the row is still this version (`_ver.position`).
    #[arg(long, value_name = "VERSION")]
    if_match: Option<String>,
}

/// Creates or replaces the row and prints its id and version.
pub async fn run(args: Args, context: Context) -> Result<(), Failure> {
    let app = context.app()?;
    let row = record::object("ROW", &args.row)?;
    let local = context.local()?;
    let id = args.id.or_else(|| row.get("id").and_then(|id| id.as_str()).map(str::to_owned));
    let answer = match id {
        Some(id) if id.is_empty() => return Err(Failure::argument("The id", "it is empty")),
        None if args.if_match.is_some() => {
            return Err(Failure::argument("--if-match", "it goes with a row that has an id"));
        }
        Some(id) => {
            let if_match = args.if_match.as_deref();
            local.ask(local.client.put(&app, &args.table, &id, &row, if_match)).await?
        }
        None => local.ask(local.client.insert(&app, &args.table, &row)).await?,
    };
    match context.out.is_json() {
        true => context.out.json_line(&answer),
        false => context.out.line(&answer.id),
    }
}
