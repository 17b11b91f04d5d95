//! `tidings get TABLE ID`.

use super::context::Context;
use super::failure::Failure;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The table.
    table: String,
    /// The row.
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
}

/// Prints the row.
pub async fn run(args: Args, context: Context) -> Result<(), Failure> {
    let app = context.app()?;
    let local = context.local()?;
    let record = local.ask(local.client.row(&app, &args.table, &args.id)).await?;
    context.out.value(&record)
}
