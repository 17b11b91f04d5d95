//! Reading rows from JSON: an array, an array inside an object, fixtures, or a row per line.
//!
//! The text is split into rows by `serde_json`, which keeps their places; each row is then read
//! by the strict reader of `tidings-tables`, so that no number or character changes on the way.

use serde::Deserialize;
use serde_json::value::RawValue;
use tidings_tables::json;
use tidings_tables::value::{Object, Value};

use super::row::{BadRow, Place, Shape, Tables};

/// Reads a text that is one JSON value.
///
/// # Errors
/// The text is not JSON, holds no rows, or a row cannot be one.
pub fn read(text: &str, root: Option<&str>, shape: &Shape) -> Result<Tables, BadRow> {
    if text.trim().is_empty() {
        return Err(BadRow::new("the whole file", "it is empty"));
    }
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| syntax(&error))?;
    let rows = match root {
        Some(root) => rows_at(raw, root)?,
        None => lone_rows(raw)?,
    };
    let mut tables = Tables::default();
    let mut lines = Lines::new(text);
    for (index, row) in rows.into_iter().enumerate() {
        let at = lines.line(offset(text, row.get()));
        let place = Place { row: index + 1, line: at };
        add(&mut tables, shape, row.get(), place)?;
    }
    Ok(tables)
}

/// Reads a text with one row on each line; empty lines are skipped.
///
/// # Errors
/// A line is not a JSON object, or cannot be a row.
pub fn read_lines(text: &str, shape: &Shape) -> Result<Tables, BadRow> {
    let mut tables = Tables::default();
    let mut number = 0;
    for (index, line) in text.split('\n').enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        number += 1;
        add(&mut tables, shape, line, Place { row: number, line: index + 1 })?;
    }
    Ok(tables)
}

/// Whether a text is several JSON values, one after the other.
pub fn is_lines(text: &str) -> bool {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    matches!(values.next(), Some(Ok(_))) && values.next().is_some()
}

fn add(tables: &mut Tables, shape: &Shape, text: &str, place: Place) -> Result<(), BadRow> {
    let value = json::parse(text.as_bytes()).map_err(|error| BadRow::new(place, error))?;
    let Value::Object(object) = value else {
        let kind = value.kind();
        return Err(BadRow::new(place, format!("a row is a JSON object, and this is {kind}")));
    };
    match fixture(object) {
        Ok(Fixture { table, id, mut fields }) => {
            if fields.insert("id", id).is_some() {
                return Err(BadRow::new(place, "its \"fields\" have an \"id\" beside the \"pk\""));
            }
            let shape = Shape { id: None, ..shape.clone() };
            match (&shape.table, &shape.table_from) {
                (None, None) => tables.add_to(&table, &shape, fields, place),
                _ => tables.add(&shape, fields, place),
            }
        }
        Err(object) => tables.add(shape, object, place),
    }
}

/// A row of a fixture: `{"model": "shop.album", "pk": 1, "fields": {…}}`.
struct Fixture {
    table: String,
    id: Value,
    fields: Object,
}

/// Takes an object apart if it is a row of a fixture, else gives it back.
fn fixture(mut object: Object) -> Result<Fixture, Object> {
    let is_fixture = object.len() == 3
        && matches!(object.get("model"), Some(Value::String(_)))
        && matches!(object.get("pk"), Some(Value::String(_) | Value::Number(_)))
        && matches!(object.get("fields"), Some(Value::Object(_)));
    if !is_fixture {
        return Err(object);
    }
    match (object.remove("model"), object.remove("pk"), object.remove("fields")) {
        (Some(Value::String(model)), Some(id), Some(Value::Object(fields))) => {
            let table = model.rsplit('.').next().unwrap_or(&model).to_owned();
            Ok(Fixture { table, id, fields })
        }
        _ => Err(object),
    }
}

/// The rows of a value: its elements, or those of the only array in it.
fn lone_rows(raw: &RawValue) -> Result<Vec<&RawValue>, BadRow> {
    if raw.get().starts_with('[') {
        return elements(raw);
    }
    let Ok(Members(members)) = serde_json::from_str::<Members<'_>>(raw.get()) else {
        return Err(BadRow::new("the whole file", "neither an array nor an object"));
    };
    let arrays: Vec<_> = members.iter().filter(|(_, raw)| raw.get().starts_with('[')).collect();
    match arrays.as_slice() {
        [] => Ok(vec![raw]),
        [(_, array)] => elements(array),
        several => {
            let names: Vec<_> = several.iter().map(|(name, _)| format!("{name:?}")).collect();
            let names = names.join(", ");
            Err(BadRow::new("the whole file", format!("several arrays ({names}): add --root KEY")))
        }
    }
}

/// The elements of the array that `root` names: a key, or a JSON Pointer.
fn rows_at<'a>(raw: &'a RawValue, root: &str) -> Result<Vec<&'a RawValue>, BadRow> {
    let keys: Vec<String> = match root.strip_prefix('/') {
        Some(pointer) => {
            pointer.split('/').map(|key| key.replace("~1", "/").replace("~0", "~")).collect()
        }
        None => vec![root.to_owned()],
    };
    let mut raw = raw;
    for key in &keys {
        let found = serde_json::from_str::<Members<'a>>(raw.get())
            .ok()
            .and_then(|Members(members)| members.into_iter().find(|(name, _)| name == key));
        match found {
            Some((_, value)) => raw = value,
            None => {
                return Err(BadRow::new("the whole file", format!("no {key:?} to take rows from")));
            }
        }
    }
    elements(raw)
}

fn elements(raw: &RawValue) -> Result<Vec<&RawValue>, BadRow> {
    serde_json::from_str(raw.get())
        .map_err(|_| BadRow::new("the whole file", "the place named by --root is not an array"))
}

/// The members of an object in their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Visitor).map(Members)
    }
}

fn syntax(error: &serde_json::Error) -> BadRow {
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or(&reason);
    BadRow::new(format_args!("line {}, column {}", error.line(), error.column()), reason)
}

/// Where a part of a text starts.
fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

/// Counts lines up to offsets that only rise.
struct Lines<'a> {
    text: &'a [u8],
    counted: usize,
    line: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self { text: text.as_bytes(), counted: 0, line: 1 }
    }

    fn line(&mut self, offset: usize) -> usize {
        let between = self.text.get(self.counted..offset).unwrap_or_default();
        self.line += between.iter().filter(|byte| **byte == b'\n').count();
        self.counted = offset;
        self.line
    }
}
