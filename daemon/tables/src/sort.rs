//! Sorts: the order of a query's records, as keys whose bytes sort that way.
//!
//! A list of paths, each descending if it begins with `-`; the id follows always, ascending, so
//! that the order is total. A column whose name begins with `-` is written as a JSON Pointer.

use crate::names::ID;
use crate::object::Object;
use crate::order::{Direction, push_key, push_sort_key};
use crate::path::Path;
use crate::value::Value;

/// A compiled sort. The default is by id.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sort {
    keys: Vec<(Path, Direction)>,
}

/// Why a sort does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SortError {
    /// Not a list of paths.
    #[error("`sort` must be a list of paths, such as [\"-updatedAt\",\"title\"]")]
    NotPaths,
    /// More keys than a sort may have.
    #[error("`sort` may have {MAX_KEYS} keys")]
    TooMany,
}

/// Most keys of a sort.
const MAX_KEYS: usize = 16;

impl Sort {
    /// Compiles a sort from its JSON form, an array of paths.
    ///
    /// # Errors
    /// See [`SortError`].
    pub fn compile(sort: &Value) -> Result<Self, SortError> {
        let paths = sort.as_array().ok_or(SortError::NotPaths)?;
        let texts = paths.iter().map(|path| path.as_str().ok_or(SortError::NotPaths));
        Self::new(&texts.collect::<Result<Vec<_>, _>>()?)
    }

    /// Compiles a sort from its paths.
    ///
    /// # Errors
    /// If there are too many.
    pub fn new(paths: &[&str]) -> Result<Self, SortError> {
        if paths.len() > MAX_KEYS {
            return Err(SortError::TooMany);
        }
        let key = |text: &&str| match text.strip_prefix('-') {
            Some(path) => (Path::parse(path), Direction::Descending),
            None => (Path::parse(text), Direction::Ascending),
        };
        Ok(Self { keys: paths.iter().map(key).collect() })
    }

    /// The key by which a record sorts; different for different ids.
    pub fn key(&self, record: &Object) -> Vec<u8> {
        let mut key = Vec::new();
        for (path, direction) in &self.keys {
            push_sort_key(&mut key, path.find(record), *direction);
        }
        push_key(&mut key, record.get(ID));
        key
    }

    /// The paths again, as [`Sort::new`] takes them.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = String> {
        self.keys.iter().map(|(path, direction)| {
            let text = path.to_string();
            match direction {
                Direction::Descending => format!("-{text}"),
                Direction::Ascending if text.starts_with('-') => format!("/{text}"),
                Direction::Ascending => text,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn sorted(sort: &[&str], records: &[&str]) -> Vec<String> {
        let sort = Sort::new(sort).unwrap();
        let mut keyed: Vec<_> = records
            .iter()
            .map(|text| parse(text.as_bytes()).unwrap().as_object().unwrap().clone())
            .map(|record| {
                (sort.key(&record), record.get("id").unwrap().as_str().unwrap().to_owned())
            })
            .collect();
        keyed.sort();
        keyed.into_iter().map(|(_, id)| id).collect()
    }

    #[test]
    fn keys_go_left_to_right_and_the_id_decides_last() {
        let rows = [
            r#"{"id":"b","n":1,"t":"x"}"#,
            r#"{"id":"a","n":1,"t":"x"}"#,
            r#"{"id":"c","n":2,"t":"w"}"#,
            r#"{"id":"d"}"#,
        ];
        assert_eq!(sorted(&[], &rows), ["a", "b", "c", "d"]);
        assert_eq!(sorted(&["n"], &rows), ["d", "a", "b", "c"]);
        assert_eq!(sorted(&["-n"], &rows), ["c", "a", "b", "d"]);
        assert_eq!(sorted(&["t", "-n"], &rows), ["d", "c", "a", "b"]);
        assert_eq!(sorted(&["-id"], &rows), ["d", "c", "b", "a"]);
    }

    #[test]
    fn large_integers_sort_exactly() {
        let rows = [
            r#"{"id":"a","n":9196877626998784}"#,
            r#"{"id":"b","n":9196877626998785}"#,
            r#"{"id":"c","n":9007199254740993}"#,
            r#"{"id":"d","n":18446744073709551615}"#,
        ];
        assert_eq!(sorted(&["n"], &rows), ["c", "a", "b", "d"]);
        assert_eq!(sorted(&["-n"], &rows), ["d", "b", "a", "c"]);
    }

    #[test]
    fn paths_read_back() {
        let texts = ["-a.b", "/-x", "-/a.b", "t", "-_ver.id", "--"];
        let sort = Sort::new(&texts).unwrap();
        let again: Vec<_> = sort.paths().collect();
        assert_eq!(again, texts);
        assert_eq!(Sort::compile(&parse(br#"["a",1]"#).unwrap()), Err(SortError::NotPaths));
        assert_eq!(Sort::compile(&parse(br#""a""#).unwrap()), Err(SortError::NotPaths));
        assert_eq!(Sort::new(&["a"; 17]), Err(SortError::TooMany));
    }
}
