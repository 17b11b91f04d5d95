//! `tidings tables`.

use super::context::Context;
use super::failure::Failure;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Prints the tables of the app.
pub async fn run(_: Args, context: Context) -> Result<(), Failure> {
    let app = context.app()?;
    let local = context.local()?;
    let answer = local.ask(local.client.tables(&app)).await?;
    if context.out.is_json() {
        return answer.tables.iter().try_for_each(|table| context.out.json_line(table));
    }
    let rows: Vec<_> = answer
        .tables
        .iter()
        .map(|table| vec![table.name.clone(), table.rows.to_string()])
        .collect();
    context.out.columns(&["table", "rows"], &rows)
}
