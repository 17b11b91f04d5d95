//! JSON values as CBOR (RFC 8949), as blobs and the replica hold them.
//!
//! Each value has one encoding: definite lengths, shortest heads, members in the order of their
//! keys' bytes, every float in 64 bits. Lengths are never believed before the bytes are there, so
//! a decoder allocates in proportion to its input.

use std::convert::Infallible;

use minicbor::data::Type;
use minicbor::{Decoder, Encoder};
use tidings_wire::limits;

use crate::number::{Number, NumberKind};
use crate::object::Object;
use crate::value::Value;

/// Bytes that are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct DecodeError {
    /// Offset in bytes of what is wrong, as far as it is known.
    pub at: usize,
    /// What is wrong.
    pub what: &'static str,
}

impl DecodeError {
    pub(crate) fn new(decoder: &Decoder<'_>, what: &'static str) -> Self {
        Self { at: decoder.position(), what }
    }
}

pub(crate) type Encoded = Result<(), minicbor::encode::Error<Infallible>>;

/// What `write` encodes. Writing to memory does not fail.
pub(crate) fn to_bytes(write: impl FnOnce(&mut Encoder<&mut Vec<u8>>) -> Encoded) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(&mut bytes, write);
    bytes
}

/// Appends what `write` writes.
pub(crate) fn append(
    bytes: &mut Vec<u8>,
    write: impl FnOnce(&mut Encoder<&mut Vec<u8>>) -> Encoded,
) {
    let written = write(&mut Encoder::new(bytes));
    debug_assert!(written.is_ok(), "a vector takes every byte");
}

/// Appends the encoding of a value.
pub(crate) fn write_value(encoder: &mut Encoder<&mut Vec<u8>>, value: &Value) -> Encoded {
    match value {
        Value::Null => encoder.null()?.ok(),
        Value::Bool(value) => encoder.bool(*value)?.ok(),
        Value::Number(number) => match number.kind() {
            NumberKind::Int(value) => encoder.i64(value)?.ok(),
            NumberKind::Above(value) => encoder.u64(value)?.ok(),
            NumberKind::Float(value) => encoder.f64(value)?.ok(),
        },
        Value::String(text) => encoder.str(text)?.ok(),
        Value::Array(items) => {
            encoder.array(items.len() as u64)?;
            items.iter().try_for_each(|item| write_value(encoder, item))
        }
        Value::Object(members) => write_object(encoder, members),
    }
}

fn write_object(encoder: &mut Encoder<&mut Vec<u8>>, members: &Object) -> Encoded {
    encoder.map(members.len() as u64)?;
    members.iter().try_for_each(|(key, value)| {
        encoder.str(key)?;
        write_value(encoder, value)
    })
}

/// The encoding of a value.
pub fn encode_value(value: &Value) -> Vec<u8> {
    to_bytes(|encoder| write_value(encoder, value))
}

/// The encoding of an object.
pub fn encode_object(members: &Object) -> Vec<u8> {
    to_bytes(|encoder| write_object(encoder, members))
}

/// Reads a value that fills `bytes`.
///
/// # Errors
/// If the bytes are not the one encoding of a value nested at most [`limits::JSON_DEPTH`] levels.
pub fn decode_value(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut decoder = Decoder::new(bytes);
    let value = read_value(&mut decoder, limits::JSON_DEPTH)?;
    end(&decoder)?;
    canonical(&decoder, &encode_value(&value))?;
    Ok(value)
}

/// Reads an object that fills `bytes`.
///
/// # Errors
/// As [`decode_value`], and if it is another kind of value.
pub fn decode_object(bytes: &[u8]) -> Result<Object, DecodeError> {
    match decode_value(bytes)? {
        Value::Object(members) => Ok(members),
        _ => Err(DecodeError { at: 0, what: "not an object" }),
    }
}

/// Refuses bytes after the end.
pub(crate) fn end(decoder: &Decoder<'_>) -> Result<(), DecodeError> {
    if decoder.position() == decoder.input().len() {
        Ok(())
    } else {
        Err(DecodeError::new(decoder, "bytes after the end"))
    }
}

/// Refuses an encoding that is not the one we write.
pub(crate) fn canonical(decoder: &Decoder<'_>, ours: &[u8]) -> Result<(), DecodeError> {
    let theirs = decoder.input();
    if ours == theirs {
        return Ok(());
    }
    let at = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    Err(DecodeError { at, what: "not the canonical encoding" })
}

