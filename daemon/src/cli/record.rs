//! Records on the command line: JSON from an argument, a file or standard input.

use std::io::Read;

use serde_json::Value;
use tidings_wire::local::Record;

use super::failure::Failure;

/// Reads an object from an argument; `-` is standard input, `@FILE` a file.
///
/// # Errors
/// The text cannot be read, or is not a JSON object that a row can hold.
pub fn object(name: &str, argument: &str) -> Result<Record, Failure> {
    match value(name, argument)? {
        Value::Object(object) => Ok(object),
        _ => Err(Failure::argument(name, "it must be a JSON object, such as {\"title\":\"Milk\"}")),
    }
}

/// Reads a JSON value from an argument; `-` is standard input, `@FILE` a file.
///
/// # Errors
/// As [`object`].
pub fn value(name: &str, argument: &str) -> Result<Value, Failure> {
    let text = match argument.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Failure::io(format_args!("Reading {path}"), &error))?,
        None if argument == "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Failure::io("Reading standard input", &error))?;
            text
        }
        None => argument.to_owned(),
    };
    // The strict reader first: what `serde_json` would round is refused with its place.
    tidings_tables::json::parse(text.as_bytes()).map_err(|error| Failure::argument(name, error))?;
    serde_json::from_str(&text).map_err(|error| Failure::argument(name, error))
}
