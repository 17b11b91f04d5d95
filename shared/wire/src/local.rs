//! The shapes of the daemon's socket: requests, answers and stream frames (docs/apps.md).
//!
//! The daemon writes them, the client, the command line and the SDKs read them. A record stays a
//! plain JSON object; everything around it is typed here. Positions are decimal text in JSON, so
//! that no reader rounds them.

mod rows;
mod status;
mod stream;
mod tables;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::Position;
use crate::ids::ParseIdError;

pub use rows::{
    BatchAnswer, BatchOp, BatchRequest, BatchResult, BatchVerb, ImportAnswer, QueryAnswer,
    QueryRequest, UnsentAnswer, UnsentRow, Version, WriteAnswer,
};
pub use status::{Alarm, AppStatus, PingAnswer, StatusAnswer, SyncState};
pub use stream::{
    Change, ChangeKind, Closed, ClosedReason, Connected, Leave, Origin, Resync, ResyncReason,
    Retry, Transition,
};
pub use tables::{AppInfo, AppsAnswer, ReadPolicy, TableDeclaration, TableInfo, TablesAnswer};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stamp;

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
