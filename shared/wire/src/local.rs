//! The shapes of the daemon's socket: requests, answers and stream frames (docs/apps.md).
//!
//! The daemon writes them, the client, the command line and the SDKs read them. A record stays a
//! plain JSON object; everything around it is typed here. Positions are decimal text in JSON, so
//! that no reader rounds them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::ids::{AccountId, AppId, DeviceId, ParseIdError};
use crate::{Position, Problem, Stamp};

/// Version of the socket's API, sent in [`API_VERSION_HEADER`] and used in paths as `/v1`.
pub const API_VERSION: &str = "1";
/// Answer header with the API's version.
pub const API_VERSION_HEADER: &str = "tidings-api-version";
/// Answer header with the app's position after the write, or that the read has seen.
pub const POSITION_HEADER: &str = "tidings-position";
/// Request header that names the calling program in the `origin` of its changes.
pub const CLIENT_HEADER: &str = "tidings-client";
/// The `Host` that a client on the socket sends.
pub const SOCKET_HOST: &str = "tidings.localhost";

/// Key of a record's id.
pub const ID: &str = "id";
/// Key of a record's version, which only the daemon writes.
pub const VER: &str = "_ver";
/// Key of a record's owner.
pub const OWNER: &str = "_owner";
/// Key of the time a record was softly deleted.
pub const DELETED_AT: &str = "_deletedAt";

/// A row as apps see it: `id`, the columns, `_ver` and where set `_owner`, `_deletedAt`.
pub type Record = Map<String, Value>;

/// Where a change stands in this computer's log of an app. Rises, skips, stays below 2^53, and
/// means nothing on another computer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogPosition(pub u64);

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for LogPosition {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        text.parse::<Position>().map(|position| Self(position.0))
    }
}

impl Serialize for LogPosition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LogPosition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

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

/// Kind of a change in a table stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// A row came to be.
    Insert,
    /// A row changed.
    Update,
    /// A row went away.
    Delete,
}

impl ChangeKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Insert, Self::Update, Self::Delete];

    /// The name of its event.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

impl FromStr for ChangeKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(())
    }
}

/// Data of the `connected` event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Connected {
    /// The app.
    pub app: AppId,
    /// The table, in a stream of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The tables, in a stream of several; absent where it follows all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<Vec<String>>,
    /// Always true.
    pub live: bool,
    /// Whether the stream goes on from an id that the client named.
    pub resumed: bool,
    /// Names this store; another store has other positions.
    pub store: String,
    /// When the stream will end, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// Data of a change event. The daemon fills in its own exact record type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change<R = Record> {
    /// Its place in the log, also the id of the event.
    pub id: LogPosition,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: ChangeKind,
    /// The table.
    pub table: String,
    /// The row.
    pub row_id: String,
    /// The row afterwards; none for a delete.
    pub record: Option<R>,
    /// The row before; none for an insert, or where it was not asked for.
    pub old_record: Option<R>,
    /// When it was stored here, in UTC.
    pub at: String,
    /// The transaction: position of its first change.
    pub tx: LogPosition,
    /// Whether the transaction ends with this change, as far as the stream shows it.
    pub tx_last: bool,
    /// Who made it.
    pub origin: Origin,
    /// Whether the row entered what the stream shows, or stayed in it; only on updates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transition: Option<Transition>,
}

/// What an update did to a row's place in a stream with a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transition {
    /// It was not shown before.
    Enter,
    /// It was shown before.
    Stay,
}

/// Who made a change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Origin {
    /// The program on this computer, or `remote`.
    pub client: String,
    /// The name that the program gave the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation_id: Option<String>,
}

impl Origin {
    /// The client of changes that came from another device.
    pub const REMOTE: &'static str = "remote";
}

/// Data of the `leave` event: the row no longer passes the stream's filter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leave {
    /// The table.
    pub table: String,
    /// The row.
    pub row_id: String,
    /// Why; `filtered-out`.
    pub reason: String,
    /// The transaction: position of its first change.
    pub tx: LogPosition,
    /// Whether the transaction ends with this, as far as the stream shows it.
    pub tx_last: bool,
}

/// Data of the `resync` event: read the table anew, then go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resync {
    /// Why.
    pub reason: ResyncReason,
    /// The table, where only one is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The last change that was replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_replayed: Option<LogPosition>,
    /// Where the stream goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<LogPosition>,
    /// The oldest change that the log keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<LogPosition>,
}

