//! What tables, rows and the daemon's own fields of a record are called.
//!
//! Names are keys, never paths of a file system: `.`, `org/model`, `CON` and `📚` are ordinary.
//! They are compared byte by byte and never normalised, so `Tasks` is not `tasks`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tidings_wire::limits;

/// A name that is too short, too long or holds a NUL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be 1 to {max} bytes without NUL, and this has {fault}")]
pub struct NameError {
    what: &'static str,
    max: usize,
    fault: NameFault,
}

/// What is wrong with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum NameFault {
    #[error("none")]
    Empty,
    #[error("{0} bytes")]
    TooLong(usize),
    #[error("a NUL at byte {0}")]
    Nul(usize),
}

fn check(text: &str, what: &'static str, max: usize) -> Result<(), NameError> {
    let fault = if text.is_empty() {
        NameFault::Empty
    } else if text.len() > max {
        NameFault::TooLong(text.len())
    } else if let Some(at) = text.bytes().position(|byte| byte == 0) {
        NameFault::Nul(at)
    } else {
        return Ok(());
    };
    Err(NameError { what, max, fault })
}

/// Defines a checked name, held as text that clones share.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a name.
            ///
            /// # Errors
            /// If it is empty, too long or holds a NUL.
            pub fn new(text: impl Into<Arc<str>>) -> Result<Self, NameError> {
                let text = text.into();
                check(&text, $what, $max)?;
                Ok(Self(text))
            }

            /// The text of the name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(text).map_err(serde::de::Error::custom)
            }
        }
    };
}

name!(
    /// The name of a table: 1 to 255 bytes of UTF-8 without NUL.
    TableName, "a table name", limits::TABLE_NAME
);
name!(
    /// The id of a row in its table: 1 to 512 bytes of UTF-8 without NUL, chosen by the app.
    RowId, "a row id", limits::ROW_ID
);

/// The record's member that holds the row's id; not a column.
pub const ID: &str = "id";
/// The record's member that the daemon makes of the row's version; ignored where it is written.
pub const VER: &str = "_ver";
/// The column that names the client to which a row belongs; only the daemon and the owner of the
/// account write it.
pub const OWNER: &str = "_owner";
/// The column whose presence makes a row deleted for an app that keeps what it deletes.
pub const DELETED_AT: &str = "_deletedAt";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_names() {
        for name in ["a", ".", "..", "org/model", "../../tmp/evil", "📚", "CON", " ", "%2e", "a\n"]
        {
            assert_eq!(TableName::new(name).unwrap().as_str(), name);
            assert_eq!(RowId::new(name).unwrap().as_str(), name);
        }
        assert_ne!(TableName::new("Tasks"), TableName::new("tasks"));
        assert!(TableName::new("x".repeat(255)).is_ok());
        assert!(RowId::new("x".repeat(512)).is_ok());
    }

    #[test]
    fn empty_long_and_nul_are_not() {
        for name in ["", "a\0b", "\0", &"x".repeat(256)] {
            assert!(TableName::new(name).is_err(), "{name:?}");
        }
        assert_eq!(
            RowId::new("x".repeat(513)).unwrap_err().to_string(),
            "a row id must be 1 to 512 bytes without NUL, and this has 513 bytes"
        );
        assert_eq!(
            TableName::new("a\0b").unwrap_err().to_string(),
            "a table name must be 1 to 255 bytes without NUL, and this has a NUL at byte 1"
        );
    }
}
