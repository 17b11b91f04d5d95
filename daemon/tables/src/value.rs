//! JSON values with their exact meaning, and how they are written as JSON.
//!
//! Values come in through [`crate::json`] (from an app) or CBOR (from a blob or the replica),
//! which refuse what JSON or this project does not allow; there is deliberately no
//! `Deserialize`, which would round large integers on the way.

use std::fmt;

use serde::ser::{Serialize, Serializer};

use crate::number::{Number, NumberKind};
pub use crate::object::Object;

/// A JSON value. `==` is exact: `1` is not `1.0`. [`crate::order`] compares by value instead.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string, never normalised.
    String(String),
    /// An array.
    Array(Vec<Value>),
    /// An object.
    Object(Object),
}

impl Value {
    /// Levels of arrays and objects: 0 for a scalar, 1 for `[]`.
    pub fn depth(&self) -> usize {
        match self {
            Self::Array(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            Self::Object(members) => object_depth(members),
            _ => 0,
        }
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The bool, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The number as `u64`, if it is a whole number written without a fraction and fits.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(number) => match number.kind() {
                NumberKind::Int(value) => u64::try_from(value).ok(),
                NumberKind::Above(value) => Some(value),
                NumberKind::Float(_) => None,
            },
            _ => None,
        }
    }

    /// The items, if it is an array.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The members, if it is an object.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// What JSON calls the kind of the value: `null`, `boolean`, `number`, `string`, `array`,
    /// `object`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }
}

/// Levels of arrays and objects in an object, itself included.
pub fn object_depth(members: &Object) -> usize {
    1 + members.values().map(Value::depth).max().unwrap_or(0)
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Number(value.into())
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Number(value.into())
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::String(value)
    }
}

impl From<Vec<Value>> for Value {
    fn from(value: Vec<Value>) -> Self {
        Self::Array(value)
    }
}

impl From<Object> for Value {
    fn from(value: Object) -> Self {
        Self::Object(value)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => match number.kind() {
                NumberKind::Int(value) => serializer.serialize_i64(value),
                NumberKind::Above(value) => serializer.serialize_u64(value),
                NumberKind::Float(value) => serializer.serialize_f64(value),
            },
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(members) => members.serialize(serializer),
        }
    }
}

/// Compact JSON, members in key order, floats in the shortest form that reads back bit for bit.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