/// Why a client has to read a table anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResyncReason {
    /// More changes were missed than a stream replays.
    BackfillTruncated,
    /// The id is older than the log, or of another life of it.
    BackfillExpired,
    /// A change of many rows that are not named one by one.
    BulkChange,
    /// What the client may see has changed.
    GrantChanged,
}

/// Data of the `closed` event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Closed {
    /// Why.
    pub reason: ClosedReason,
    /// What to do.
    pub retry: Retry,
    /// How long to wait first, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
}

/// Why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosedReason {
    /// The daemon stops.
    ServerShutdown,
    /// The store closed.
    StoreClosed,
    /// The table is locked.
    TableLocked,
    /// The table is gone.
    TableDropped,
}

/// What a client does after a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// Open it again with the last id.
    Resume,
    /// Open it again from nothing.
    Fresh,
    /// Get a new token first.
    Reauth,
    /// Do not.
    Never,
}

/// `GET /v1/status`, and each event of its stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusAnswer {
    /// What the daemon does now.
    pub state: SyncState,
    /// What it waits for, in one sentence, where it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Version of the daemon.
    pub version: String,
    /// Names this computer's store.
    pub store: String,
    /// The account, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountId>,
    /// This device in the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceId>,
    /// The server's URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// When the server last proved what it holds, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven_at: Option<String>,
    /// Each app, by name.
    pub apps: Vec<AppStatus>,
    /// What a person should look at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<Alarm>,
}

/// What the daemon does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncState {
    /// It opens its store.
    #[default]
    Starting,
    /// It has no account: apps work, nothing is synced.
    Local,
    /// Everything here is on the server and everything there is here.
    Synced,
    /// Changes are on their way.
    Syncing,
    /// The server cannot be reached.
    Offline,
    /// Something outside has to happen first; `reason` says what.
    Waiting,
    /// The person has to sign in.
    Reauth,
    /// This device was taken out of the account.
    Revoked,
    /// The store cannot be written; reads go on.
    Degraded,
    /// Stored bytes are not what was written.
    Damaged,
}

/// How far one app is synced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppStatus {
    /// The app.
    pub id: AppId,
    /// Its position here.
    pub position: LogPosition,
    /// Every own change at or below this is on the server.
    pub pushed: LogPosition,
    /// Own transactions that are not on the server yet.
    pub pending: u64,
    /// Blobs that arrived but do not verify or open.
    pub quarantined: u64,
    /// Whether the first pull has come to its end.
    pub complete: bool,
}

/// Something that a person should look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// Which, for programs.
    pub code: String,
    /// What it means, for the person.
    pub message: String,
    /// Since when, in UTC.
    pub since: String,
}

/// `GET /v1/ping` and `GET /v1/health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PingAnswer {
    /// Always true in a ping; in `health`, whether the store takes writes.
    pub ok: bool,
    /// Version of the daemon.
    pub version: String,
    /// Process id of the daemon.
    pub pid: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_text() {
        let version = Version { id: Stamp::ZERO, position: LogPosition(1 << 52) };
        let json = serde_json::to_string(&version).unwrap();
        assert_eq!(
            json,
            r#"{"id":"00000000000000000000000000000000","position":"4503599627370496"}"#
        );
        assert_eq!(serde_json::from_str::<Version>(&json).unwrap(), version);
        assert!(serde_json::from_str::<LogPosition>("1").is_err());
    }

    #[test]
    fn unknown_fields_are_refused() {
        let wrong = r#"{"ops":[],"atomc":false}"#;
        assert!(serde_json::from_str::<BatchRequest>(wrong).is_err());
        let right: BatchRequest = serde_json::from_str(r#"{"ops":[]}"#).unwrap();
        assert!(right.atomic);
    }

    #[test]
    fn reasons_have_their_names() {
        let closed = Closed {
            reason: ClosedReason::ServerShutdown,
            retry: Retry::Resume,
            after_ms: Some(500),
        };
        assert_eq!(
            serde_json::to_string(&closed).unwrap(),
            r#"{"reason":"server_shutdown","retry":"resume","after_ms":500}"#
        );
    }
}
