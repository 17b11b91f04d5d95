//! `tidings import FILE`: rows of a file into tables.
//!
//! The file is read and checked from start to end before its first row is sent, so a malformed
//! row imports nothing. Rows then go in parts of at most 1,000, each one transaction.

mod csv;
mod format;
mod json;
mod row;
mod send;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::{Path, PathBuf};

pub use format::Format;
pub use row::{BadRow, Place, Row, Shape, Table, Tables};
pub use send::{Progress, send};

use super::context::Context;
use super::failure::Failure;
use super::output;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
    Where rows go: into the table that is named; else into tables by --table-from; else rows of \
    fixtures ({\"model\", \"pk\", \"fields\"}) by the last part of their model; else into one named \
    like the file.\n\n\
    What a row's id is: the column that --id names; else its \"id\" (or \"pk\"); else one computed \
    from its content, so that importing the same file again changes nothing. Integers become their \
    digits. Two rows of a table with one id are refused. A row that is there already is \
    replaced.\n\n\
    JSON is an array of rows, or an object with one array in it. In CSV a column becomes numbers or \
    booleans only if every cell of it reads as one: 00501, +49 and 1e5 stay text, and so does all \
    of their column. An empty cell is a column that the row does not have.")]
pub struct Args {
    /// The file; `-` reads standard input.
    file: PathBuf,
    /// The table.
    table: Option<String>,
    /// The column that holds each row's id.
    #[arg(long, value_name = "COL")]
    id: Option<String>,
    /// The key, or JSON Pointer, of the array in a JSON object.
    #[arg(long, value_name = "KEY")]
    root: Option<String>,
    /// The column that names each row's table.
    #[arg(long, value_name = "COL", conflicts_with = "table")]
    table_from: Option<String>,
    /// A column that stays text whatever it looks like; may be given again.
    #[arg(long, value_name = "COL")]
    text: Vec<String>,
    /// The format; without it, what the file's name says, else what its text looks like.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Read and check the file, say what would be imported, and stop.
    #[arg(long)]
    check: bool,
}

/// Imports the rows.
pub async fn run(args: Args, context: Context) -> Result<(), Failure> {
    let app = context.app()?;
    let shown = args.file.display().to_string();
    let text = read(&args.file)?;
    let shape = Shape {
        table: args.table,
        table_from: args.table_from,
        id: args.id,
        text: args.text,
        default_table: default_table(&args.file),
    };
    let tables = parse(&args.file, &text, args.format, args.root.as_deref(), &shape)
        .map_err(|bad| Failure::bad_row(&shown, &bad.place, &bad.reason))?;
    let total = tables.rows();
    if !args.check {
        let local = context.local()?;
        let progress = Progress::new(total, output::person_watches() && !context.out.is_json());
        send(&local, &app, &tables, |rows| progress.set(rows)).await?;
        progress.finish();
    }
    if context.out.is_json() {
        let by_table: serde_json::Map<_, _> = tables
            .as_slice()
            .iter()
            .map(|table| (table.name.to_string(), table.rows.len().into()))
            .collect();
        let imported = !args.check;
        return context.out.json_line(&serde_json::json!({
            "rows": total, "tables": by_table, "imported": imported
        }));
    }
    for table in tables.as_slice() {
        context.out.line(format!("{}: {}", table.name, counted(table.rows.len(), "row")))?;
    }
    let done = if args.check { "checked" } else { "imported" };
    let (rows, many) = (counted(total, "row"), counted(tables.as_slice().len(), "table"));
    context.out.line(format!("{rows} {done} in {many}"))
}

/// A number with its noun: `1 row`, `2 rows`.
fn counted(count: impl std::fmt::Display, noun: &str) -> String {
    let count = count.to_string();
    let ending = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// Reads all rows of a file's text.
///
/// # Errors
/// The first place that cannot be read.
pub fn parse(
    path: &Path,
    text: &str,
    format: Option<Format>,
    root: Option<&str>,
    shape: &Shape,
) -> Result<Tables, BadRow> {
    let format = match (format, Format::of_name(path)) {
        (Some(format), _) => format,
        // A file of lines is often called .json.
        (None, Some(Format::Json)) if json::is_lines(text) => Format::Ndjson,
        (None, Some(format)) => format,
        (None, None) => Format::of_text(text),
    };
    format.read(text, root, shape)
}

/// The table named like a file.
pub fn default_table(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    stem.filter(|stem| stem != "-" && !stem.is_empty()).unwrap_or_else(|| "rows".into())
}

/// Reads a file, or standard input for `-`, as text.
///
/// # Errors
/// It cannot be read, or is not UTF-8.
pub fn read(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::read(path).map(|read| bytes = read)
    };
    read.map_err(|error| Failure::io(format_args!("Reading {shown}"), &error))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = error.as_bytes().get(..at).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Failure::bad_row(&shown.to_string(), format_args!("line {line}"), "not UTF-8")
    })
}
