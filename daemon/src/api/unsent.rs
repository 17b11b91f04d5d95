//! What was written here and the server has not got: read where a computer was unlinked, or a
//! server is gone for good.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use tidings_tables::Object;
use tidings_wire::local::LogPosition;

use super::Api;
use super::error::ApiError;
use super::gate::{Caller, Need};
use super::names::AppName;
use super::params::Params;
use super::rows;
use crate::replica::{outbox, query};

/// Bytes of the outbox that one answer takes rows from.
const PAGE_BYTES: usize = 1 << 20;

/// The answer, as `tidings_wire::local::UnsentAnswer` reads it.
#[derive(Debug, Serialize)]
struct Unsent {
    rows: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<LogPosition>,
}

#[derive(Debug, Serialize)]
struct Row {
    table: String,
    id: String,
    row: Option<Object>,
}

/// `GET /v1/apps/A/unsent?after=`: the rows that unsent transactions wrote, as they are now.
pub async fn list(
    State(api): State<Api>,
    caller: Caller,
    AppName(app): AppName,
    mut params: Params,
) -> Result<Response, ApiError> {
    let after: LogPosition = params.parsed("after", "a position")?.unwrap_or_default();
    params.finish()?;
    let access = api.gate().access(&caller, &app, &[], Need::Read)?;
    let read = access.read(move |source, app| {
        let transactions = outbox::after(source, app, after, PAGE_BYTES)?;
        let next = transactions.last().map(|tx| tx.position);
        let mut named = BTreeSet::new();
        for delta in transactions.into_iter().flat_map(|tx| tx.deltas) {
            named.insert((delta.table, delta.row));
        }
        let rows = named.into_iter().map(|(table, id)| {
            let row = query::record(source, app, &table, &id)?;
            Ok(Row { table: table.as_str().to_owned(), id: id.as_str().to_owned(), row })
        });
        let rows = rows.collect::<Result<_, crate::store::StoreError>>()?;
        Ok((Unsent { rows, next }, query::position(source, app)?))
    });
    let (unsent, position) = read.await?;
    Ok(rows::answer(StatusCode::OK, &unsent, position, None))
}
