//! Calls about apps, tables, rows and the state of sync.

use std::io;

use bytes::Bytes;
use http::{
    Method, StatusCode,
    header::{CONTENT_TYPE, IF_MATCH},
};
use serde::Serialize;
use tidings_wire::{
    AppId,
    local::{
        AppsAnswer, BatchAnswer, BatchRequest, ImportAnswer, LogPosition, PingAnswer, QueryAnswer,
        QueryRequest, Record, StatusAnswer, TableDeclaration, TableInfo, TablesAnswer,
        UnsentAnswer, WriteAnswer,
    },
};
use tokio_stream::Stream;

use super::{Client, LocalError, Request, path::Path};

const NDJSON: &str = "application/x-ndjson";
const MERGE_PATCH: &str = "application/merge-patch+json";

impl Client {
    /// Whether the daemon is there.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn ping(&self) -> Result<PingAnswer, LocalError> {
        self.request(Request::new(Method::GET, "/v1/ping")).await?.json()
    }

    /// Whether the daemon's store takes writes.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn health(&self) -> Result<PingAnswer, LocalError> {
        let reply = self.answer(Request::new(Method::GET, "/v1/health")).await?;
        match reply.status {
            // "No" is an answer too.
            StatusCode::SERVICE_UNAVAILABLE => reply.json().or_else(|_| reply.successful()?.json()),
            _ => reply.successful()?.json(),
        }
    }

    /// What the daemon does and how far every app is synced.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn status(&self) -> Result<StatusAnswer, LocalError> {
        self.request(Request::new(Method::GET, "/v1/status")).await?.json()
    }

    /// The apps that have data here.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn apps(&self) -> Result<AppsAnswer, LocalError> {
        self.request(Request::new(Method::GET, "/v1/apps")).await?.json()
    }

    /// The tables of an app.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn tables(&self, app: &AppId) -> Result<TablesAnswer, LocalError> {
        let path = Path::app(app).fixed("tables").into_string();
        self.request(Request::new(Method::GET, path)).await?.json()
    }

    /// Rows of an app that the server has not got as they are here, a page at a time.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn unsent(
        &self,
        app: &AppId,
        after: LogPosition,
    ) -> Result<UnsentAnswer, LocalError> {
        let path = Path::app(app).fixed("unsent").into_string();
        let path = format!("{path}?after={after}");
        self.request(Request::new(Method::GET, path)).await?.json()
    }

    /// Declares what an app needs of a table on this computer; repeating it changes nothing.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn declare(
        &self,
        app: &AppId,
        table: &str,
        declaration: &TableDeclaration,
    ) -> Result<TableInfo, LocalError> {
        let path = Path::table(app, table).into_string();
        self.request(Request::new(Method::PUT, path).json(declaration)?).await?.json()
    }

    /// Reads a row.
    ///
    /// # Errors
    /// [`LocalError`]; `row.not_found`.
    pub async fn row(&self, app: &AppId, table: &str, id: &str) -> Result<Record, LocalError> {
        let path = Path::row(app, table, id).into_string();
        self.request(Request::new(Method::GET, path)).await?.json()
    }

    /// Creates a row; without an id in it the daemon makes one.
    ///
    /// # Errors
    /// [`LocalError`]; `row.exists`.
    pub async fn insert(
        &self,
        app: &AppId,
        table: &str,
        row: &impl Serialize,
    ) -> Result<WriteAnswer, LocalError> {
        let path = Path::table(app, table).fixed("rows").into_string();
        self.request(Request::new(Method::POST, path).json(row)?).await?.json()
    }

    /// Creates or replaces a row, with `if_match` only where it has that version.
    ///
    /// # Errors
    /// [`LocalError`]; `row.version_mismatch`.
    pub async fn put(
        &self,
        app: &AppId,
        table: &str,
        id: &str,
        row: &impl Serialize,
        if_match: Option<&str>,
    ) -> Result<WriteAnswer, LocalError> {
        let request = Request::new(Method::PUT, Path::row(app, table, id).into_string());
        self.write(request.json(row)?, if_match).await
    }

    /// Changes a row by operators: `$set`, `$unset`.
    ///
    /// # Errors
    /// [`LocalError`]; `row.not_found`, `row.version_mismatch`.
    pub async fn patch(
        &self,
        app: &AppId,
        table: &str,
        id: &str,
        operators: &impl Serialize,
        if_match: Option<&str>,
    ) -> Result<WriteAnswer, LocalError> {
        let request = Request::new(Method::PATCH, Path::row(app, table, id).into_string());
        self.write(request.json(operators)?, if_match).await
    }

    /// Changes a row by a JSON Merge Patch (RFC 7396).
    ///
    /// # Errors
    /// [`LocalError`]; `row.not_found`, `row.version_mismatch`.
    pub async fn merge_patch(
        &self,
        app: &AppId,
        table: &str,
        id: &str,
        patch: &impl Serialize,
        if_match: Option<&str>,
    ) -> Result<WriteAnswer, LocalError> {
        let request = Request::new(Method::PATCH, Path::row(app, table, id).into_string());
        let request = request.json(patch)?.header(CONTENT_TYPE, MERGE_PATCH);
        self.write(request, if_match).await
    }

    /// Deletes a row.
    ///
    /// # Errors
    /// [`LocalError`]; `row.not_found`, `row.version_mismatch`.
    pub async fn delete(
        &self,
        app: &AppId,
        table: &str,
        id: &str,
        if_match: Option<&str>,
    ) -> Result<WriteAnswer, LocalError> {
        let request = Request::new(Method::DELETE, Path::row(app, table, id).into_string());
        self.write(request, if_match).await
    }

    /// Reads the rows of a table that match.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn query(
        &self,
        app: &AppId,
        table: &str,
        query: &QueryRequest,
    ) -> Result<QueryAnswer, LocalError> {
        let path = Path::table(app, table).fixed("query").into_string();
        self.request(Request::new(Method::POST, path).json(query)?).await?.json()
    }

    /// Does several writes in one transaction.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn batch(
        &self,
        app: &AppId,
        batch: &BatchRequest,
    ) -> Result<BatchAnswer, LocalError> {
        let path = Path::app(app).fixed("batch").into_string();
        self.request(Request::new(Method::POST, path).json(batch)?).await?.json()
    }

    /// Puts many rows, one JSON object per line.
    ///
    /// # Errors
    /// [`LocalError`]; the rows before the one that was refused stay.
    pub async fn import_ndjson(
        &self,
        app: &AppId,
        table: &str,
        lines: Bytes,
    ) -> Result<ImportAnswer, LocalError> {
        let request = Request::new(Method::POST, import_path(app, table));
        self.request(request.body(NDJSON, lines).within(None)).await?.json()
    }

    /// Puts many rows from a stream of NDJSON that is sent as it comes.
    ///
    /// # Errors
    /// [`LocalError`]; the rows before the one that was refused stay.
    pub async fn import_stream(
        &self,
        app: &AppId,
        table: &str,
        pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Result<ImportAnswer, LocalError> {
        let request = Request::new(Method::POST, import_path(app, table));
        self.request(request.upload(NDJSON, pieces)).await?.json()
    }

    async fn write(
        &self,
        request: Request,
        if_match: Option<&str>,
    ) -> Result<WriteAnswer, LocalError> {
        let request = match if_match {
            // Written as a person copies it from `_ver.position`; the header wants quotes.
            Some(version) if version.starts_with('"') => request.header(IF_MATCH, version),
            Some(version) => request.header(IF_MATCH, format!("\"{version}\"")),
            None => request,
        };
        self.request(request).await?.json()
    }
}

fn import_path(app: &AppId, table: &str) -> String {
    Path::table(app, table).fixed("import").into_string()
}
