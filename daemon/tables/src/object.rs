//! Objects: members sorted by the bytes of their keys.
//!
//! A sorted vector and not a tree: most objects have few members, and a tree's node for one of
//! them takes a hundred times what the member takes on the wire.

use std::fmt;

use crate::value::Value;

/// The members of a JSON object. Each key occurs once; any legal JSON key may occur, the empty one
/// too.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Object(Vec<(Box<str>, Value)>);

impl Object {
    /// An object without members.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// An object without members, with room for some.
    pub(crate) fn with_capacity(members: usize) -> Self {
        Self(Vec::with_capacity(members))
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a member.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let index = self.place(key).ok()?;
        self.0.get(index).map(|(_, value)| value)
    }

    /// The value of a member, to change it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let index = self.place(key).ok()?;
        self.0.get_mut(index).map(|(_, value)| value)
    }

    /// Whether there is such a member.
    pub fn contains_key(&self, key: &str) -> bool {
        self.place(key).is_ok()
    }

    /// Sets a member and gives back what it was. Quick where the key is the greatest; to build an
    /// object of many members in any order, collect them.
    pub fn insert(&mut self, key: impl Into<Box<str>>, value: Value) -> Option<Value> {
        let key = key.into();
        match self.place(&key) {
            Ok(index) => self.0.get_mut(index).map(|(_, old)| std::mem::replace(old, value)),
            Err(index) => {
                self.0.insert(index, (key, value));
                None
            }
        }
    }

    /// Takes a member out.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.place(key).ok().map(|index| self.0.remove(index).1)
    }

    /// The members in the order of their keys.
    pub fn iter(&self) -> Members<'_> {
        self.into_iter()
    }

    /// The keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.iter().map(|(key, _)| key)
    }

    /// The values in the order of their keys.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> {
        self.iter().map(|(_, value)| value)
    }

    /// Keeps the members for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value) -> bool) {
        self.0.retain_mut(|(key, value)| keep(key, value));
    }

    /// An object of members in any order, or the key that occurs twice.
    pub(crate) fn of_members(mut members: Vec<(Box<str>, Value)>) -> Result<Self, Box<str>> {
        members.sort_by(|(a, _), (b, _)| a.cmp(b));
        let twice = members.windows(2).find_map(|pair| match pair {
            [(a, _), (b, _)] if a == b => Some(a.clone()),
            _ => None,
        });
        twice.map_or_else(
            || {
                members.shrink_to_fit();
                Ok(Self(members))
            },
            Err,
        )
    }

    /// Appends a member whose key is greater than all; false, and nothing done, if it is not.
    pub(crate) fn push_greatest(&mut self, key: &str, value: Value) -> bool {
        let rises = self.0.last().is_none_or(|(last, _)| **last < *key);
        if rises {
            self.0.push((key.into(), value));
        }
        rises
    }

    fn place(&self, key: &str) -> Result<usize, usize> {
        match self.0.last() {
            Some((last, _)) if **last < *key => Err(self.0.len()),
            _ => self.0.binary_search_by(|(other, _)| (**other).cmp(key)),
        }
    }
}

/// Of a key that occurs twice, the later value counts.
impl<K: Into<Box<str>>> FromIterator<(K, Value)> for Object {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(members: I) -> Self {
        let mut members: Vec<(Box<str>, Value)> =
            members.into_iter().map(|(key, value)| (key.into(), value)).collect();
        members.sort_by(|(a, _), (b, _)| a.cmp(b));
        members.reverse();
        members.dedup_by(|(a, _), (b, _)| a == b);
        members.reverse();
        Self(members)
    }
}

impl<K: Into<Box<str>>, const N: usize> From<[(K, Value); N]> for Object {
    fn from(members: [(K, Value); N]) -> Self {
        members.into_iter().collect()
    }
}

impl IntoIterator for Object {
    type Item = (Box<str>, Value);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Object {
    type Item = (&'a str, &'a Value);
    type IntoIter = Members<'a>;

    fn into_iter(self) -> Members<'a> {
        Members(self.0.iter())
    }
}

/// The members of an object in the order of their keys.
#[derive(Debug, Clone)]
pub struct Members<'a>(std::slice::Iter<'a, (Box<str>, Value)>);

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, &'a Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (&**key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Members<'_> {}

impl serde::Serialize for Object {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Compact JSON, members in the order of their keys.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_sorted_and_found() {
        let mut object = Object::new();
        for (n, key) in ["b", "", "é", "a", "b", "__proto__"].into_iter().enumerate() {
            object.insert(key, Value::from(n as u64));
        }
        assert_eq!(object.to_string(), r#"{"":1,"__proto__":5,"a":3,"b":4,"é":2}"#);
        assert_eq!(object.get("b"), Some(&Value::from(4_u64)));
        assert_eq!(object.get("c"), None);
        assert_eq!(object.remove(""), Some(Value::from(1_u64)));
        assert_eq!(object.remove(""), None);
        assert_eq!(object.keys().collect::<Vec<_>>(), ["__proto__", "a", "b", "é"]);
    }

    #[test]
    fn of_a_key_twice_the_later_counts_or_it_is_named() {
        let members = || ["b", "a", "b"].into_iter().zip([1_u64, 2, 3].map(Value::from));
        assert_eq!(members().collect::<Object>().to_string(), r#"{"a":2,"b":3}"#);
        let boxed = members().map(|(key, value)| (key.into(), value)).collect();
        assert_eq!(Object::of_members(boxed), Err("b".into()));
    }

    #[test]
    fn a_member_that_does_not_rise_is_not_appended() {
        let mut object = Object::new();
        assert!(object.push_greatest("", Value::Null));
        assert!(!object.push_greatest("", Value::Null));
        assert!(object.push_greatest("b", Value::Null));
        assert!(!object.push_greatest("a", Value::Null));
        assert_eq!(object.len(), 2);
    }
}
