//! One row: read, create, replace, change, delete.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, ETAG, IF_MATCH, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tidings_tables::{Input, Patch, Value};
use tidings_wire::local::{LogPosition, POSITION_HEADER, Version, WriteAnswer};

use super::Api;
use super::body::{self, JSON, MERGE_PATCH};
use super::error::{ApiError, Code};
use super::gate::{Access, Caller, Need};
use super::names::{RowPath, TablePath};
use super::params::Params;
use crate::replica::{Condition, Done, Operation, Verb, Written, query};

/// Request header with a name for the change, repeated in the `origin` of its event.
const MUTATION_HEADER: HeaderName = HeaderName::from_static("tidings-mutation-id");

/// `GET …/rows/ID`.
pub async fn show(
    State(api): State<Api>,
    caller: Caller,
    path: RowPath,
    mut params: Params,
) -> Result<Response, ApiError> {
    let access = api.gate().access(&caller, &path.app, &[&path.table], Need::Read)?;
    super::query::wait_for_position(&mut params, &access).await?;
    params.finish()?;
    let read = access.read(move |source, app| {
        let row = query::image(source, app, &path.table, &path.row)?;
        Ok((
            row.map(|image| (image.ver(), image.into_record(&path.row))),
            query::position(source, app)?,
        ))
    });
    let (found, position) = read.await?;
    let Some((version, record)) = found else {
        return Err(ApiError::new(Code::RowNotFound, "no such row"));
    };
    Ok(answer(StatusCode::OK, &record, position, Some(version)))
}

/// `POST …/rows`.
pub async fn insert(
    State(api): State<Api>,
    caller: Caller,
    path: TablePath,
    params: Params,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    params.finish()?;
    let access = api.gate().access(&caller, &path.app, &[&path.table], Need::Write)?;
    let input = Input::new(body::json(&headers, body, api.config().body_idle).await?)?;
    let id = match input.id {
        Some(id) => id,
        None => access.new_row_id()?,
    };
    let verb = Verb::Insert(input.columns);
    write(&access, &headers, Operation { table: path.table, id, verb, condition: None }).await
}

/// `PUT …/rows/ID`.
pub async fn put(
    State(api): State<Api>,
    caller: Caller,
    path: RowPath,
    params: Params,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    params.finish()?;
    let access = api.gate().access(&caller, &path.app, &[&path.table], Need::Write)?;
    let input = Input::new(body::json(&headers, body, api.config().body_idle).await?)?;
    if input.id.is_some_and(|id| id != path.row) {
        return Err(ApiError::invalid("id", "`id` in the row and in the path differ"));
    }
    let condition = if_match(&headers)?;
    let verb = Verb::Put(input.columns);
    write(&access, &headers, Operation { table: path.table, id: path.row, verb, condition }).await
}

/// `PATCH …/rows/ID`.
pub async fn patch(
    State(api): State<Api>,
    caller: Caller,
    path: RowPath,
    params: Params,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    params.finish()?;
    let access = api.gate().access(&caller, &path.app, &[&path.table], Need::Write)?;
    let kind = body::media_type(&headers, &[JSON, MERGE_PATCH])?;
    let value = body::parse(&body::read(&headers, body, api.config().body_idle).await?)?;
    let patch = match kind {
        MERGE_PATCH => Patch::merge(value, &path.row),
        _ => Patch::operators(value, &path.row),
    }?;
    let condition = if_match(&headers)?;
    let verb = Verb::Update(patch);
    write(&access, &headers, Operation { table: path.table, id: path.row, verb, condition }).await
}

/// `DELETE …/rows/ID`.
pub async fn delete(
    State(api): State<Api>,
    caller: Caller,
    path: RowPath,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    params.finish()?;
    let access = api.gate().access(&caller, &path.app, &[&path.table], Need::Write)?;
    let condition = if_match(&headers)?;
    let verb = Verb::Delete;
    write(&access, &headers, Operation { table: path.table, id: path.row, verb, condition }).await
}

async fn write(
    access: &Access,
    headers: &HeaderMap,
    operation: Operation,
) -> Result<Response, ApiError> {
    let place = format!(
        "/v1/apps/{}/tables/{}/rows/{}",
        access.app(),
        percent(operation.table.as_str()),
        percent(operation.id.as_str())
    );
    let Written { position, results } =
        access.write(vec![operation], true, mutation_id(headers)?).await?;
    let done = results.into_iter().next().ok_or_else(|| {
        ApiError::new(Code::Internal, "the write has no result; read the row to see what it is")
    })?;
    let Done { id, created, version } = done?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let written = WriteAnswer { id: id.as_str().to_owned(), ver: version, position };
    let mut response = answer(status, &written, position, version);
    if created && let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(LOCATION, place);
    }
    Ok(response)
}

/// An answer with the app's position and, where one row is meant, its version.
pub fn answer(
    status: StatusCode,
    body: &impl Serialize,
    position: LogPosition,
    version: Option<Version>,
) -> Response {
    let text = match serde_json::to_vec(body) {
        Ok(text) => text,
        Err(error) => {
            tracing::error!(%error, "an answer could not be written");
            return ApiError::new(Code::Internal, "the answer could not be written")
                .into_response();
        }
    };
    let mut response = (status, text).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(HeaderName::from_static(POSITION_HEADER), HeaderValue::from(position.0));
    let etag = version.map(|version| format!("\"{}\"", version.position));
    if let Some(Ok(etag)) = etag.map(HeaderValue::try_from) {
        headers.insert(ETAG, etag);
    }
    response
}

/// What `If-Match` asks for.
fn if_match(headers: &HeaderMap) -> Result<Option<Condition>, ApiError> {
    let mut all = headers.get_all(IF_MATCH).iter();
    let Some(value) = all.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| all.next().is_none());
    text.and_then(condition).map(Some).ok_or_else(|| {
        ApiError::invalid("if-match", "If-Match must be `*` or one version, `_ver.position`")
    })
}

/// A condition as a header or a batch writes it: `*`, a version, a version in quotes.
pub fn condition(text: &str) -> Option<Condition> {
    let text = text.trim();
    if text == "*" {
        return Some(Condition::Exists);
    }
    let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    bare.parse().ok().map(Condition::Version)
}

/// The name that a client gave its change in a header.
fn mutation_id(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(MUTATION_HEADER) else { return Ok(None) };
    check_mutation_id(value.to_str().unwrap_or("").to_owned()).map(Some)
}

/// A name for a change is short.
pub fn check_mutation_id(name: String) -> Result<String, ApiError> {
    if (1..=128).contains(&name.len()) {
        Ok(name)
    } else {
        Err(ApiError::invalid("mutation_id", "`mutation_id` must be 1 to 128 bytes"))
    }
}

/// A row's columns in a batch or an import: everything but the id.
pub fn input(value: Value) -> Result<Input, ApiError> {
    Input::new(value).map_err(ApiError::from)
}

/// Percent-encodes a segment of a path.
fn percent(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
