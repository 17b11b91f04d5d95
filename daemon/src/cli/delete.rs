//! `tidings delete TABLE ID...`.

use super::context::Context;
use super::failure::Failure;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The table.
    table: String,
    /// The rows.
    #[arg(required = true, value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    ids: Vec<String>,
    /// Only if the row is still this version (`_ver.position`).
    #[arg(long, value_name = "VERSION")]
    if_match: Option<String>,
}

/// Deletes the rows, one after the other, and prints each id.
pub async fn run(args: Args, context: Context) -> Result<(), Failure> {
    let app = context.app()?;
    if args.if_match.is_some() && args.ids.len() > 1 {
        return Err(Failure::argument("--if-match", "it goes with one row"));
    }
    let local = context.local()?;
    for (done, id) in args.ids.iter().enumerate() {
        let if_match = args.if_match.as_deref();
        let deleting = local.client.delete(&app, &args.table, id, if_match);
        let answer = local
            .ask(deleting)
            .await
            .map_err(|failure| failure.at_row(id, done, args.ids.len()))?;
        match context.out.is_json() {
            true => context.out.json_line(&answer)?,
            false => context.out.line(id)?,
        }
    }
    Ok(())
}
