//! Streams of changes: of a table, a row, several tables or a whole app, by two profiles.
//!
//! `/stream` takes any client and shows each change as it was made, with the row before;
//! `/subscribe` insists on its media type and reads the row again when the event is sent. Both are
//! one handler. A stream is a cursor on the app's log and a wake-up, never a queue.

mod judge;
mod limit;
mod pull;
mod session;

use std::collections::BTreeSet;
use std::str::FromStr as _;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::response::Response;
use serde_json::json;
use tidings_tables::{Filter, RowId, TableName};
use tidings_wire::AppId;
use tidings_wire::local::{ChangeKind, LogPosition};

pub use self::limit::Streams;
pub(super) use self::pull::{Step, respond};
use self::session::Session;
use super::Api;
use super::error::{ApiError, Code};
use super::gate::Need;
use super::names::{self, AppName, RowPath, TablePath};
use super::params::Params;
use crate::projection::Projection;

/// How a stream behaves where its parameters do not say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Any `Accept`, named events, the row as the change left it, and before it.
    Stream,
    /// Only `text/event-stream`, unnamed events, the row as it is when the event is sent.
    Subscribe,
}

/// What a stream shows.
#[derive(Debug, Clone)]
pub struct Shown {
    /// How it behaves.
    pub profile: Profile,
    /// The tables; none for all of the app's.
    pub tables: Option<BTreeSet<TableName>>,
    /// The one row, where only one is followed.
    pub row: Option<RowId>,
    /// The kinds of changes.
    pub kinds: BTreeSet<ChangeKind>,
    /// Which rows.
    pub filter: Filter,
    /// Which columns.
    pub fields: Option<Projection>,
    /// Whether the row before comes along.
    pub old: bool,
}

/// Most tables that one stream names.
const TABLES: usize = 16;

/// `GET …/tables/T/stream`.
pub async fn table_stream(
    State(api): State<Api>,
    path: TablePath,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let target = Target { app: path.app, tables: Some(vec![path.table]), row: None };
    open(&api, Profile::Stream, target, params, &headers).await
}

/// `GET …/tables/T/subscribe`.
pub async fn table_subscribe(
    State(api): State<Api>,
    path: TablePath,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let target = Target { app: path.app, tables: Some(vec![path.table]), row: None };
    open(&api, Profile::Subscribe, target, params, &headers).await
}

/// `GET …/rows/ID/stream`.
pub async fn row_stream(
    State(api): State<Api>,
    path: RowPath,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let target = Target { app: path.app, tables: Some(vec![path.table]), row: Some(path.row) };
    open(&api, Profile::Stream, target, params, &headers).await
}

/// `GET …/rows/ID/subscribe`.
pub async fn row_subscribe(
    State(api): State<Api>,
    path: RowPath,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let target = Target { app: path.app, tables: Some(vec![path.table]), row: Some(path.row) };
    open(&api, Profile::Subscribe, target, params, &headers).await
}

/// `GET /v1/apps/A/stream?tables=…`.
pub async fn app_stream(
    State(api): State<Api>,
    AppName(app): AppName,
    mut params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let tables = named_tables(&mut params)?;
    open(&api, Profile::Stream, Target { app, tables, row: None }, params, &headers).await
}

/// `GET /v1/apps/A/subscribe?tables=…`.
pub async fn app_subscribe(
    State(api): State<Api>,
    AppName(app): AppName,
    mut params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let tables = named_tables(&mut params)?;
    open(&api, Profile::Subscribe, Target { app, tables, row: None }, params, &headers).await
}

struct Target {
    app: AppId,
    tables: Option<Vec<TableName>>,
    row: Option<RowId>,
}

fn named_tables(params: &mut Params) -> Result<Option<Vec<TableName>>, ApiError> {
    let Some(list) = params.list("tables")? else { return Ok(None) };
    if list.is_empty() || list.len() > TABLES {
        let message = format!("`tables` must name 1 to {TABLES} tables");
        return Err(ApiError::invalid("tables", message));
    }
    list.iter().map(|name| names::table(name)).collect::<Result<_, _>>().map(Some)
}

