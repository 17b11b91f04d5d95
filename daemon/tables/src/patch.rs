//! Patches: what an update changes, as operators or as a JSON merge patch (RFC 7396).
//!
//! This release writes whole columns. What needs more (counters, sets, paths into a column) is
//! refused as [`PatchError::NotYet`] and never falls back to overwriting a column.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::names::{ID, OWNER, RowId, VER};
use crate::object::Object;
use crate::path::Path;
use crate::value::Value;

/// The columns that an update sets and removes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Patch {
    /// `None` removes.
    pub(crate) writes: BTreeMap<Path, Option<Value>>,
}

/// Why a patch was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// A patch is an object, and so is an operator's operand.
    #[error("{what} must be {expected}, not {found}")]
    Kind {
        /// The patch, or the operator.
        what: String,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// No operator of that name.
    #[error("unknown operator `{operator}`{hint}", hint = hint(operator))]
    UnknownOperator {
        /// The operator.
        operator: String,
        /// The operators there are.
        accepted: &'static [&'static str],
    },
    /// Part of the language, but not of this release.
    #[error("{0} is not supported yet: this version writes whole columns with `$set` and `$unset`")]
    NotYet(String),
    /// The same column twice in one patch.
    #[error("`{0}` is written twice in one patch")]
    Conflict(Path),
    /// A row keeps its id.
    #[error("`id` cannot be changed")]
    IdChanged,
}

/// The operators of a patch.
pub const OPERATORS: &[&str] = &["$set", "$unset", "$inc", "$addToSet", "$pull"];

fn hint(operator: &str) -> &'static str {
    match operator {
        "$push" => ": it has no merge rule; use `$addToSet`, or a row per element",
        key if !key.starts_with('$') => {
            ": a JSON patch holds operators only; send columns as application/merge-patch+json"
        }
        _ => "",
    }
}

impl Patch {
    /// Reads a patch of operators for the row `id`.
    ///
    /// # Errors
    /// See [`PatchError`].
    pub fn operators(patch: Value, id: &RowId) -> Result<Self, PatchError> {
        let mut read = Self::default();
        for (operator, operand) in object(patch, "a patch")? {
            match &*operator {
                "$set" => {
                    for (path, value) in object(operand, "`$set`")? {
                        read.write(Path::parse(&path), Some(value), id)?;
                    }
                }
                "$unset" => {
                    for path in unset_paths(operand)? {
                        read.write(Path::parse(&path), None, id)?;
                    }
                }
                "$inc" | "$addToSet" | "$pull" => {
                    return Err(PatchError::NotYet(format!("`{operator}`")));
                }
                _ => {
                    return Err(PatchError::UnknownOperator {
                        operator: operator.into(),
                        accepted: OPERATORS,
                    });
                }
            }
        }
        Ok(read)
    }

    /// Reads a JSON merge patch for the row `id`: null removes a column, anything else sets it.
    ///
    /// # Errors
    /// See [`PatchError`]; a member that is an object would merge into the column and is not
    /// supported yet.
    pub fn merge(patch: Value, id: &RowId) -> Result<Self, PatchError> {
        let mut read = Self::default();
        for (column, value) in object(patch, "a merge patch")? {
            let path = Path::column(&column);
            match value {
                Value::Object(_) if &*column != VER => {
                    return Err(PatchError::NotYet(format!("merging an object into `{path}`")));
                }
                Value::Null => read.write(path, None, id)?,
                value => read.write(path, Some(value), id)?,
            }
        }
        Ok(read)
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Whether it names the row's owner, which only some clients may.
    pub fn writes_owner(&self) -> bool {
        self.writes.keys().any(|path| path.keys().first().is_some_and(|key| &**key == OWNER))
    }

    /// The columns that it writes.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.writes.keys().filter_map(Path::as_column)
    }

    fn write(&mut self, path: Path, value: Option<Value>, id: &RowId) -> Result<(), PatchError> {
        match path.keys().first().map(|key| &**key) {
            // The daemon's: an app may send back what it read.
            Some(VER) => return Ok(()),
            Some(ID) => {
                let same = value.as_ref().and_then(Value::as_str) == Some(id.as_str());
                let whole = path.as_column().is_some();
                return if same && whole { Ok(()) } else { Err(PatchError::IdChanged) };
            }
            _ => {}
        }
        if path.as_column().is_none() {
            return Err(PatchError::NotYet(format!("the path `{path}` into a column")));
        }
        match self.writes.entry(path) {
            Entry::Vacant(entry) => {
                entry.insert(value);
                Ok(())
            }
            Entry::Occupied(entry) => Err(PatchError::Conflict(entry.key().clone())),
        }
    }
}

