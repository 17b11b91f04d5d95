//! Reading rows from CSV: a header line, then a row per record.
//!
//! CSV has no types. A column becomes numbers (or booleans) only if every cell of it reads as one
//! and would be written the same again, so `00501`, `+49` and `1e5` stay text, and so does all of
//! their column. An empty cell is a column that the row does not have.

use tidings_tables::json;
use tidings_tables::value::{Object, Value};

use super::row::{BadRow, Place, Shape, Tables};

/// What the cells of a column are read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// No cell has said anything yet.
    Unknown,
    Number,
    Bool,
    Text,
}

/// Reads a whole CSV text.
///
/// # Errors
/// The text is not CSV, its header repeats or lacks a name, or a record cannot be a row.
pub fn read(text: &str, delimiter: u8, shape: &Shape) -> Result<Tables, BadRow> {
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| malformed(&error))?.clone();
    check_header(&header)?;
    // A misspelled one would turn into numbers what was to stay text.
    if let Some(column) =
        shape.text.iter().find(|column| !header.iter().any(|name| name == *column))
    {
        return Err(BadRow::new(
            "line 1",
            format!("the header has no column {column:?} to keep as text"),
        ));
    }
    let mut kinds: Vec<Kind> = header
        .iter()
        .map(|name| if stays_text(name, shape) { Kind::Text } else { Kind::Unknown })
        .collect();
    let mut records = Vec::new();
    for record in reader.into_records() {
        let record = record.map_err(|error| malformed(&error))?;
        for (kind, cell) in kinds.iter_mut().zip(&record) {
            *kind = kind.and(cell);
        }
        records.push(record);
    }

    let mut tables = Tables::default();
    for (index, record) in records.iter().enumerate() {
        let line = record.position().map_or(index + 2, |position| position.line() as usize);
        let cells = header.iter().zip(&kinds).zip(record).filter(|(_, cell)| !cell.is_empty());
        let object: Object =
            cells.map(|((name, kind), cell)| (name.to_owned(), kind.value(cell))).collect();
        tables.add(shape, object, Place { row: index + 1, line })?;
    }
    Ok(tables)
}

impl Kind {
    /// The kind of a column after one more of its cells.
    fn and(self, cell: &str) -> Self {
        let this = match cell {
            "" => return self,
            "true" | "false" => Self::Bool,
            cell if is_number(cell) => Self::Number,
            _ => Self::Text,
        };
        match self {
            Self::Unknown => this,
            kind if kind == this => kind,
            _ => Self::Text,
        }
    }

    /// What a cell of such a column is.
    fn value(self, cell: &str) -> Value {
        let read = match self {
            Self::Number | Self::Bool => json::parse(cell.as_bytes()).ok(),
            Self::Unknown | Self::Text => None,
        };
        read.unwrap_or_else(|| Value::String(cell.to_owned()))
    }
}

/// Whether a cell is a number whose value and digits survive: digits without leading zeros, at
/// most one point, no exponent, no plus; zeros after the point may end it.
fn is_number(cell: &str) -> bool {
    let digits = cell.strip_prefix('-').unwrap_or(cell);
    if cell.bytes().any(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b'-')) || digits.is_empty() {
        return false;
    }
    let Ok(value) = json::parse(cell.as_bytes()) else { return false };
    let Ok(written) = serde_json::to_string(&value) else { return false };
    let plain = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    cell != "-0" && plain(cell) == plain(&written)
}

/// An id or a table's name is text by itself, whatever its column looks like.
fn stays_text(name: &str, shape: &Shape) -> bool {
    shape.text.iter().any(|column| column == name)
        || shape.table_from.as_deref() == Some(name)
        || (shape.id.is_none() && name == "id")
}

fn check_header(header: &csv::StringRecord) -> Result<(), BadRow> {
    let mut seen = std::collections::BTreeSet::new();
    for (index, name) in header.iter().enumerate() {
        let column = index + 1;
        if name.is_empty() {
            return Err(BadRow::new(
                "line 1",
                format!("column {column} of the header has no name"),
            ));
        }
        if !seen.insert(name) {
            return Err(BadRow::new("line 1", format!("the header names {name:?} twice")));
        }
    }
    match header.is_empty() {
        true => Err(BadRow::new("line 1", "no header line")),
        false => Ok(()),
    }
}

fn malformed(error: &csv::Error) -> BadRow {
    let place = match error.position() {
        Some(position) => format!("row {} (line {})", position.record(), position.line()),
        None => "the header".into(),
    };
    let reason = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("it has {len} cells and the header {expected_len}")
        }
        csv::ErrorKind::Utf8 { .. } => "not UTF-8".into(),
        _ => error.to_string(),
    };
    BadRow::new(place, reason)
}