/// Reads one value nested at most `levels`; the caller checks that the encoding is canonical.
pub(crate) fn read_value(decoder: &mut Decoder<'_>, levels: usize) -> Result<Value, DecodeError> {
    let kind = datatype(decoder)?;
    let malformed = |decoder: &Decoder<'_>| DecodeError::new(decoder, "not a value");
    match kind {
        Type::Null => decoder.null().map(|()| Value::Null).map_err(|_| malformed(decoder)),
        Type::Bool => decoder.bool().map(Value::Bool).map_err(|_| malformed(decoder)),
        Type::F64 => {
            let value = decoder.f64().map_err(|_| malformed(decoder))?;
            Number::float(value).map(Value::Number).ok_or_else(|| malformed(decoder))
        }
        Type::String => Ok(Value::String(read_str(decoder)?.to_owned())),
        Type::Array => {
            let levels = descend(decoder, levels)?;
            let len = read_array(decoder)?;
            let mut items = Vec::with_capacity(at_first(len));
            for _ in 0..len {
                items.push(read_value(decoder, levels)?);
            }
            Ok(Value::Array(items))
        }
        Type::Map => {
            let levels = descend(decoder, levels)?;
            let len = read_map(decoder)?;
            let mut members = Object::with_capacity(at_first(len));
            for _ in 0..len {
                let at = decoder.position();
                let key = read_str(decoder)?;
                let value = read_value(decoder, levels)?;
                if !members.push_greatest(key, value) {
                    return Err(DecodeError { at, what: "members out of order" });
                }
            }
            Ok(Value::Object(members))
        }
        _ => decoder
            .int()
            .ok()
            .and_then(|value| Number::integer(value.into()))
            .map(Value::Number)
            .ok_or_else(|| malformed(decoder)),
    }
}

fn descend(decoder: &Decoder<'_>, levels: usize) -> Result<usize, DecodeError> {
    levels.checked_sub(1).ok_or_else(|| DecodeError::new(decoder, "nested too deep"))
}

pub(crate) fn datatype(decoder: &Decoder<'_>) -> Result<Type, DecodeError> {
    decoder.datatype().map_err(|_| DecodeError::new(decoder, "the bytes end too early"))
}

pub(crate) fn read_str<'b>(decoder: &mut Decoder<'b>) -> Result<&'b str, DecodeError> {
    let at = decoder.position();
    decoder.str().map_err(|_| DecodeError { at, what: "not a text" })
}

/// The head of an array. Each item takes a byte at least, so a longer one is refused at once.
pub(crate) fn read_array(decoder: &mut Decoder<'_>) -> Result<u64, DecodeError> {
    let at = decoder.position();
    let len = decoder.array().ok().flatten();
    within(decoder, len).ok_or(DecodeError { at, what: "not an array" })
}

/// The head of a map, refused if it claims more members than there are bytes.
pub(crate) fn read_map(decoder: &mut Decoder<'_>) -> Result<u64, DecodeError> {
    let at = decoder.position();
    let len = decoder.map().ok().flatten();
    within(decoder, len).ok_or(DecodeError { at, what: "not a map" })
}

/// How much of a claimed length to reserve: small ones exactly, large ones as they prove true.
fn at_first(len: u64) -> usize {
    len.min(16) as usize
}

fn within(decoder: &Decoder<'_>, len: Option<u64>) -> Option<u64> {
    let left = decoder.input().len().saturating_sub(decoder.position());
    len.filter(|len| *len <= left as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    #[test]
    fn values_have_known_bytes() {
        for (text, bytes) in [
            ("null", &[0xf6][..]),
            ("true", &[0xf5]),
            ("1", &[0x01]),
            ("-1", &[0x20]),
            ("1.0", &[0xfb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0]),
            ("18446744073709551615", &[0x1b, 255, 255, 255, 255, 255, 255, 255, 255]),
            (r#""é""#, &[0x62, 0xc3, 0xa9]),
            (r#"{"b":[],"a":{}}"#, &[0xa2, 0x61, b'a', 0xa0, 0x61, b'b', 0x80]),
        ] {
            let value = parse(text.as_bytes()).unwrap();
            assert_eq!(encode_value(&value), bytes, "{text}");
            assert_eq!(decode_value(bytes), Ok(value), "{text}");
        }
    }

    #[test]
    fn other_encodings_are_refused() {
        for (bytes, why) in [
            (&[0x18, 0x01][..], "a long head"),
            (&[0xfa, 0x3f, 0x80, 0, 0], "a short float"),
            (&[0xf9, 0x3c, 0x00], "a half float"),
            (&[0xfb, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0], "infinity"),
            (&[0xfb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0], "NaN"),
            (&[0x9f, 0xff], "an indefinite array"),
            (&[0x7f, 0xff], "an indefinite text"),
            (&[0xbf, 0xff], "an indefinite map"),
            (&[0xa2, 0x61, b'b', 1, 0x61, b'a', 1], "members out of order"),
            (&[0xa2, 0x61, b'a', 1, 0x61, b'a', 1], "a member twice"),
            (&[0xa1, 0x01, 0x01], "a key that is a number"),
            (&[0x41, 0x00], "bytes"),
            (&[0xf7], "undefined"),
            (&[0xc0, 0x01], "a tag"),
            (&[0x3b, 255, 255, 255, 255, 255, 255, 255, 255], "an integer below i64"),
            (&[0x62, 0xc3, 0x28], "text that is not UTF-8"),
            (&[0x01, 0x01], "bytes after the end"),
            (&[], "nothing"),
            (&[0x9b, 255, 255, 255, 255, 255, 255, 255, 255], "a boundless array"),
            (&[0x7b, 0, 0, 0, 255, 255, 255, 255, 255], "a boundless text"),
        ] {
            assert!(decode_value(bytes).is_err(), "{why} was taken");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |levels: usize| [vec![0x81; levels - 1], vec![0x80]].concat();
        assert_eq!(decode_value(&nested(64)).unwrap().depth(), 64);
        assert_eq!(decode_value(&nested(65)), Err(DecodeError { at: 64, what: "nested too deep" }));
        assert!(decode_value(&vec![0x81; 200_000]).is_err());
    }
}
