//! Printing: JSON for programs, columns and sentences for people.
//!
//! Nothing here writes an escape byte: what is printed reads the same on a terminal, in a pipe
//! and in a file. A reader that goes away ends the command quietly.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use super::failure::Failure;

/// Standard output.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    json: bool,
}

impl Output {
    /// Standard output, for programs or for people.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether to print JSON.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Prints one line.
    ///
    /// # Errors
    /// The reader went away.
    pub fn line(self, text: impl AsRef<str>) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_ref().as_bytes())
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush())
            .map_err(|error| Failure::output(&error))
    }

    /// Prints bytes as they are.
    ///
    /// # Errors
    /// The reader went away.
    pub fn bytes(self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
    }

    /// Prints a value as one line of JSON.
    ///
    /// # Errors
    /// The reader went away.
    pub fn json_line(self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(Failure::unexpected)?;
        self.line(text)
    }

    /// Prints a value as one line of JSON for programs, indented for people.
    ///
    /// # Errors
    /// The reader went away.
    pub fn value(self, value: &impl Serialize) -> Result<(), Failure> {
        if self.json {
            return self.json_line(value);
        }
        let text = serde_json::to_string_pretty(value).map_err(Failure::unexpected)?;
        self.line(text)
    }

    /// Prints rows of cells in columns; numbers stand to the right.
    ///
    /// # Errors
    /// The reader went away.
    pub fn columns(self, header: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
        for line in columns(header, rows) {
            self.line(line)?;
        }
        Ok(())
    }
}

/// Whether a person reads standard error on a terminal.
pub fn person_watches() -> bool {
    io::stderr().is_terminal()
}

fn columns(header: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
    let mut lines = vec![String::new(); rows.len() + 1];
    for (column, title) in header.iter().enumerate() {
        let cells: Vec<String> = std::iter::once((*title).to_owned())
            .chain(rows.iter().map(|row| cell(row, column)))
            .collect();
        let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let numbers = cells.len() > 1
            && cells
                .iter()
                .skip(1)
                .all(|cell| !cell.is_empty() && cell.bytes().all(|byte| byte.is_ascii_digit()));
        for (line, cell) in lines.iter_mut().zip(&cells) {
            if column > 0 {
                line.push_str("  ");
            }
            let fill = " ".repeat(width.saturating_sub(cell.chars().count()));
            match numbers {
                true => line.push_str(&format!("{fill}{cell}")),
                false => line.push_str(&format!("{cell}{fill}")),
            }
        }
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["movies".into(), "3201".into()], vec!["t".into(), "7".into()]];
        assert_eq!(
            columns(&["table", "rows"], &rows),
            ["table   rows", "movies  3201", "t          7"]
        );
    }
}
