//! Vectors of rows at the edge of their encoding: each is taken, or refused, for one reason.
//!
//! `{1}` and `{2}` stand for two stamps, the first below the second.

use serde_json::{Value, json};
use tidings_tables::Row;
use tidings_wire::{Incarnation, Stamp};

use super::{bytes, hex, list, text, unhex};

/// Why, the row, whether it is taken.
const ROWS: &[(&str, &str, bool)] = &[
    ("nothing", "85 80 00 f6 f6 80", true),
    ("a version alone", "85 81{1} 01 f6 f6 80", true),
    ("bytes after the end", "85 81{1} 01 f6 f6 80 00", false),
    ("an array of four", "84 81{1} 01 f6 f6", false),
    ("a version without a stamp", "85 81{1} 02 f6 f6 80", false),
    ("a stamp that nothing names", "85 82{1}{2} 01 f6 f6 80", false),
    ("stamps that do not rise", "85 82{2}{1} 02 82 01 f5 f6 80", false),
    ("the zero stamp in the list", "85 81 50 00000000000000000000000000000000 01 f6 f6 80", false),
    ("a stamp of 15 bytes", "85 81 4f 010000000000000000000000000000 01 f6 f6 80", false),
    ("a life", "85 81{1} 01 82 01 f4 f6 80", true),
    ("a life at no time", "85 81{1} 01 82 00 f5 f6 80", false),
    ("a life that is 1", "85 81{1} 01 82 01 01 f6 80", false),
    ("a life of three", "85 81{1} 01 83 01 f5 f5 f6 80", false),
    ("a clearing", "85 82{1}{2} 02 f6 82 02 01 80", true),
    ("a clearing that replaces itself", "85 81{1} 01 f6 82 01 01 80", false),
    ("a clearing that replaces a later one", "85 82{1}{2} 02 f6 82 01 02 80", false),
    ("a cell", "85 81{1} 01 f6 f6 81 84 6163 01 00 00", true),
    ("a cell of three", "85 81{1} 01 f6 f6 81 83 6163 01 00", false),
    ("a cell at no time", "85 81{1} 01 f6 f6 81 84 6163 00 00 00", false),
    ("cells that do not rise", "85 81{1} 01 f6 f6 82 84 6162 01 00 00 84 6161 01 00 00", false),
    ("a cell twice", "85 81{1} 01 f6 f6 82 84 6161 01 00 00 84 6161 01 00 00", false),
    ("a path of two", "85 81{1} 01 f6 f6 81 84 82 6161 6162 01 00 00", true),
    ("a path of one as an array", "85 81{1} 01 f6 f6 81 84 81 6161 01 00 00", false),
    ("a path of none", "85 81{1} 01 f6 f6 81 84 80 01 00 00", false),
    ("a path with a number", "85 81{1} 01 f6 f6 81 84 82 6161 01 01 00 00", false),
    ("a cell below the clearing", "85 82{1}{2} 02 f6 82 02 00 81 84 6163 01 00 00", false),
    (
        "a cell newer than the one above it",
        "85 82{1}{2} 02 f6 f6 82 84 6161 01 00 00 84 82 6161 6162 02 00 00",
        true,
    ),
    (
        "a cell older than the one above it",
        "85 82{1}{2} 02 f6 f6 82 84 6161 02 00 00 84 82 6161 6162 01 00 00",
        false,
    ),
    ("increments", "85 80 00 f6 f6 81 82 6163 83 00 a1 48 0101010101010101 82 01 20 80", true),
    ("nothing that hangs", "85 80 00 f6 f6 81 82 6163 83 00 a0 80", false),
    (
        "increments on an older base",
        "85 82{1}{2} 02 f6 f6 81 85 6163 02 00 00 83 01 a1 48 0101010101010101 82 01 01 80",
        false,
    ),
    (
        "incarnations that do not rise",
        "85 80 00 f6 f6 81 82 6163 83 00 a2 48 0202020202020202 82 01 01 48 0101010101010101 82 01 01 80",
        false,
    ),
    (
        "an incarnation of 7 bytes",
        "85 80 00 f6 f6 81 82 6163 83 00 a1 47 01010101010101 82 01 01 80",
        false,
    ),
    (
        "an increment of three",
        "85 80 00 f6 f6 81 82 6163 83 00 a1 48 0101010101010101 83 01 01 01 80",
        false,
    ),
    (
        "a count below 0",
        "85 80 00 f6 f6 81 82 6163 83 00 a1 48 0101010101010101 82 20 01 80",
        false,
    ),
    (
        "a sum past 64 bits",
        "85 80 00 f6 f6 81 82 6163 83 00 a1 48 0101010101010101 82 01 50 00000000000000010000000000000000 80",
        true,
    ),
    (
        "a sum that could be shorter",
        "85 80 00 f6 f6 81 82 6163 83 00 a1 48 0101010101010101 82 01 50 00000000000000000000000000000001 80",
        false,
    ),
    (
        "a sum past 63 bits as an int",
        "85 80 00 f6 f6 81 82 6163 83 00 a1 48 0101010101010101 82 01 1b ffffffffffffffff 80",
        false,
    ),
    (
        "a sum that is no number",
        "85 80 00 f6 f6 81 82 6163 83 00 a1 48 0101010101010101 82 01 fb 7ff8000000000000 80",
        false,
    ),
    ("a dot", "85 81{1} 00 f6 f6 81 82 6163 83 00 a0 81 83 01 81 01 80", true),
    ("a dot of two", "85 81{1} 00 f6 f6 81 82 6163 83 00 a0 81 82 01 81 01", false),
    ("a dot that says nothing", "85 80 00 f6 f6 81 82 6163 83 00 a0 81 83 01 80 80", false),
    (
        "a dot that says two things",
        "85 81{1} 00 f6 f6 81 82 6163 83 00 a0 81 83 01 81 01 81 01",
        false,
    ),
    ("a dot at no time", "85 81{1} 01 f6 f6 81 82 6163 83 00 a0 81 83 01 81 00 80", false),
    (
        "a dot's stamps that do not rise",
        "85 82{1}{2} 00 f6 f6 81 82 6163 83 00 a0 81 83 01 82 02 01 80",
        false,
    ),
    (
        "dots that rise",
        "85 81{1} 00 f6 f6 81 82 6163 83 00 a0 82 83 6161 81 01 80 83 f4 81 01 80",
        true,
    ),
    (
        "dots that do not rise",
        "85 81{1} 00 f6 f6 81 82 6163 83 00 a0 82 83 02 81 01 80 83 01 81 01 80",
        false,
    ),
    (
        "dots of 1 and 1.0",
        "85 81{1} 00 f6 f6 81 82 6163 83 00 a0 82 83 01 81 01 80 83 fb 3ff0000000000000 81 01 80",
        false,
    ),
];

