//! From the objects of a file to rows with a table, an id and a place.
//!
//! Pure: readers of each format hand over objects, this file decides where they go. It refuses
//! what would lose data silently, such as two rows of a file with one id.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use tidings_tables::names::{RowId, TableName};
use tidings_tables::number::NumberKind;
use tidings_tables::value::{Object, Value};
use tidings_wire::limits;
use tidings_wire::local::{ID, VER};

/// What the command line says about the rows of a file.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// The table, if one was named.
    pub table: Option<String>,
    /// The column that names each row's table.
    pub table_from: Option<String>,
    /// The column that holds each row's id.
    pub id: Option<String>,
    /// Columns that stay text whatever they look like.
    pub text: Vec<String>,
    /// The table of rows that nothing else places: the file's name.
    pub default_table: String,
}

/// Where a row stands in its file, as a person counts: from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Number of the row.
    pub row: usize,
    /// Line on which it starts.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} (line {})", self.row, self.line)
    }
}

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct BadRow {
    /// Where, such as `row 12 (line 345)`.
    pub place: String,
    /// What is wrong.
    pub reason: String,
}

impl BadRow {
    /// Something wrong at a place.
    pub fn new(place: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self { place: place.to_string(), reason: reason.to_string() }
    }
}

/// One row to send: its record as one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// The record, `id` included, without a line end.
    pub json: String,
    /// Where it came from.
    pub place: Place,
}

/// The rows of a file, by table in the order in which the tables first occur.
#[derive(Debug, Default)]
pub struct Tables {
    tables: Vec<Table>,
    by_name: HashMap<String, usize>,
}

/// Rows of one table.
#[derive(Debug)]
pub struct Table {
    /// Its name.
    pub name: TableName,
    /// Its rows, in the order of the file.
    pub rows: Vec<Row>,
    places: BTreeMap<String, Place>,
    occurrences: HashMap<[u8; 32], u32>,
}

impl Tables {
    /// The tables.
    pub fn as_slice(&self) -> &[Table] {
        &self.tables
    }

    /// How many rows there are in all.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| table.rows.len() as u64).sum()
    }

    /// Adds one object of the file.
    ///
    /// # Errors
    /// The row has no usable id or table, or is not a row that the daemon would take.
    pub fn add(&mut self, shape: &Shape, object: Object, place: Place) -> Result<(), BadRow> {
        let bad = |reason: String| BadRow::new(place, reason);
        let name = match (&shape.table_from, &shape.table) {
            (Some(column), _) => match object.get(column) {
                Some(Value::String(name)) => name.clone(),
                _ => return Err(bad(format!("the column {column:?} does not name a table"))),
            },
            (None, Some(table)) => table.clone(),
            (None, None) => shape.default_table.clone(),
        };
        self.add_to(&name, shape, object, place)
    }

    /// Adds one object to a table that the file itself names.
    ///
    /// # Errors
    /// As [`Tables::add`].
    pub fn add_to(
        &mut self,
        table: &str,
        shape: &Shape,
        mut object: Object,
        place: Place,
    ) -> Result<(), BadRow> {
        let bad = |reason: String| BadRow::new(place, reason);
        object.remove(VER);
        for column in &shape.text {
            if let Some(value @ (Value::Number(_) | Value::Bool(_))) = object.get_mut(column) {
                *value = Value::String(json_text(value));
            }
        }
        let id = match &shape.id {
            Some(column) if column != ID && object.contains_key(ID) => {
                return Err(bad(format!(
                    "it has a column \"id\" beside the id column {column:?}; only \"id\" can be its id"
                )));
            }
            Some(column) => match object.get(column) {
                Some(value) => Some(id_text(value).ok_or_else(|| {
                    bad(format!("its id column {column:?} holds {}", value.kind()))
                })?),
                None => {
                    return Err(bad(format!("it has no column {column:?} to take its id from")));
                }
            },
            None => match object.get(ID) {
                Some(value) => Some(id_text(value).ok_or_else(|| {
                    bad(format!("its \"id\" holds {}; an id is text or an integer", value.kind()))
                })?),
                None => None,
            },
        };
        let table = self.table(table).map_err(|reason| bad(reason.to_string()))?;
        let id = id.unwrap_or_else(|| table.derived_id(&object));
        RowId::new(id.as_str()).map_err(|error| bad(error.to_string()))?;
        if let Some(first) = table.places.insert(id.clone(), place) {
            return Err(bad(format!(
                "its id {id:?} is also that of {first}; one would replace the other"
            )));
        }
        object.insert(ID, Value::String(id.clone()));
        let size = tidings_tables::cbor::encode_object(&object).len();
        if size > limits::ROW {
            let limit = limits::ROW;
            return Err(bad(format!("it has {size} bytes and a row holds at most {limit}")));
        }
        let json = serde_json::to_string(&object).map_err(|error| bad(error.to_string()))?;
        table.rows.push(Row { id, json, place });
        Ok(())
    }

    fn table(&mut self, name: &str) -> Result<&mut Table, String> {
        let index = match self.by_name.get(name) {
            Some(index) => *index,
            None => {
                let table = TableName::new(name).map_err(|error| error.to_string())?;
                self.tables.push(Table {
                    name: table,
                    rows: Vec::new(),
                    places: BTreeMap::new(),
                    occurrences: HashMap::new(),
                });
                self.by_name.insert(name.into(), self.tables.len() - 1);
                self.tables.len() - 1
            }
        };
        self.tables.get_mut(index).ok_or_else(|| "no such table".into())
    }
}

impl Table {
    /// An id from the row's content and how often the same content came before: importing a
    /// file twice then writes the same rows again and not a second copy of each.
    fn derived_id(&mut self, object: &Object) -> String {
        let content = *blake3::hash(&tidings_tables::cbor::encode_object(object)).as_bytes();
        let occurrence = self.occurrences.entry(content).or_default();
        let mut hasher = blake3::Hasher::new_derive_key("tidings 2026 import row id");
        hasher.update(&content);
        hasher.update(&occurrence.to_be_bytes());
        *occurrence += 1;
        let mut bytes = [0; 16];
        hasher.finalize_xof().fill(&mut bytes);
        uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
    }
}

/// The text of a value that can be an id.
fn id_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => match number.kind() {
            NumberKind::Int(_) | NumberKind::Above(_) => Some(json_text(value)),
            NumberKind::Float(_) => None,
        },
        _ => None,
    }
}

/// A scalar as JSON writes it.
fn json_text(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
