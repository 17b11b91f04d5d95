//! Tables and keys of the replica's store.
//!
//! Every key begins with the app. Neither app ids nor table names hold a NUL, so a NUL ends them
//! and keys of one app, one table, one log stand together in order.

use tidings_tables::{RowId, TableName};
use tidings_wire::AppId;
use tidings_wire::local::LogPosition;

/// `app NUL table NUL row` → [`StoredRow`](super::StoredRow).
pub const ROWS: &str = "rows";
/// `app NUL position` → [`Entry`](super::Entry).
pub const LOG: &str = "log";
/// `app NUL position` → [`OutboxTx`](super::OutboxTx); the position is the transaction's last.
pub const OUTBOX: &str = "outbox";
/// What the sync side keeps: frozen pushes, lanes, manifests, cursors, quarantine, staged blobs.
pub const SYNC: &str = "sync";
/// What the vault keeps: chain and sealed epochs, never a secret in clear.
pub const VAULT: &str = "vault";
/// Counters and declarations of apps and tables, the incarnation, the last stamp.
pub const META: &str = "meta";

/// Every table, for opening the store.
pub const TABLES: &[&str] = &[ROWS, LOG, OUTBOX, SYNC, VAULT, META];

/// The part that all keys of an app begin with.
pub fn app(app: &AppId) -> Vec<u8> {
    let mut key = app.as_str().as_bytes().to_vec();
    key.push(0);
    key
}

/// The part that all rows of a table begin with.
pub fn table(app: &AppId, table: &TableName) -> Vec<u8> {
    let mut key = self::app(app);
    key.extend_from_slice(table.as_str().as_bytes());
    key.push(0);
    key
}

/// The key of a row.
pub fn row(app: &AppId, table: &TableName, row: &RowId) -> Vec<u8> {
    let mut key = self::table(app, table);
    key.extend_from_slice(row.as_str().as_bytes());
    key
}

/// The key of a log entry or of a transaction in the outbox.
pub fn position(app: &AppId, position: LogPosition) -> Vec<u8> {
    let mut key = self::app(app);
    key.extend_from_slice(&position.0.to_be_bytes());
    key
}

/// The position at the end of a key.
pub fn position_of(key: &[u8]) -> Option<LogPosition> {
    key.last_chunk().map(|bytes| LogPosition(u64::from_be_bytes(*bytes)))
}

/// What stands after a prefix, as text.
pub fn tail<'a>(key: &'a [u8], prefix: &[u8]) -> Option<&'a str> {
    std::str::from_utf8(key.strip_prefix(prefix)?).ok()
}

/// The record of the replica itself, in [`META`].
pub const REPLICA: &[u8] = b"replica";
/// What the records of apps begin with, in [`META`].
pub const APPS: &[u8] = b"app\0";
/// What the records of tables begin with, in [`META`].
const TABLES_PREFIX: &[u8] = b"table\0";

/// The record of an app, in [`META`].
pub fn app_record(app: &AppId) -> Vec<u8> {
    [APPS, app.as_str().as_bytes()].concat()
}

/// What the records of an app's tables begin with, in [`META`].
pub fn table_records(app: &AppId) -> Vec<u8> {
    [TABLES_PREFIX, &self::app(app)].concat()
}

/// The record of a table, in [`META`].
pub fn table_record(app: &AppId, table: &TableName) -> Vec<u8> {
    let mut key = table_records(app);
    key.extend_from_slice(table.as_str().as_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_owner_stand_together() {
        let app = |name: &str| name.parse::<AppId>().unwrap();
        let table = |name: &str| TableName::new(name).unwrap();
        let row =
            |a: &str, t: &str, r: &str| super::row(&app(a), &table(t), &RowId::new(r).unwrap());
        let mut keys = vec![
            row("a", "t", "2"),
            row("a", "t-", "1"),
            row("a-", "t", "1"),
            row("a", "t", "1"),
            row("a", "\u{1}", "9"),
        ];
        keys.sort();
        assert_eq!(
            keys,
            [
                row("a", "\u{1}", "9"),
                row("a", "t", "1"),
                row("a", "t", "2"),
                row("a", "t-", "1"),
                row("a-", "t", "1"),
            ]
        );
        let prefix = super::table(&app("a"), &table("t"));
        assert_eq!(tail(&keys[1], &prefix), Some("1"));
        assert_eq!(tail(&keys[3], &prefix), None);
        let key = position(&app("a"), LogPosition(7));
        assert_eq!(position_of(&key), Some(LogPosition(7)));
    }
}
