//! Queries: `GET …/rows` with parameters, `POST …/query` with a body, one page each.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use tidings_tables::cbor::encode_object;
use tidings_tables::{Filter, Object, Page, Query, Sort, TableName, Value};
use tidings_wire::local::{LogPosition, QueryAnswer};

use super::Api;
use super::body::{self, Fields};
use super::error::{ApiError, Code};
use super::gate::{Access, Caller, Need};
use super::names::TablePath;
use super::params::Params;
use super::rows;
use crate::projection::Projection;
use crate::replica::{meta, query};

/// A query as both ways of asking it come to.
#[derive(Default)]
struct Asked {
    filter: Option<Value>,
    sort: Option<Value>,
    limit: Option<usize>,
    offset: Option<usize>,
    after: Option<String>,
    include_total: bool,
    projection: Option<Value>,
}

/// `GET …/rows?filter=&sort=…`.
pub async fn by_params(
    State(api): State<Api>,
    caller: Caller,
    path: TablePath,
    mut params: Params,
) -> Result<Response, ApiError> {
    let access = api.gate().access(&caller, &path.app, &[&path.table], Need::Read)?;
    let sort = params.list("sort")?;
    let asked = Asked {
        filter: params.json("filter")?,
        sort: sort.map(|paths| paths.into_iter().map(Value::from).collect::<Vec<_>>().into()),
        limit: params.parsed("limit", "a whole number")?,
        offset: params.parsed("offset", "a whole number")?,
        after: params.text("after"),
        include_total: params.parsed("includeTotal", "true or false")?.unwrap_or(false),
        projection: params.json("projection")?,
    };
    wait_for_position(&mut params, &access).await?;
    params.finish()?;
    answer(&access, path.table, asked).await
}

/// `POST …/query`.
pub async fn by_body(
    State(api): State<Api>,
    caller: Caller,
    path: TablePath,
    mut params: Params,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let access = api.gate().access(&caller, &path.app, &[&path.table], Need::Read)?;
    let value = body::json(&headers, body, api.config().body_idle).await?;
    let mut fields = Fields::new(value, "a query")?;
    let asked = Asked {
        filter: fields.take("filter"),
        sort: fields.take("sort"),
        limit: fields.count("limit")?,
        offset: fields.count("offset")?,
        after: fields.text("after")?,
        include_total: fields.bool("includeTotal")?.unwrap_or(false),
        projection: fields.take("projection"),
    };
    fields.finish()?;
    wait_for_position(&mut params, &access).await?;
    params.finish()?;
    answer(&access, path.table, asked).await
}

async fn answer(access: &Access, table: TableName, asked: Asked) -> Result<Response, ApiError> {
    let everything = asked.filter.is_none();
    let filter = asked.filter.as_ref().map_or(Ok(Filter::all()), Filter::compile)?;
    let sort = asked.sort.as_ref().map_or(Ok(Sort::default()), Sort::compile)?;
    let projection = asked.projection.as_ref().map(Projection::compile).transpose()?;
    let mut query = Query::new(filter, sort);
    if let Some(limit) = asked.limit {
        query = query.limit(limit)?;
    }
    if let Some(offset) = asked.offset {
        query = query.offset(offset)?;
    }
    if let Some(after) = &asked.after {
        query = query.after(after)?;
    }
    let total = asked.include_total;
    let read = access.read(move |source, app| {
        // The count of all rows is kept; only that of some has to be found.
        let counted = total && !everything;
        let mut found = query::query(source, app, &table, &query, counted)?;
        cut(&mut found.page, &query);
        let total = match (total, everything) {
            (false, _) => None,
            (true, false) => Some(found.page.total as u64),
            (true, true) => Some(meta::table(source, app, &table)?.map_or(0, |record| record.rows)),
        };
        Ok((found, total))
    });
    let (found, total) = read.await?;
    let mut records: Vec<Object> = found.page.records;
    if let Some(projection) = &projection {
        records = records.into_iter().map(|record| projection.apply(record)).collect();
    }
    let position = found.position;
    let answer = QueryAnswer {
        records,
        total,
        has_next: found.page.next.is_some(),
        next: found.page.next,
        position,
    };
    Ok(rows::answer(StatusCode::OK, &answer, position, None))
}

/// Ends a page of large rows early, so that an answer stays of a size that any client reads. It
/// keeps at least one record.
fn cut(page: &mut Page, query: &Query) {
    let mut bytes = 0;
    let fitting = page.records.iter().take_while(|record| {
        let first = bytes == 0;
        bytes += encode_object(record).len();
        first || bytes <= ANSWER
    });
    let count = fitting.count();
    if count < page.records.len() {
        page.records.truncate(count);
        page.next = page.records.last().map(|record| query.next_after(record));
    }
}

/// Bytes of records, as CBOR, at which a page takes no more.
const ANSWER: usize = 8 << 20;

/// Longest `wait`, in seconds.
const LONGEST_WAIT: u64 = 60;

/// Waits until the app has reached `minPosition`, if the call names one: so a program reads what
/// another has just written.
///
/// # Errors
/// `request.timeout` if it is not reached within `wait` seconds (5 where not said).
pub async fn wait_for_position(params: &mut Params, access: &Access) -> Result<(), ApiError> {
    let wanted = params.parsed::<LogPosition>("minPosition", "a position")?;
    let wait = params.parsed::<u64>("wait", "a number of seconds")?.unwrap_or(5);
    let Some(wanted) = wanted else { return Ok(()) };
    let mut head = access.head();
    let reached = head.wait_for(|head| *head >= wanted);
    let limit = Duration::from_secs(wait.min(LONGEST_WAIT));
    match tokio::time::timeout(limit, reached).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(ApiError::new(Code::Timeout, "the app has not reached that position yet")
            .retry_after(1)),
    }
}
