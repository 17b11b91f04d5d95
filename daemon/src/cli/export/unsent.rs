//! `tidings export --unsent`: what would be lost if this computer never spoke to its server again.

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use serde_json::json;
use tidings_wire::AppId;
use tidings_wire::local::LogPosition;

use super::sink;
use crate::cli::connect::Local;
use crate::cli::context::Context;
use crate::cli::failure::Failure;

/// Writes the rows of the app that is meant, or of all.
pub async fn run(output: Option<PathBuf>, context: Context) -> Result<(), Failure> {
    let local = context.local()?;
    let apps = match context.named_app()? {
        Some(app) => vec![app],
        None => {
            let apps = local.ask(local.client.status()).await?.apps;
            apps.into_iter().filter(|app| app.pending > 0).map(|app| app.id).collect()
        }
    };
    let mut writer = BufWriter::new(sink(output.as_deref())?);
    let mut rows = 0_u64;
    for app in apps {
        rows += write_app(&local, &app, &mut writer).await?;
    }
    writer.flush().map_err(|error| Failure::output(&error))?;
    if output.is_some() {
        match context.out.is_json() {
            true => context.out.json_line(&json!({ "rows": rows }))?,
            false => context.out.line(format!("{rows} rows written"))?,
        }
    }
    Ok(())
}

async fn write_app(
    local: &Local,
    app: &AppId,
    writer: &mut impl std::io::Write,
) -> Result<u64, Failure> {
    let (mut after, mut rows) = (LogPosition(0), 0);
    loop {
        let page = local.ask(local.client.unsent(app, after)).await?;
        for row in page.rows {
            let line = json!({ "app": app, "table": row.table, "id": row.id, "row": row.row });
            writeln!(writer, "{line}").map_err(|error| Failure::output(&error))?;
            rows += 1;
        }
        match page.next {
            Some(next) => after = next,
            None => return Ok(rows),
        }
    }
}
