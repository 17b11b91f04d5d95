//! `tidings query TABLE`.

use serde_json::json;
use tidings_wire::local::QueryRequest;

use super::context::Context;
use super::failure::Failure;
use super::record;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The table.
    table: String,
    /// Only rows that match, as JSON, such as '{"done":false}'.
    #[arg(long, value_name = "JSON")]
    filter: Option<String>,
    /// The order: columns, `-` before one that falls.
    #[arg(long, value_name = "COL,-COL", value_delimiter = ',', allow_hyphen_values = true)]
    sort: Vec<String>,
    /// Most rows, up to 1000.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Go on after the page that ended with this `next`.
    #[arg(long, value_name = "NEXT", conflicts_with = "offset")]
    after: Option<String>,
    /// Skip this many rows.
    #[arg(long, value_name = "N")]
    offset: Option<usize>,
    /// Say how many rows match in all.
    #[arg(long)]
    total: bool,
}

/// Prints one row per line.
pub async fn run(args: Args, context: Context) -> Result<(), Failure> {
    let app = context.app()?;
    let filter = args.filter.as_deref().map(|text| record::value("--filter", text)).transpose()?;
    let request = QueryRequest {
        filter,
        sort: args.sort,
        limit: Some(args.limit),
        offset: args.offset,
        after: args.after,
        include_total: args.total,
        projection: None,
    };
    let local = context.local()?;
    let answer = local.ask(local.client.query(&app, &args.table, &request)).await?;
    for record in &answer.records {
        context.out.json_line(record)?;
    }
    if context.out.is_json() {
        // What follows the rows has no id, so a reader can tell it from them.
        let tail = json!({
            "hasNext": answer.has_next,
            "next": answer.next,
            "total": answer.total,
            "position": answer.position,
        });
        return context.out.json_line(&tail);
    }
    if let Some(total) = answer.total {
        eprintln!("{} of {total} rows", answer.records.len());
    }
    if let Some(next) = answer.next.filter(|_| answer.has_next) {
        eprintln!("more: add --after {next}");
    }
    Ok(())
}
