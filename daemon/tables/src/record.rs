//! Records: the JSON objects in which an app gives and gets a row.
//!
//! `id`, the columns, and `_ver`, which the daemon makes of the row's version and of the position
//! of its last change here. Exactly `id`, `_ver`, `_owner` and `_deletedAt` have a meaning; every
//! other key, whatever it looks like, is a column.

use tidings_wire::{Stamp, limits};

use crate::cbor::encode_object;
use crate::names::{DELETED_AT, ID, NameError, OWNER, RowId, VER};
use crate::object::Object;
use crate::value::{Value, object_depth};

/// A row as an app writes it, checked at the door.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// The id, if the app chose one.
    pub id: Option<RowId>,
    /// The columns: everything but `id` and `_ver`.
    pub columns: Object,
}

/// Why a row was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// A row is an object.
    #[error("a row must be a JSON object, not {0}")]
    NotAnObject(&'static str),
    /// The id is not text.
    #[error("`id` must be a string, not {0}")]
    IdNotString(&'static str),
    /// The id is empty, too long or holds a NUL.
    #[error("`id`: {0}")]
    Id(#[from] NameError),
    /// Nested too deep.
    #[error("a row may nest {max} levels, and this has {0}", max = limits::JSON_DEPTH)]
    TooDeep(usize),
    /// Too many bytes.
    #[error("a row may have {max} bytes as CBOR, and this has {0}", max = limits::ROW)]
    TooLarge(usize),
}

impl Input {
    /// Checks a row that an app wrote.
    ///
    /// # Errors
    /// See [`InputError`].
    pub fn new(value: Value) -> Result<Self, InputError> {
        let mut columns = match value {
            Value::Object(members) => members,
            other => return Err(InputError::NotAnObject(other.kind())),
        };
        let id = match columns.remove(ID) {
            None => None,
            Some(Value::String(id)) => Some(RowId::new(id)?),
            Some(other) => return Err(InputError::IdNotString(other.kind())),
        };
        columns.remove(VER);
        check_columns(&columns)?;
        Ok(Self { id, columns })
    }

    /// Whether the row names its owner, which only some clients may.
    pub fn writes_owner(&self) -> bool {
        self.columns.contains_key(OWNER)
    }
}

/// Refuses columns that nest too deep or are too large together.
///
/// # Errors
/// [`InputError::TooDeep`] and [`InputError::TooLarge`].
pub fn check_columns(columns: &Object) -> Result<(), InputError> {
    let depth = object_depth(columns);
    if depth > limits::JSON_DEPTH {
        return Err(InputError::TooDeep(depth));
    }
    let bytes = encode_object(columns).len();
    if bytes > limits::ROW {
        return Err(InputError::TooLarge(bytes));
    }
    Ok(())
}

/// The record of a row: its columns with `id` and `_ver`.
///
/// `position` is the one of the row's last change on this computer. It is written as a string of
/// decimal digits, as event ids are.
pub fn record(id: &RowId, mut columns: Object, version: Stamp, position: u64) -> Object {
    let version = Object::from([
        ("id", Value::from(version.to_string())),
        ("position", Value::from(position.to_string())),
    ]);
    columns.insert(ID, Value::from(id.as_str()));
    columns.insert(VER, Value::Object(version));
    columns
}

/// Whether an app that keeps what it deletes has deleted the row: `_deletedAt` is there and not
/// null.
pub fn is_soft_deleted(columns: &Object) -> bool {
    columns.get(DELETED_AT).is_some_and(|value| *value != Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{parse, parse_nested};

    fn input(text: &str) -> Result<Input, InputError> {
        Input::new(parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn every_key_but_the_four_is_a_column() {
        let text = r#"{"":3,"$type":"entry",".0.0.0.2":2,"__proto__":{"x":1},"_at":1,"_id":2,"_rev":3,"a":{"b":{"c":2}},"a.b":{"c":1},"constructor":1,"op":"insert","table":"t","ttl":"1234"}"#;
        let taken = input(text).unwrap();
        assert_eq!(Value::Object(taken.columns.clone()).to_string(), text);
        assert_eq!(taken.id, None);

        let id = RowId::new("k1").unwrap();
        let shown = record(&id, taken.columns.clone(), Stamp::ZERO, 7);
        assert_eq!(shown.len(), taken.columns.len() + 2);
        let again = Input::new(Value::Object(shown)).unwrap();
        assert_eq!(
            (again.id, again.columns),
            (Some(id), taken.columns),
            "a record can be put back"
        );
    }

    #[test]
    fn what_a_row_cannot_be() {
        assert_eq!(input("[]"), Err(InputError::NotAnObject("array")));
        assert_eq!(input(r#"{"id":5}"#), Err(InputError::IdNotString("number")));
        assert_eq!(input(r#"{"id":null}"#), Err(InputError::IdNotString("null")));
        assert!(matches!(input(r#"{"id":""}"#), Err(InputError::Id(_))));
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(64), "]".repeat(64));
        assert_eq!(
            Input::new(parse_nested(deep.as_bytes(), 66).unwrap()),
            Err(InputError::TooDeep(65))
        );
        let text = |len: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(len));
        assert!(input(&text(limits::ROW - 8)).is_ok());
        assert_eq!(input(&text(limits::ROW - 7)), Err(InputError::TooLarge(limits::ROW + 1)));
    }

    #[test]
    fn the_daemon_s_own_columns() {
        let taken = input(r#"{"id":"x","_ver":{"id":1},"_owner":"me","_deletedAt":null}"#).unwrap();
        assert!(taken.writes_owner());
        assert!(!is_soft_deleted(&taken.columns));
        assert_eq!(taken.columns.len(), 2);
        assert!(is_soft_deleted(&input(r#"{"_deletedAt":"2026-01-01"}"#).unwrap().columns));
    }
}