async fn open(
    api: &Api,
    profile: Profile,
    target: Target,
    mut params: Params,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    accepts(profile, headers)?;
    let query_token = match profile {
        // For browsers, whose EventSource sends no headers.
        Profile::Stream => {
            params.text("apikey");
            params.text("access_token")
        }
        Profile::Subscribe => None,
    };
    let caller = api.gate().stream_caller(headers, query_token.as_deref())?;
    let named: Vec<&TableName> = target.tables.iter().flatten().collect();
    let access = api.gate().access(&caller, &target.app, &named, Need::Read)?;

    let filter = params.json("filter")?;
    let shown = Shown {
        profile,
        tables: target.tables.map(|tables| tables.into_iter().collect()),
        row: target.row,
        kinds: kinds(&mut params)?,
        filter: filter.as_ref().map_or(Ok(Filter::all()), Filter::compile)?,
        fields: params.list("fields")?.map(Projection::include),
        old: old(&mut params, profile)?,
    };
    let asked = params.text("lastEventId");
    params.finish()?;
    // The header wins: a browser opens the old address again with a newer header.
    let header = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?").to_owned());
    let last = header.or(asked).filter(|id| !id.is_empty());
    let last = last.map(|id| id.parse::<LogPosition>().ok());

    let place = api.streams().enter(&target.app)?;
    let session = Session::open(api, access, place, shown, last).await?;
    Ok(respond(session))
}

fn kinds(params: &mut Params) -> Result<BTreeSet<ChangeKind>, ApiError> {
    let Some(names) = params.list("events")? else { return Ok(ChangeKind::ALL.into()) };
    let read = |name: &String| ChangeKind::from_str(name);
    names.iter().map(read).collect::<Result<_, _>>().map_err(|()| {
        ApiError::invalid("events", "`events` must list insert, update, delete")
            .details(json!({ "accepted": ["insert", "update", "delete"] }))
    })
}

fn old(params: &mut Params, profile: Profile) -> Result<bool, ApiError> {
    match params.text("old").as_deref() {
        None => Ok(profile == Profile::Stream),
        Some("full") => Ok(true),
        Some("none") => Ok(false),
        Some(_) => Err(ApiError::invalid("old", "`old` must be none or full")
            .details(json!({ "accepted": ["none", "full"] }))),
    }
}

/// Refuses a client that would not understand the stream.
fn accepts(profile: Profile, headers: &HeaderMap) -> Result<(), ApiError> {
    let mut listed = headers.get_all(ACCEPT).iter().peekable();
    let any = listed.peek().is_none();
    let types: Vec<String> = listed
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter(|range| !range.split(';').any(|part| matches!(part.trim(), "q=0" | "q=0.0")))
        .filter_map(|range| range.split(';').next())
        .map(|range| range.trim().to_ascii_lowercase())
        .collect();
    let exact = types.iter().any(|range| range == "text/event-stream");
    let fine = match profile {
        Profile::Subscribe => exact,
        Profile::Stream => {
            any || exact || types.iter().any(|range| range == "*/*" || range == "text/*")
        }
    };
    if fine {
        return Ok(());
    }
    Err(ApiError::new(Code::NotAcceptable, "this is a stream of events")
        .hint("send `Accept: text/event-stream`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_let_in_by_accept() {
        let check = |profile, accept: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(ACCEPT, accept.parse().unwrap());
            }
            accepts(profile, &headers).is_ok()
        };
        for (accept, stream, subscribe) in [
            (None, true, false),
            (Some("*/*"), true, false),
            (Some("text/*"), true, false),
            (Some("text/event-stream"), true, true),
            (Some("application/json, Text/Event-Stream;q=0.5"), true, true),
            (Some("application/json"), false, false),
            (Some("text/event-stream;q=0, application/json"), false, false),
        ] {
            assert_eq!(check(Profile::Stream, accept), stream, "{accept:?}");
            assert_eq!(check(Profile::Subscribe, accept), subscribe, "{accept:?}");
        }
    }
}
