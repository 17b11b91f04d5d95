//! Which format a file has, and reading it as that.

use std::path::Path;

use clap::ValueEnum;

use super::row::{BadRow, Shape, Tables};
use super::{csv, json};

/// A format that rows can be read from and written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON value: an array of rows, or an object with one array in it.
    Json,
    /// One JSON object per line.
    Ndjson,
    /// Comma separated, with a header line.
    Csv,
    /// Tab separated, with a header line.
    Tsv,
}

impl Format {
    /// The format that a file's name tells.
    pub fn of_name(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "json" => Some(Self::Json),
            "ndjson" | "jsonl" => Some(Self::Ndjson),
            "csv" => Some(Self::Csv),
            "tsv" => Some(Self::Tsv),
            _ => None,
        }
    }

    /// The format that a text looks like.
    pub fn of_text(text: &str) -> Self {
        match text.trim_start().bytes().next() {
            Some(b'{' | b'[') if json::is_lines(text) => Self::Ndjson,
            Some(b'{' | b'[') => Self::Json,
            _ if text.lines().next().is_some_and(|line| line.contains('\t')) => Self::Tsv,
            _ => Self::Csv,
        }
    }

    /// Reads all rows of a text, or none.
    ///
    /// # Errors
    /// The first place that cannot be read.
    pub fn read(self, text: &str, root: Option<&str>, shape: &Shape) -> Result<Tables, BadRow> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Self::Json => json::read(text, root, shape),
            Self::Ndjson => json::read_lines(text, shape),
            Self::Csv => csv::read(text, b',', shape),
            Self::Tsv => csv::read(text, b'\t', shape),
        }
    }
}
