//! Apps and their tables: lists, and what apps declare.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::json;
use tidings_wire::local::{
    AppInfo, AppsAnswer, LogPosition, ReadPolicy, TableDeclaration, TableInfo, TablesAnswer,
};

use super::Api;
use super::body::{self, Fields, expected};
use super::error::{ApiError, Code};
use super::gate::{Caller, Need};
use super::names::{AppName, TablePath};
use super::params::Params;
use super::rows;
use crate::replica::{TableRecord, meta, query};

/// `GET /v1/apps`.
pub async fn apps(
    State(api): State<Api>,
    caller: Caller,
    params: Params,
) -> Result<Json<AppsAnswer>, ApiError> {
    params.finish()?;
    let apps = api.gate().read_all(&caller, |source| {
        let apps = meta::apps(source)?.into_iter().map(|(id, record)| {
            let tables = meta::tables(source, &id)?;
            Ok(AppInfo {
                id,
                tables: tables.len() as u64,
                rows: tables.iter().map(|(_, table)| table.rows).sum(),
                position: LogPosition(record.head),
            })
        });
        apps.collect()
    });
    Ok(Json(AppsAnswer { apps: apps.await? }))
}

/// `GET /v1/apps/A`.
pub async fn app(
    State(api): State<Api>,
    caller: Caller,
    AppName(app): AppName,
    params: Params,
) -> Result<Response, ApiError> {
    params.finish()?;
    let access = api.gate().access(&caller, &app, &[], Need::Read)?;
    let read = access.read(|source, app| {
        let Some(record) = meta::app(source, app)? else { return Ok(None) };
        let tables = meta::tables(source, app)?;
        Ok(Some(AppInfo {
            id: app.clone(),
            tables: tables.len() as u64,
            rows: tables.iter().map(|(_, table)| table.rows).sum(),
            position: LogPosition(record.head),
        }))
    });
    let info = read.await?.ok_or_else(no_app)?;
    Ok(rows::answer(StatusCode::OK, &info, info.position, None))
}

/// `GET /v1/apps/A/tables`.
pub async fn list(
    State(api): State<Api>,
    caller: Caller,
    AppName(app): AppName,
    params: Params,
) -> Result<Response, ApiError> {
    params.finish()?;
    let access = api.gate().access(&caller, &app, &[], Need::Read)?;
    let read = access.read(|source, app| {
        let tables = meta::tables(source, app)?;
        Ok(meta::app(source, app)?.map(|record| (tables, LogPosition(record.head))))
    });
    let (tables, position) = read.await?.ok_or_else(no_app)?;
    let tables = tables.into_iter().map(|(name, record)| info(name.as_str(), &record)).collect();
    Ok(rows::answer(StatusCode::OK, &TablesAnswer { tables, position }, position, None))
}

/// `GET /v1/apps/A/tables/T`.
pub async fn show(
    State(api): State<Api>,
    caller: Caller,
    path: TablePath,
    params: Params,
) -> Result<Response, ApiError> {
    params.finish()?;
    let access = api.gate().access(&caller, &path.app, &[&path.table], Need::Read)?;
    let table = path.table.clone();
    let read = access.read(move |source, app| {
        Ok((meta::table(source, app, &table)?, query::position(source, app)?))
    });
    let (record, position) = read.await?;
    let record = record.ok_or_else(|| ApiError::new(Code::TableNotFound, "no such table"))?;
    Ok(rows::answer(StatusCode::OK, &info(path.table.as_str(), &record), position, None))
}

/// `PUT /v1/apps/A/tables/T`: declares a table. The same declaration again changes nothing.
pub async fn declare(
    State(api): State<Api>,
    caller: Caller,
    path: TablePath,
    params: Params,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    params.finish()?;
    let access = api.gate().access(&caller, &path.app, &[&path.table], Need::Write)?;
    let value = body::json(&headers, body, api.config().body_idle).await?;
    let mut fields = Fields::new(value, "a declaration")?;
    let read = match fields.take("read") {
        None => None,
        Some(value) => Some(match value.as_str() {
            Some("private") => ReadPolicy::Private,
            Some("owner") => ReadPolicy::Owner,
            Some("public") => ReadPolicy::Public,
            _ => {
                return Err(expected("read", "private, owner or public", &value)
                    .details(json!({ "accepted": ["private", "owner", "public"] })));
            }
        }),
    };
    for later in ["schema", "indexes", "log_days"] {
        if fields.take(later).is_some() {
            let message = format!("`{later}` is not supported yet: this version declares `read`");
            return Err(ApiError::new(Code::NotYet, message));
        }
    }
    fields.finish()?;
    let declared = serde_json::to_string(&TableDeclaration { read }).map_err(|error| {
        tracing::error!(%error, "a declaration could not be written");
        ApiError::new(Code::Internal, "the declaration could not be stored")
    })?;
    access.declare(&path.table, declared).await?;
    show(State(api), caller, path, Params::default()).await
}

fn info(name: &str, record: &TableRecord) -> TableInfo {
    let declared = record.declared.as_deref().and_then(|text| serde_json::from_str(text).ok());
    TableInfo { name: name.to_owned(), rows: record.rows, declared }
}

fn no_app() -> ApiError {
    ApiError::new(Code::AppNotFound, "no such app here yet")
}
