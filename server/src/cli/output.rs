//! What the verbs print: answers to standard output, faults to standard error.

use std::io::Write as _;

use serde::Serialize;

/// Prints a value as one line of JSON.
pub(super) fn json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(&text),
        Err(error) => fault(true, &error.to_string()),
    }
}

/// Prints a line. A closed pipe is the reader's wish, not a fault.
pub(super) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints a line to standard error: news for whoever watches.
pub(super) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints what went wrong.
pub(super) fn fault(json: bool, message: &str) {
    let mut err = std::io::stderr().lock();
    let _ = if json {
        writeln!(err, "{}", serde_json::json!({ "error": message }))
    } else {
        writeln!(err, "tidings-server: {message}")
    };
}
