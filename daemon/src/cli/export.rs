//! `tidings export TABLE`: all rows of a table, in the order of their ids.

mod unsent;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidings_wire::local::{ID, QueryRequest, Record, VER};
use tidings_wire::{Code, Problem, limits};

use super::connect::Local;
use super::context::Context;
use super::failure::Failure;
use super::import::Format;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "What export writes, import reads back: ids are kept, versions are left out. CSV \
                  has no types: there, numbers and text look the same, and nested values are \
                  written as JSON."
)]
pub struct Args {
    /// The table.
    #[arg(required_unless_present = "unsent")]
    table: Option<String>,
    /// Instead of a table, the rows of every app (or of the one named) that the server has not got
    /// as they are here: one JSON object a line, with app, table, id and the row.
    #[arg(long, conflicts_with_all = ["table", "format", "versions"])]
    unsent: bool,
    /// The file to write; without it, standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The format; without it, what the file's name says, else NDJSON.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Keep each row's version (`_ver`).
    #[arg(long)]
    versions: bool,
}

/// Writes the rows.
pub async fn run(args: Args, context: Context) -> Result<(), Failure> {
    let Some(table) = &args.table else { return unsent::run(args.output, context).await };
    let app = context.app()?;
    let local = context.local()?;
    let tables = local.ask(local.client.tables(&app)).await?.tables;
    if !tables.iter().any(|known| known.name == *table) {
        // An empty file would look like an answer.
        let message = format!("the app has no table {table:?}");
        return Err(Failure::problem(&Problem::new(Code::TableNotFound, message)));
    }
    let named = args.output.as_deref().and_then(Format::of_name);
    let format = args.format.or(named).unwrap_or(Format::Ndjson);
    let mut pages = Pages::new(&local, &app, table);
    let columns = match format {
        Format::Csv | Format::Tsv => columns(&mut pages).await?,
        Format::Json | Format::Ndjson => Vec::new(),
    };

    let sink = sink(args.output.as_deref())?;
    let mut writer = Writer { sink: BufWriter::new(sink), format, columns, rows: 0 };
    writer.start().map_err(|error| Failure::output(&error))?;
    pages.restart();
    while let Some(records) = pages.next().await? {
        for mut record in records {
            if !args.versions {
                record.remove(VER);
            }
            writer.row(&record).map_err(|error| Failure::output(&error))?;
        }
    }
    writer.end().map_err(|error| Failure::output(&error))?;
    if args.output.is_some() {
        match context.out.is_json() {
            true => context.out.json_line(&serde_json::json!({ "rows": writer.rows }))?,
            false => context.out.line(format!("{} rows written", writer.rows))?,
        }
    }
    Ok(())
}

/// Where the rows go.
fn sink(output: Option<&Path>) -> Result<Box<dyn Write + Send>, Failure> {
    Ok(match output {
        Some(path) => Box::new(
            File::create(path)
                .map_err(|error| Failure::io(format_args!("Writing {}", path.display()), &error))?,
        ),
        None => Box::new(io::stdout()),
    })
}

/// The pages of a table, by id.
pub struct Pages<'a> {
    local: &'a Local,
    app: &'a tidings_wire::AppId,
    table: &'a str,
    after: Option<String>,
    done: bool,
}

impl<'a> Pages<'a> {
    /// All rows of a table.
    pub fn new(local: &'a Local, app: &'a tidings_wire::AppId, table: &'a str) -> Self {
        Self { local, app, table, after: None, done: false }
    }

    /// Begins again.
    fn restart(&mut self) {
        self.after = None;
        self.done = false;
    }

    /// The next page, if there is one.
    ///
    /// # Errors
    /// The daemon does not answer with one.
    pub async fn next(&mut self) -> Result<Option<Vec<Record>>, Failure> {
        if self.done {
            return Ok(None);
        }
        let request = QueryRequest {
            sort: vec![ID.into()],
            limit: Some(limits::QUERY_LIMIT),
            after: self.after.take(),
            ..QueryRequest::default()
        };
        let query = self.local.client.query(self.app, self.table, &request);
        let answer = self.local.ask(query).await?;
        self.done = !answer.has_next || answer.next.is_none();
        self.after = answer.next;
        Ok(Some(answer.records))
    }
}

/// Every column that some row has, `id` first.
async fn columns(pages: &mut Pages<'_>) -> Result<Vec<String>, Failure> {
    let mut names = BTreeSet::new();
    while let Some(records) = pages.next().await? {
        for record in records {
            names.extend(record.into_iter().map(|(name, _)| name));
        }
    }
    names.remove(ID);
    names.remove(VER);
    Ok(std::iter::once(ID.to_owned()).chain(names).collect())
}

struct Writer<W: Write> {
    sink: W,
    format: Format,
    columns: Vec<String>,
    rows: u64,
}

impl<W: Write> Writer<W> {
    fn start(&mut self) -> io::Result<()> {
        match self.format {
            Format::Json => self.sink.write_all(b"["),
            Format::Ndjson => Ok(()),
            Format::Csv | Format::Tsv => {
                let header = self.columns.clone();
                self.cells(&header)
            }
        }
    }

    fn row(&mut self, record: &Record) -> io::Result<()> {
        self.rows += 1;
        match self.format {
            Format::Json => {
                self.sink.write_all(if self.rows == 1 { b"\n" } else { b",\n" })?;
                serde_json::to_writer(&mut self.sink, record).map_err(io::Error::from)
            }
            Format::Ndjson => {
                serde_json::to_writer(&mut self.sink, record).map_err(io::Error::from)?;
                self.sink.write_all(b"\n")
            }
            Format::Csv | Format::Tsv => {
                let cells: Vec<String> = self.columns.iter().map(|c| cell(record.get(c))).collect();
                self.cells(&cells)
            }
        }
    }

    fn end(&mut self) -> io::Result<()> {
        if self.format == Format::Json {
            self.sink.write_all(if self.rows == 0 { b"]\n" } else { b"\n]\n" })?;
        }
        self.sink.flush()
    }

    fn cells(&mut self, cells: &[String]) -> io::Result<()> {
        let delimiter = if self.format == Format::Tsv { b'\t' } else { b',' };
        let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(Vec::new());
        writer.write_record(cells)?;
        let line = writer.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
        self.sink.write_all(&line)
    }
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}
