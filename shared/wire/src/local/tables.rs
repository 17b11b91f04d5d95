//! Apps and their tables: what there is, and what an app declares.

use serde::{Deserialize, Serialize};

use super::LogPosition;
use crate::ids::AppId;

/// `GET /v1/apps`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppsAnswer {
    /// The apps that have data here, by name.
    pub apps: Vec<AppInfo>,
}

/// One app.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppInfo {
    /// Its id.
    pub id: AppId,
    /// How many tables it has.
    pub tables: u64,
    /// How many rows they hold.
    pub rows: u64,
    /// Its position.
    pub position: LogPosition,
}

/// `GET /v1/apps/A/tables`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TablesAnswer {
    /// The tables, by name.
    pub tables: Vec<TableInfo>,
    /// The app's position.
    pub position: LogPosition,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// How many rows it shows.
    pub rows: u64,
    /// What the app declared about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<TableDeclaration>,
}

/// `PUT /v1/apps/A/tables/T`: what an app declares about a table, local to this computer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDeclaration {
    /// Who may read without a grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<ReadPolicy>,
}

/// Who may read a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadPolicy {
    /// Programs with a grant.
    #[default]
    Private,
    /// Each program its own rows.
    Owner,
    /// Every approved program.
    Public,
}
