//! What the events of a stream carry.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{LogPosition, Record};
use crate::ids::AppId;

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
