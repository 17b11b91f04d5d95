//! Paths: which member of a row is meant, as a list of keys.
//!
//! Written with dots (`a.b.0`), or, where a key itself holds a dot or begins with `$`, as a JSON
//! Pointer (`/a.b/c`, RFC 6901). In a row's cells a path never goes into an array: its items are
//! values of one cell.

use std::borrow::Borrow;
use std::fmt;

use crate::object::Object;
use crate::value::Value;

/// One or more keys, outermost first. The order is that of the keys, so a path comes right before
/// everything below it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Box<[Box<str>]>);

impl Path {
    /// The path of a column.
    pub fn column(name: &str) -> Self {
        Self(Box::new([name.into()]))
    }

    /// A path of keys; `None` if there are none.
    pub fn new(keys: impl IntoIterator<Item = Box<str>>) -> Option<Self> {
        let keys: Box<[_]> = keys.into_iter().collect();
        (!keys.is_empty()).then_some(Self(keys))
    }

    /// Reads a path as an app writes it: a JSON Pointer if it begins with `/`, else with dots. A
    /// single key that begins with `/` or holds a dot therefore needs the pointer.
    pub fn parse(text: &str) -> Self {
        Self(match text.strip_prefix('/') {
            Some(pointer) => pointer
                .split('/')
                .map(|key| key.replace("~1", "/").replace("~0", "~").into())
                .collect(),
            None => text.split('.').map(Into::into).collect(),
        })
    }

    /// The keys, outermost first; never empty.
    pub fn keys(&self) -> &[Box<str>] {
        &self.0
    }

    /// The one key of a path that is a column.
    pub fn as_column(&self) -> Option<&str> {
        match &*self.0 {
            [column] => Some(column),
            _ => None,
        }
    }

    /// The keys of the paths above this one, outermost first.
    pub fn ancestors(&self) -> impl Iterator<Item = &[Box<str>]> {
        (1..self.0.len()).filter_map(|len| self.0.get(..len))
    }

    /// Whether `other` is this path or lies below it.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// What stands there: members of objects by key, items of arrays by decimal index.
    pub fn find<'a>(&self, members: &'a Object) -> Option<&'a Value> {
        let (first, rest) = self.0.split_first()?;
        rest.iter().try_fold(members.get(first)?, |value, key| match value {
            Value::Object(members) => members.get(key),
            Value::Array(items) => items.get(index(key)?),
            _ => None,
        })
    }
}

/// Paths compare as their keys do, so that a map of paths can be asked by keys.
impl Borrow<[Box<str>]> for Path {
    fn borrow(&self) -> &[Box<str>] {
        &self.0
    }
}

/// An array index has one spelling: decimal, no sign, no leading zero.
fn index(key: &str) -> Option<usize> {
    let canonical = key == "0" || !key.starts_with(['0', '+']);
    if canonical { key.parse().ok() } else { None }
}

/// The shortest form that [`Path::parse`] reads back.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |key: &str| !key.contains('.') && !key.starts_with('$');
        let dotted = self.0.iter().all(|key| plain(key))
            && self.0.first().is_some_and(|key| !key.starts_with('/'));
        for (index, key) in self.0.iter().enumerate() {
            if dotted {
                f.write_str(if index == 0 { "" } else { "." })?;
                f.write_str(key)?;
            } else {
                write!(f, "/{}", key.replace('~', "~0").replace('/', "~1"))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    #[test]
    fn dots_and_pointers() {
        for (text, keys) in [
            ("a", vec!["a"]),
            ("a.b.0", vec!["a", "b", "0"]),
            ("", vec![""]),
            (".a", vec!["", "a"]),
            ("/a.b/c", vec!["a.b", "c"]),
            ("/", vec![""]),
            ("/$type", vec!["$type"]),
            ("/a~1b~0c", vec!["a/b~c"]),
            ("/~01", vec!["~1"]),
        ] {
            let path = Path::parse(text);
            assert_eq!(path.keys().iter().map(|key| &**key).collect::<Vec<_>>(), keys, "{text}");
            assert_eq!(Path::parse(&path.to_string()), path, "{text}");
        }
        assert_eq!(Path::parse("/a/b").to_string(), "a.b");
        assert_eq!(Path::parse("/a.b").to_string(), "/a.b");
    }

    #[test]
    fn finds_members_and_items() {
        let value = parse(br#"{"a":{"b":{"c":2}},"a.b":{"c":1},"l":[[7],{"x":8}],"":3}"#).unwrap();
        let row = value.as_object().unwrap();
        let find = |path| Path::parse(path).find(row).map(ToString::to_string);
        assert_eq!(find("a.b.c").as_deref(), Some("2"));
        assert_eq!(find("/a.b/c").as_deref(), Some("1"));
        assert_eq!(find("l.0.0").as_deref(), Some("7"));
        assert_eq!(find("l.1.x").as_deref(), Some("8"));
        assert_eq!(find("").as_deref(), Some("3"));
        for missing in ["b", "a.x", "a.b.c.d", "l.2", "l.00", "l.x", "l.+1", "l.-1"] {
            assert_eq!(find(missing), None, "{missing}");
        }
    }

    #[test]
    fn a_path_stands_right_before_what_it_covers() {
        let sorted = ["a", "a.b", "a.b.c", "a.c", "a!", "ab"].map(Path::parse);
        assert!(sorted.is_sorted());
        let path = Path::parse("a.b");
        assert_eq!(sorted.iter().filter(|other| path.covers(other)).count(), 2);
        let deep = Path::parse("a.b.c");
        let above: Vec<_> = deep.ancestors().map(|keys| keys.join(".")).collect();
        assert_eq!(above, ["a", "a.b"]);
    }
}
