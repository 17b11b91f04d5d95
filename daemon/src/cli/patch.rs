//! `tidings patch TABLE ID JSON`.

use super::context::Context;
use super::failure::Failure;
use super::record;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The patch is a JSON Merge Patch (RFC 7396): columns to set, and null to take one \
                  away. If all its keys are operators ($set, $unset), it is those, and null is a \
                  value like any other."
)]
pub struct Args {
    /// The table.
    table: String,
    /// The row.
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
    /// The change as a JSON object; `-` reads standard input, `@FILE` a file.
    patch: String,
    /// Only if the row is still this version (`_ver.position`).
    #[arg(long, value_name = "VERSION")]
    if_match: Option<String>,
}

/// Changes the row and prints its id and version.
pub async fn run(args: Args, context: Context) -> Result<(), Failure> {
    let app = context.app()?;
    let patch = record::object("PATCH", &args.patch)?;
    let local = context.local()?;
    let if_match = args.if_match.as_deref();
    let operators = !patch.is_empty() && patch.keys().all(|key| key.starts_with('$'));
    let answer = match operators {
        true => {
            local.ask(local.client.patch(&app, &args.table, &args.id, &patch, if_match)).await?
        }
        false => {
            local
                .ask(local.client.merge_patch(&app, &args.table, &args.id, &patch, if_match))
                .await?
        }
    };
    match context.out.is_json() {
        true => context.out.json_line(&answer),
        false => context.out.line(&answer.id),
    }
}
