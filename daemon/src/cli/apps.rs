//! `tidings apps`.

use super::context::Context;
use super::failure::Failure;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Prints the apps that have data here.
pub async fn run(_: Args, context: Context) -> Result<(), Failure> {
    let local = context.local()?;
    let answer = local.ask(local.client.apps()).await?;
    if context.out.is_json() {
        return answer.apps.iter().try_for_each(|app| context.out.json_line(app));
    }
    let rows: Vec<_> = answer
        .apps
        .iter()
        .map(|app| vec![app.id.to_string(), app.tables.to_string(), app.rows.to_string()])
        .collect();
    match rows.is_empty() {
        true => context.out.line("No app has stored anything yet."),
        false => context.out.columns(&["app", "tables", "rows"], &rows),
    }
}