/// Why, the value of a cell, whether it is taken.
const VALUES: &[(&str, &str, bool)] = &[
    ("null", "f6", true),
    ("removed", "f7", true),
    ("undefined in an array", "81 f7", false),
    ("2^64 - 1", "1b ffffffffffffffff", true),
    ("-2^63", "3b 7fffffffffffffff", true),
    ("-2^63 - 1", "3b 8000000000000000", false),
    ("an integer as a tag", "c2 41 01", false),
    ("a time as a tag", "c0 60", false),
    ("an unknown simple value", "f0", false),
    ("a simple value of two bytes", "f8 20", false),
    ("a float of 16 bits", "f9 3c00", false),
    ("a float of 32 bits", "fa 3f800000", false),
    ("a float of 64 bits", "fb 3ff0000000000000", true),
    ("-0.0", "fb 8000000000000000", true),
    ("no number", "fb 7ff8000000000000", false),
    ("infinity", "fb 7ff0000000000000", false),
    ("bytes", "41 00", false),
    ("text in pieces", "7f 6161 ff", false),
    ("an array without a length", "9f ff", false),
    ("a map without a length", "bf ff", false),
    ("23 in two bytes", "18 17", false),
    ("255 in three bytes", "19 00ff", false),
    ("a text's length in two bytes", "78 01 61", false),
    ("members that rise", "a2 6161 00 6162 00", true),
    ("members that do not rise", "a2 6162 00 6161 00", false),
    ("a member twice", "a2 6161 00 6161 00", false),
    ("members by their bytes", "a2 626161 00 6162 00", true),
    ("members by their length", "a2 6162 00 626161 00", false),
    ("a key that is a number", "a1 01 00", false),
    ("a key of bytes", "a1 4161 00", false),
    ("a text that is not UTF-8", "61 ff", false),
    ("four thousand million items", "9a ffffffff", false),
    ("members without end", "bb ffffffffffffffff", false),
    ("a text longer than the row", "7a 00010000 61", false),
    ("two values", "00 00", false),
];

/// An empty array in so many others that it nests this deep.
fn nested(levels: usize) -> String {
    "81".repeat(levels - 1) + "80"
}

fn row(template: &str) -> Vec<u8> {
    let stamp = |millis: u64| {
        let stamp = Stamp::new(1_800_000_000_000 + millis, 0, Incarnation([1; 8]));
        format!("50{}", hex(stamp.as_bytes()))
    };
    let text = template.replace("{1}", &stamp(1)).replace("{2}", &stamp(2));
    unhex(&text.replace(' ', ""))
}

fn cases() -> Vec<(String, Vec<u8>, bool)> {
    let of_value = |value: &str| row(&format!("85 81{{1}} 01 f6 f6 81 84 6163 01 00 {value}"));
    let rows = ROWS.iter().map(|(why, text, taken)| ((*why).to_owned(), row(text), *taken));
    let values =
        VALUES.iter().map(|(why, text, taken)| (format!("value: {why}"), of_value(text), *taken));
    let deep = [(63, true), (64, false), (200, false)].map(|(levels, taken)| {
        (format!("value: {levels} levels"), of_value(&nested(levels)), taken)
    });
    rows.chain(values).chain(deep).collect()
}

pub fn make() -> Value {
    let rows: Vec<Value> = cases()
        .into_iter()
        .map(|(why, row, taken)| json!({ "why": why, "row": hex(row), "taken": taken }))
        .collect();
    json!({ "rows": rows })
}

pub fn read(vector: &Value) {
    for case in list(vector, "rows") {
        let row = Row::decode(&bytes(case, "row"));
        assert_eq!(row.is_ok(), case["taken"].as_bool().unwrap(), "{}", text(case, "why"));
    }
}
