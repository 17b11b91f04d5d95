//! How the demo looks: a line per phase, at most 100 columns, no escape bytes.

use crate::cli::failure::Failure;
use crate::cli::output::Output;

/// Widest line.
const COLUMNS: usize = 100;
/// Width of the column with the phase's name.
const NAME: usize = 11;

/// Tells the person what happens, or nobody where one line of JSON is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Teller {
    out: Output,
    quiet: bool,
}

impl Teller {
    /// Tells on standard output, unless JSON is wanted there.
    pub fn new(out: Output) -> Self {
        Self { out, quiet: out.is_json() }
    }

    /// A phase is done.
    ///
    /// # Errors
    /// The reader went away.
    pub fn phase(self, name: &str, text: impl AsRef<str>) -> Result<(), Failure> {
        self.lines(&wrapped(&format!("{name:<NAME$}"), text.as_ref()))
    }

    /// A line of its own.
    ///
    /// # Errors
    /// The reader went away.
    pub fn line(self, text: &str) -> Result<(), Failure> {
        self.lines(&wrapped("", text))
    }

    /// A line that a person copies: it is never cut.
    ///
    /// # Errors
    /// The reader went away.
    pub fn verbatim(self, text: &str) -> Result<(), Failure> {
        self.lines(&[text.to_owned()])
    }

    fn lines(self, lines: &[String]) -> Result<(), Failure> {
        if self.quiet {
            return Ok(());
        }
        lines.iter().try_for_each(|line| self.out.line(line))
    }
}

/// Cuts a text at spaces; lines after the first stand under the first one's text.
fn wrapped(name: &str, text: &str) -> Vec<String> {
    let indent = name.chars().count();
    let mut lines = vec![name.to_owned()];
    let mut width = indent;
    let mut fresh = true;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if !fresh && width + 1 + length > COLUMNS {
            lines.push(" ".repeat(indent));
            width = indent;
            fresh = true;
        }
        if let Some(line) = lines.last_mut() {
            if !fresh {
                line.push(' ');
                width += 1;
            }
            line.push_str(word);
        }
        width += length;
        fresh = false;
    }
    lines
}

/// A number with its thousands apart: `3,201`.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 table`, `11 tables`.
pub fn count(value: u64, noun: &str) -> String {
    format!("{} {noun}{}", number(value), if value == 1 { "" } else { "s" })
}

/// A size: `1.2 MB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_within_100_columns() {
        let text = "word ".repeat(60);
        let lines = wrapped("phase      ", &text);
        assert!(lines.len() > 2);
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS));
        assert!(lines.iter().skip(1).all(|line| line.starts_with("           word")));
        assert_eq!(wrapped("", "a b"), ["a b"]);
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!([number(7), number(3201), number(1234567)], ["7", "3,201", "1,234,567"]);
        assert_eq!([count(1, "table"), count(11, "table")], ["1 table", "11 tables"]);
        assert_eq!([size(12), size(1_234), size(5_678_901)], ["12 bytes", "1.2 kB", "5.7 MB"]);
    }
}
