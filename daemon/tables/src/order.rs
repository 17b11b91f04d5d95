//! The one total order of values, and keys whose bytes sort the same way.
//!
//! null and missing < number < string < false < true < array < object. Strings go by their bytes,
//! numbers by exact value, arrays item by item, objects member by member in key order. Two values
//! are *the same* here if neither is less: `1` and `1.0`, `0` and `-0.0`.

use std::cmp::Ordering;

use crate::object::Object;
use crate::value::Value;

/// Compares two values in the total order.
pub fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.order(b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => compare_items(a, b),
        (Value::Object(a), Value::Object(b)) => compare_members(a, b),
        _ => tag(a).cmp(&tag(b)),
    }
}

/// Whether two values are the same in the total order.
pub fn same(a: &Value, b: &Value) -> bool {
    compare(a, b) == Ordering::Equal
}

fn compare_items(a: &[Value], b: &[Value]) -> Ordering {
    let differing = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
    differing.unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn compare_members(a: &Object, b: &Object) -> Ordering {
    let differing = a
        .iter()
        .zip(b)
        .map(|((a_key, a), (b_key, b))| a_key.cmp(b_key).then_with(|| compare(a, b)))
        .find(|order| order.is_ne());
    differing.unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// Which way a sort goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Least first.
    Ascending,
    /// Greatest first.
    Descending,
}

/// Appends the key of a value (`None` is a missing one, the same as null). No key is a prefix of
/// another, so keys can be joined, and inverted byte by byte for a descending order.
pub fn push_key(key: &mut Vec<u8>, value: Option<&Value>) {
    let value = value.unwrap_or(&Value::Null);
    key.push(tag(value));
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => {
            let exact = number.exact();
            let mut bytes = [0; 11];
            let (sign, rest) = bytes.split_at_mut(1);
            let (exponent, mantissa) = rest.split_at_mut(2);
            exponent.copy_from_slice(&exact.exponent.wrapping_add(EXPONENT_BIAS).to_be_bytes());
            mantissa.copy_from_slice(&((exact.mantissa >> 64) as u64).to_be_bytes());
            if exact.sign < 0 {
                rest.iter_mut().for_each(|byte| *byte = !*byte);
            }
            sign.fill((exact.sign + 2) as u8);
            key.extend_from_slice(&bytes);
        }
        Value::String(text) => push_text(key, text),
        Value::Array(items) => {
            items.iter().for_each(|item| push_key(key, Some(item)));
            key.push(END);
        }
        Value::Object(members) => {
            for (name, value) in members {
                key.push(STRING);
                push_text(key, name);
                push_key(key, Some(value));
            }
            key.push(END);
        }
    }
}

/// The key of a value: equal bytes for the same values, and bytes in the order of the values.
pub fn value_key(value: &Value) -> Vec<u8> {
    let mut key = Vec::new();
    push_key(&mut key, Some(value));
    key
}

/// Appends the key by which a row sorts: as [`push_key`], but an array that is not empty counts
/// as its least item ascending and as its greatest descending.
pub fn push_sort_key(key: &mut Vec<u8>, value: Option<&Value>, direction: Direction) {
    let start = key.len();
    let picked = match (value, direction) {
        (Some(Value::Array(items)), Direction::Ascending) => {
            items.iter().min_by(|a, b| compare(a, b)).or(value)
        }
        (Some(Value::Array(items)), Direction::Descending) => {
            items.iter().max_by(|a, b| compare(a, b)).or(value)
        }
        _ => value,
    };
    push_key(key, picked);
    if direction == Direction::Descending {
        key.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
    }
}

/// The key by which one value sorts.
pub fn sort_key(value: Option<&Value>, direction: Direction) -> Vec<u8> {
    let mut key = Vec::new();
    push_sort_key(&mut key, value, direction);
    key
}

/// Appends a string so that its end sorts below any longer string.
fn push_text(key: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        key.push(byte);
        if byte == 0 {
            key.push(0xff);
        }
    }
    key.extend_from_slice(&[0, END]);
}

/// The string whose key this is, if it is the key of one without NUL.
pub(crate) fn text_of_key(key: &[u8]) -> Option<&str> {
    let text = key.strip_prefix(&[STRING])?.strip_suffix(&[0, END])?;
    if text.contains(&0) { None } else { std::str::from_utf8(text).ok() }
}

const fn tag(value: &Value) -> u8 {
    match value {
        Value::Null => 0x10,
        Value::Number(_) => 0x20,
        Value::String(_) => STRING,
        Value::Bool(false) => 0x40,
        Value::Bool(true) => 0x41,
        Value::Array(_) => 0x50,
        Value::Object(_) => 0x60,
    }
}

const STRING: u8 = 0x30;
/// Below every tag, so that a shorter array, object or string sorts first.
const END: u8 = 0x01;
/// Makes every exponent of a number positive (they lie in -1074..=1023).
const EXPONENT_BIAS: i16 = 2048;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn values(texts: &[&str]) -> Vec<Value> {
        texts.iter().map(|text| parse(text.as_bytes()).unwrap()).collect()
    }

    #[test]
    fn keys_sort_as_values_do() {
        let rising = values(&[
            "null",
            "-1e300",
            "-9223372036854775808",
            "-2",
            "-1.5",
            "0",
            "0.5",
            "1",
            "2",
            "9007199254740992",
            "9007199254740993",
            "18446744073709551615",
            "1e300",
            r#""""#,
            r#""\u0000""#,
            r#""\u0000a""#,
            r#""\u0001""#,
            r#""a""#,
            r#""a\u0000""#,
            r#""aa""#,
            r#""b""#,
            r#""é""#,
            r#""👊""#,
            "false",
            "true",
            "[]",
            "[null]",
            "[1]",
            "[1,2]",
            "[2]",
            "[[]]",
            "{}",
            r#"{"":1}"#,
            r#"{"a":1}"#,
            r#"{"a":1,"b":0}"#,
            r#"{"a":2}"#,
            r#"{"b":0}"#,
        ]);
        for (index, pair) in rising.windows(2).enumerate() {
            assert_eq!(compare(&pair[0], &pair[1]), Ordering::Less, "{index}: {pair:?}");
            assert!(value_key(&pair[0]) < value_key(&pair[1]), "{index}: {pair:?}");
            let down = |value| sort_key(Some(value), Direction::Descending);
            if pair[0].as_array().is_none() && pair[1].as_array().is_none() {
                assert!(down(&pair[0]) > down(&pair[1]), "{index}: {pair:?}");
            }
        }
    }

    #[test]
    fn the_same_value_has_the_same_key() {
        for same_pair in
            [["1", "1.0"], ["0", "-0.0"], ["[2]", "[2.0]"], [r#"{"a":1}"#, r#"{"a":1e0}"#]]
        {
            let pair = values(&same_pair);
            assert!(same(&pair[0], &pair[1]));
            assert_eq!(value_key(&pair[0]), value_key(&pair[1]));
        }
        assert_eq!(sort_key(None, Direction::Ascending), value_key(&Value::Null));
    }

    #[test]
    fn an_array_sorts_by_its_least_or_greatest_item() {
        let array = &values(&["[3,1,2]"])[0];
        let up = sort_key(Some(array), Direction::Ascending);
        assert_eq!(up, value_key(&Value::from(1_i64)));
        let down = sort_key(Some(array), Direction::Descending);
        assert_eq!(down, sort_key(Some(&Value::from(3_i64)), Direction::Descending));
        let empty = Value::Array(Vec::new());
        assert_eq!(sort_key(Some(&empty), Direction::Ascending), value_key(&empty));
    }
}
