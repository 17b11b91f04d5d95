//! Rows: what a write and a query say, and what is said to them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LogPosition, Record};
use crate::{Problem, Stamp};

/// A record's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The newest operation in the row: sorts by time and is the same on every device.
    pub id: Stamp,
    /// The newest change of the row here; what `ETag` and `If-Match` hold.
    pub position: LogPosition,
}

/// Answer to one write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteAnswer {
    /// Id of the row.
    pub id: String,
    /// Its version after the write; none once it is deleted.
    #[serde(rename = "_ver", default, skip_serializing_if = "Option::is_none")]
    pub ver: Option<Version>,
    /// The app's position after the write.
    pub position: LogPosition,
}

/// `POST /v1/apps/A/batch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    /// The operations, at most [`limits::BATCH_OPS`](crate::limits::BATCH_OPS).
    pub ops: Vec<BatchOp>,
    /// Whether all are stored or none; otherwise each is judged by itself.
    #[serde(default = "yes")]
    pub atomic: bool,
    /// A name for the change, repeated in the `origin` of its events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation_id: Option<String>,
}

fn yes() -> bool {
    true
}

/// What one operation of a batch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BatchVerb {
    /// Creates a row; it must not exist.
    Insert,
    /// Creates or replaces a row.
    Put,
    /// Changes columns of a row.
    Update,
    /// Deletes a row.
    Delete,
}

/// One operation of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BatchOp {
    /// What to do.
    pub op: BatchVerb,
    /// The table.
    pub table: String,
    /// The row; an insert or put may name it in `row`, or leave it to the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The columns, for `insert` and `put`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<Record>,
    /// `$set` and `$unset`, for `update`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Record>,
    /// The version that the row must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_match: Option<String>,
}

/// Answer to a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchAnswer {
    /// The app's position after the batch.
    pub position: LogPosition,
    /// One per operation, in their order.
    pub results: Vec<BatchResult>,
}

/// What became of one operation of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchResult {
    /// The HTTP status that it would have had alone.
    pub status: u16,
    /// Id of the row, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its version after the batch.
    #[serde(rename = "_ver", default, skip_serializing_if = "Option::is_none")]
    pub ver: Option<Version>,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// `POST /v1/apps/A/tables/T/query`, and the parameters of `GET …/rows`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueryRequest {
    /// Which rows; all of them where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Value>,
    /// Keys left to right, `-` for descending; the id is always the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sort: Vec<String>,
    /// Most records in the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Rows to skip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    /// `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Whether to count all rows that match.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub include_total: bool,
    /// Columns to include (`1`) or to leave out (`0`); `id` always comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projection: Option<Value>,
}

/// Answer to a query. The daemon fills in its own exact record type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryAnswer<R = Record> {
    /// The rows, in order.
    pub records: Vec<R>,
    /// How many match in all, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Whether more rows follow.
    pub has_next: bool,
    /// What `after` takes to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The position that all of it was read at.
    pub position: LogPosition,
}

/// Answer to an import: what was stored, and where it stopped if it did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportAnswer {
    /// Rows stored.
    pub rows: u64,
    /// The app's position after the last of them.
    pub position: LogPosition,
}

/// `GET /v1/apps/A/unsent`: rows that the server has not got as they are here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnsentAnswer {
    /// The rows, by table and id.
    pub rows: Vec<UnsentRow>,
    /// Where to go on, as `after`; none when that is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<LogPosition>,
}

/// A row that the server has not got as it is here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnsentRow {
    /// Its table.
    pub table: String,
    /// Its id.
    pub id: String,
    /// The row as it is now; none if it is deleted.
    pub row: Option<Record>,
}
