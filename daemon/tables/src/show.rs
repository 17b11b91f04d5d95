//! What a row's cells come to: the columns that an app sees.
//!
//! Cells are applied from the outside in, so that a newer write below a value changes a part of
//! it, and turns a scalar or an array in its way into an object.

use crate::cell::{Cell, Hanging, Sum};
use crate::number::{Number, NumberKind};
use crate::object::Object;
use crate::order::value_key;
use crate::path::Path;
use crate::row::Row;
use crate::value::Value;

/// The columns of a row, whether or not it is alive.
pub(crate) fn columns(row: &Row) -> Object {
    let mut columns = Object::new();
    for (path, cell) in &row.cells {
        apply(row, path, cell, &mut columns);
    }
    columns
}

fn apply(row: &Row, path: &Path, cell: &Cell, columns: &mut Object) {
    let (base, stamp) = match &cell.base {
        Some(base) => (base.value.as_ref(), base.stamp),
        None => (path.find_member(columns), row.floor(path)),
    };
    // On a base that has not arrived it would add to the wrong value.
    let hanging = cell.hanging.as_ref().filter(|hanging| hanging.on == stamp);
    if cell.base.is_none() && hanging.is_none() {
        return;
    }
    let shown = match hanging {
        Some(hanging) => with_hanging(base, hanging),
        None => base.cloned(),
    };
    match shown {
        Some(value) => set(columns, path, value),
        None => remove(columns, path),
    }
}

/// A base with what was added to it: an array, or nothing, with the dots of a set; a number, or
/// nothing, with increments. On any other value they have no meaning, and it stays as it is.
fn with_hanging(base: Option<&Value>, hanging: &Hanging) -> Option<Value> {
    match base {
        None if !hanging.dots.is_empty() => Some(set_items(&[], hanging)),
        Some(Value::Array(items)) if !hanging.dots.is_empty() => Some(set_items(items, hanging)),
        None if !hanging.increments.is_empty() => Some(total(None, hanging)),
        Some(Value::Number(number)) if !hanging.increments.is_empty() => {
            Some(total(Some(number), hanging))
        }
        _ => base.cloned(),
    }
}

/// The base's items that were not removed, in their order, then the added ones by stamp.
fn set_items(base: &[Value], hanging: &Hanging) -> Value {
    let mut items = Vec::new();
    let mut shown = Vec::new();
    for item in base {
        let key = value_key(item);
        if hanging.dots.get(&key).is_none_or(|dot| !dot.removed.contains(&hanging.on)) {
            items.push(item.clone());
            shown.push(key);
        }
    }
    shown.sort_unstable();
    let mut added: Vec<_> = hanging
        .dots
        .iter()
        .filter(|(key, _)| shown.binary_search(key).is_err())
        .filter_map(|(key, dot)| Some((dot.since()?, key, &dot.value)))
        .collect();
    added.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    items.extend(added.into_iter().map(|(_, _, value)| value.clone()));
    Value::Array(items)
}

/// The base plus every replica's sum, in the order of incarnations; exact while all are integers
/// and the total is one that a row can hold.
fn total(base: Option<&Number>, hanging: &Hanging) -> Value {
    let start = match base.map(Number::kind) {
        None => Sum::Int(0),
        Some(NumberKind::Int(value)) => Sum::Int(value.into()),
        Some(NumberKind::Above(value)) => Sum::Int(value.into()),
        Some(NumberKind::Float(value)) => Sum::Float(value),
    };
    let total =
        hanging.increments.values().fold(start, |total, increment| total.plus(increment.sum));
    let exact = match total {
        Sum::Int(value) => Number::integer(value),
        Sum::Float(_) => None,
    };
    // Past the largest float there is no number to show but the largest.
    let float = total.to_float().clamp(f64::MIN, f64::MAX);
    exact.or_else(|| Number::float(float)).map_or(Value::Null, Value::Number)
}

impl Sum {
    /// The sum as the nearest float.
    pub(crate) fn to_float(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    /// Adds exactly while both are integers and fit. A float sum stays finite.
    pub(crate) fn plus(self, other: Self) -> Self {
        let exact = match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.checked_add(b),
            _ => None,
        };
        exact.map_or_else(
            || Self::Float((self.to_float() + other.to_float()).clamp(f64::MIN, f64::MAX)),
            Self::Int,
        )
    }
}

impl Path {
    /// What stands there, going into objects only.
    fn find_member<'a>(&self, members: &'a Object) -> Option<&'a Value> {
        let (first, rest) = self.keys().split_first()?;
        rest.iter().try_fold(members.get(first)?, |value, key| value.as_object()?.get(key))
    }
}

/// Sets what stands at a path, making objects of what is in the way.
fn set(members: &mut Object, path: &Path, value: Value) {
    let Some((last, above)) = path.keys().split_last() else { return };
    let mut members = members;
    for key in above {
        if members.get(key).and_then(Value::as_object).is_none() {
            members.insert(key.clone(), Value::Object(Object::new()));
        }
        let Some(Value::Object(inner)) = members.get_mut(key) else { return };
        members = inner;
    }
    members.insert(last.clone(), value);
}

/// Removes what stands at a path, if it is there.
fn remove(members: &mut Object, path: &Path) {
    let Some((last, above)) = path.keys().split_last() else { return };
    let mut members = members;
    for key in above {
        let Some(Value::Object(inner)) = members.get_mut(key) else { return };
        members = inner;
    }
    members.remove(last);
}
