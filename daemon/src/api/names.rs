//! The names in a path: app, table and row, percent-decoded and checked.

use std::collections::BTreeMap;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use tidings_tables::{RowId, TableName};
use tidings_wire::AppId;

use super::error::{ApiError, Code};

/// An app.
pub struct AppName(pub AppId);

/// A table of an app.
pub struct TablePath {
    /// The app.
    pub app: AppId,
    /// The table.
    pub table: TableName,
}

/// A row of a table.
pub struct RowPath {
    /// The app.
    pub app: AppId,
    /// The table.
    pub table: TableName,
    /// The row.
    pub row: RowId,
}

impl<S: Send + Sync> FromRequestParts<S> for AppName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        names(parts, state).await?.app().map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TablePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let names = names(parts, state).await?;
        Ok(Self { app: names.app()?, table: names.table()? })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RowPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let names = names(parts, state).await?;
        Ok(Self { app: names.app()?, table: names.table()?, row: row(names.text("row"))? })
    }
}

/// A table's name, as it stands in a path, a parameter or a body.
///
/// # Errors
/// `request.invalid_field`.
pub fn table(text: &str) -> Result<TableName, ApiError> {
    TableName::new(text).map_err(|error| ApiError::invalid("table", error.to_string()))
}

/// A row's id, as it stands in a path or a body.
///
/// # Errors
/// `request.invalid_field`.
pub fn row(text: &str) -> Result<RowId, ApiError> {
    RowId::new(text).map_err(|error| ApiError::invalid("id", error.to_string()))
}

struct Names(BTreeMap<String, String>);

impl Names {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn app(&self) -> Result<AppId, ApiError> {
        let app = self.text("app").parse::<AppId>();
        app.map_err(|error| ApiError::invalid("app", error.to_string()))
    }

    fn table(&self) -> Result<TableName, ApiError> {
        table(self.text("table"))
    }
}

async fn names<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<Names, ApiError> {
    let path = Path::<BTreeMap<String, String>>::from_request_parts(parts, state).await;
    path.map(|Path(names)| Names(names))
        .map_err(|_| ApiError::new(Code::InvalidField, "the path is not UTF-8"))
}
