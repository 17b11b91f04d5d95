//! Projections: which columns of a record are answered.

use std::collections::BTreeSet;

use tidings_tables::names::ID;
use tidings_tables::{Object, Value};

/// A compiled projection. `id` always comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    columns: BTreeSet<String>,
    include: bool,
}

/// Why a projection does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`projection` must be columns to include, {{\"a\":1}}, or to leave out, {{\"a\":0}}")]
pub struct ProjectionError;

impl Projection {
    /// The columns named, and nothing else.
    pub fn include(columns: impl IntoIterator<Item = String>) -> Self {
        Self { columns: columns.into_iter().collect(), include: true }
    }

    /// Compiles `{"column":1,…}` or `{"column":0,…}`; bools do as well.
    ///
    /// # Errors
    /// If it is neither, or both.
    pub fn compile(projection: &Value) -> Result<Self, ProjectionError> {
        let members = projection.as_object().ok_or(ProjectionError)?;
        let mut columns = BTreeSet::new();
        let mut include = None;
        for (column, value) in members.iter() {
            let wanted = match (value.as_bool(), value.as_u64()) {
                (Some(wanted), _) => wanted,
                (None, Some(number @ (0 | 1))) => number == 1,
                _ => return Err(ProjectionError),
            };
            if column == ID && wanted {
                continue;
            }
            if include.is_some_and(|include| include != wanted) {
                return Err(ProjectionError);
            }
            include = Some(wanted);
            columns.insert(column.to_string());
        }
        // `{"id":1}` alone asks for the id.
        let include = include.unwrap_or(!members.is_empty());
        Ok(Self { columns, include })
    }

    /// The record with only what was asked for.
    pub fn apply(&self, record: Object) -> Object {
        record
            .into_iter()
            .filter(|(column, _)| {
                let name: &str = column;
                name == ID || self.columns.contains(name) == self.include
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidings_tables::json::parse;

    fn projected(projection: &str) -> Option<String> {
        let record = parse(br#"{"_ver":{},"a":1,"b":2,"id":"x"}"#).unwrap();
        let projection = Projection::compile(&parse(projection.as_bytes()).unwrap()).ok()?;
        let Value::Object(record) = record else { return None };
        Some(Value::Object(projection.apply(record)).to_string())
    }

    #[test]
    fn columns_in_and_out() {
        assert_eq!(projected(r#"{"a":1}"#).unwrap(), r#"{"a":1,"id":"x"}"#);
        assert_eq!(projected(r#"{"a":true,"id":1}"#).unwrap(), r#"{"a":1,"id":"x"}"#);
        assert_eq!(projected(r#"{"a":0,"id":0}"#).unwrap(), r#"{"_ver":{},"b":2,"id":"x"}"#);
        assert_eq!(projected(r#"{"id":1}"#).unwrap(), r#"{"id":"x"}"#);
        assert_eq!(projected("{}").unwrap(), r#"{"_ver":{},"a":1,"b":2,"id":"x"}"#);
        for wrong in ["[]", "1", r#"{"a":1,"b":0}"#, r#"{"a":2}"#, r#"{"a":"x"}"#] {
            assert_eq!(projected(wrong), None, "{wrong}");
        }
    }
}