fn object(value: Value, what: &str) -> Result<Object, PatchError> {
    match value {
        Value::Object(members) => Ok(members),
        other => Err(PatchError::Kind {
            what: what.to_owned(),
            expected: "an object",
            found: other.kind(),
        }),
    }
}

/// `{"a":true}`, whatever the values, or `["a"]`.
fn unset_paths(operand: Value) -> Result<Vec<Box<str>>, PatchError> {
    let wrong = |found| PatchError::Kind {
        what: String::from("`$unset`"),
        expected: "an object or an array of paths",
        found,
    };
    match operand {
        Value::Object(members) => Ok(members.into_iter().map(|(path, _)| path).collect()),
        Value::Array(paths) => paths
            .into_iter()
            .map(|path| match path {
                Value::String(path) => Ok(path.into()),
                other => Err(wrong(other.kind())),
            })
            .collect(),
        other => Err(wrong(other.kind())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn id() -> RowId {
        RowId::new("r1").unwrap()
    }

    fn operators(text: &str) -> Result<Patch, PatchError> {
        Patch::operators(parse(text.as_bytes()).unwrap(), &id())
    }

    fn merge(text: &str) -> Result<Patch, PatchError> {
        Patch::merge(parse(text.as_bytes()).unwrap(), &id())
    }

    #[test]
    fn whole_columns_are_set_and_removed() {
        let patch =
            operators(r#"{"$set":{"a":{"x":1},"/b.c":2,"$t":3},"$unset":{"d":""}}"#).unwrap();
        assert_eq!(patch.columns().collect::<Vec<_>>(), ["$t", "a", "b.c", "d"]);
        assert_eq!(operators(r#"{"$unset":["d"]}"#), merge(r#"{"d":null}"#));
        assert_eq!(operators(r#"{"$set":{"a":[1]}}"#), merge(r#"{"a":[1]}"#));
        assert_eq!(operators(r#"{"$set":{"/a.b":1}}"#), merge(r#"{"a.b":1}"#));
        assert!(operators("{}").unwrap().is_empty());
    }

    #[test]
    fn what_would_overwrite_more_than_meant_is_not_yet() {
        for text in [
            r#"{"$set":{"a.b":1}}"#,
            r#"{"$unset":{"a.b":1}}"#,
            r#"{"$inc":{"n":1}}"#,
            r#"{"$addToSet":{"n":1}}"#,
            r#"{"$set":{"x":1},"$pull":{"n":1}}"#,
        ] {
            assert!(matches!(operators(text), Err(PatchError::NotYet(_))), "{text}");
        }
        assert!(matches!(merge(r#"{"a":{"b":1}}"#), Err(PatchError::NotYet(_))));
        assert!(matches!(merge(r#"{"a":{}}"#), Err(PatchError::NotYet(_))));
    }

    #[test]
    fn what_is_not_a_patch_is_refused() {
        let unknown = operators(r#"{"$push":{"a":1}}"#).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "unknown operator `$push`: it has no merge rule; use `$addToSet`, or a row per element"
        );
        assert!(matches!(operators(r#"{"a":1}"#), Err(PatchError::UnknownOperator { .. })));
        assert!(matches!(operators("[]"), Err(PatchError::Kind { .. })));
        assert!(matches!(operators(r#"{"$set":[]}"#), Err(PatchError::Kind { .. })));
        assert!(matches!(operators(r#"{"$unset":[1]}"#), Err(PatchError::Kind { .. })));
        assert!(matches!(merge("5"), Err(PatchError::Kind { .. })));
        assert!(matches!(
            operators(r#"{"$set":{"a":1},"$unset":{"/a":1}}"#),
            Err(PatchError::Conflict(_))
        ));
    }

    #[test]
    fn the_daemon_s_names_stay_the_daemon_s() {
        assert!(merge(r#"{"_ver":{"id":"x"},"id":"r1"}"#).unwrap().is_empty());
        assert!(operators(r#"{"$set":{"_ver.id":1},"$unset":{"_ver":1}}"#).unwrap().is_empty());
        assert_eq!(merge(r#"{"id":"r2"}"#), Err(PatchError::IdChanged));
        assert_eq!(merge(r#"{"id":null}"#), Err(PatchError::IdChanged));
        assert_eq!(operators(r#"{"$unset":{"id":1}}"#), Err(PatchError::IdChanged));
        assert!(merge(r#"{"_owner":"me"}"#).unwrap().writes_owner());
        assert!(!merge(r#"{"owner":"me"}"#).unwrap().writes_owner());
    }
}
