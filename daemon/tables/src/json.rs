//! Reading JSON without losing a digit: what `serde_json` would round, replace or overflow on is
//! refused here, with the byte where it stands.
//!
//! Refused: integers outside `i64` and `u64`, numbers too large for `f64`, lone surrogates, a key
//! twice in one object, too deep nesting (before it is descended into), and whatever RFC 8259
//! does not allow.

use tidings_wire::limits;

use crate::number::Number;
use crate::object::Object;
use crate::value::Value;

/// Why a text was not read as JSON, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at byte {at}")]
pub struct JsonError {
    /// Offset in bytes of what is wrong.
    pub at: usize,
    /// What is wrong.
    pub problem: JsonProblem,
}

/// What can be wrong with a JSON text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonProblem {
    /// Not JSON.
    #[error("not JSON: expected {0}")]
    Expected(&'static str),
    /// The text ends too early.
    #[error("not JSON: the text ends in the middle of a value")]
    Ended,
    /// Not UTF-8.
    #[error("not JSON: not UTF-8")]
    NotUtf8,
    /// Arrays and objects nest deeper than allowed.
    #[error("arrays and objects nest deeper than {0} levels")]
    TooDeep(usize),
    /// An integer that neither `i64` nor `u64` holds.
    #[error("an integer outside -9223372036854775808..=18446744073709551615")]
    IntegerOutOfRange,
    /// A number beyond the largest `f64`.
    #[error("a number beyond 1.7976931348623157e308")]
    NumberOutOfRange,
    /// Half of a surrogate pair: not a character.
    #[error("a lone surrogate, which is half a character")]
    LoneSurrogate,
    /// The same key twice in one object.
    #[error("the key {0:?} twice in one object")]
    DuplicateKey(String),
}

impl JsonProblem {
    /// Whether the text is JSON, but holds a value that a row cannot keep exactly.
    pub fn is_value(&self) -> bool {
        matches!(
            self,
            Self::IntegerOutOfRange
                | Self::NumberOutOfRange
                | Self::LoneSurrogate
                | Self::DuplicateKey(_)
        )
    }
}

/// Reads one JSON value nested at most [`limits::JSON_DEPTH`] levels.
///
/// # Errors
/// See [`JsonProblem`].
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    parse_nested(text, limits::JSON_DEPTH)
}

/// Reads one JSON value nested at most `depth` levels, for a request that wraps rows in an
/// envelope of its own.
///
/// # Errors
/// See [`JsonProblem`].
pub fn parse_nested(text: &[u8], depth: usize) -> Result<Value, JsonError> {
    let text = std::str::from_utf8(text)
        .map_err(|error| JsonError { at: error.valid_up_to(), problem: JsonProblem::NotUtf8 })?;
    let mut parser = Parser { text, at: 0, depth, left: depth };
    let value = parser.value()?;
    parser.space();
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.expected("the end")),
    }
}

/// A position in a text; `left` is how many more levels may open.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    left: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn error(&self, at: usize, problem: JsonProblem) -> JsonError {
        JsonError { at, problem }
    }

    fn expected(&self, what: &'static str) -> JsonError {
        let problem =
            if self.peek().is_none() { JsonProblem::Ended } else { JsonProblem::Expected(what) };
        self.error(self.at, problem)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Takes `byte` if it is next.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self) -> Result<Value, JsonError> {
        self.space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.expected("a value")),
        }
    }

    fn word(&mut self, word: &'static str, value: Value) -> Result<Value, JsonError> {
        if self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes()))
        {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.error(self.at, JsonProblem::Expected("a value")))
        }
    }

    /// Descends one level, if one is left.
    fn nested(
        &mut self,
        read: fn(&mut Self) -> Result<Value, JsonError>,
    ) -> Result<Value, JsonError> {
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| self.error(self.at, JsonProblem::TooDeep(self.depth)))?;
        self.at += 1;
        let value = read(self)?;
        self.left += 1;
        Ok(value)
    }

    fn array(&mut self) -> Result<Value, JsonError> {
        let mut items = Vec::new();
        self.space();
        if self.take(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value()?);
            self.space();
            if self.take(b']') {
                // A document of very many small arrays would else hold four times its items.
                items.shrink_to_fit();
                return Ok(Value::Array(items));
            }
            if !self.take(b',') {
                return Err(self.expected("',' or ']'"));
            }
        }
    }

    fn object(&mut self) -> Result<Value, JsonError> {
        let start = self.at;
        let mut members = Vec::new();
        self.space();
        if self.take(b'}') {
            return Ok(Value::Object(Object::new()));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.expected("a key in quotes"));
            }
            let key = self.string()?.into_boxed_str();
            self.space();
            if !self.take(b':') {
                return Err(self.expected("':'"));
            }
            members.push((key, self.value()?));
            self.space();
            if self.take(b'}') {
                break;
            }
            if !self.take(b',') {
                return Err(self.expected("',' or '}'"));
            }
        }
        Object::of_members(members)
            .map(Value::Object)
            .map_err(|key| self.error(start - 1, JsonProblem::DuplicateKey(key.into())))
    }

    /// The text from `start` to here. Both stand on ASCII, so the cut cannot miss.
    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn digits(&mut self) -> bool {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at > start
    }

    fn number(&mut self) -> Result<Number, JsonError> {
        let start = self.at;
        let negative = self.take(b'-');
        if !self.take(b'0') && !self.digits() {
            return Err(self.expected("a digit"));
        }
        let mut whole = true;
        if self.take(b'.') {
            whole = false;
            if !self.digits() {
                return Err(self.expected("a digit"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if !self.take(b'+') {
                self.take(b'-');
            }
            if !self.digits() {
                return Err(self.expected("a digit"));
            }
        }
        let text = self.since(start);
        if whole && text != "-0" {
            let number = if negative {
                text.parse::<i64>().map(Number::from)
            } else {
                text.parse::<u64>().map(Number::from)
            };
            return number.map_err(|_| self.error(start, JsonProblem::IntegerOutOfRange));
        }
        // "-0" has no integer of its own; as a float it keeps its sign.
        text.parse()
            .ok()
            .and_then(Number::float)
            .ok_or_else(|| self.error(start, JsonProblem::NumberOutOfRange))
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut string = String::new();
        loop {
            let start = self.at;
            while matches!(self.peek(), Some(byte) if byte >= b' ' && byte != b'"' && byte != b'\\')
            {
                self.at += 1;
            }
            string.push_str(self.since(start));
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => string.push(self.escape()?),
                _ => return Err(self.expected("no control character within a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let start = self.at;
        self.at += 1;
        let plain = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode(start);
            }
            _ => return Err(self.expected("an escape")),
        };
        self.at += 1;
        Ok(plain)
    }

    /// The character of `\u` and four hex digits, or of two of them that form a pair.
    fn unicode(&mut self, start: usize) -> Result<char, JsonError> {
        let first = self.hex4()?;
        let mut point = u32::from(first);
        if (0xd800..0xdc00).contains(&first) && self.take(b'\\') {
            if !self.take(b'u') {
                return Err(self.error(start, JsonProblem::LoneSurrogate));
            }
            let second = self.hex4()?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err(self.error(start, JsonProblem::LoneSurrogate));
            }
            point = 0x1_0000 + ((point - 0xd800) << 10) + (u32::from(second) - 0xdc00);
        }
        char::from_u32(point).ok_or_else(|| self.error(start, JsonProblem::LoneSurrogate))
    }

    fn hex4(&mut self) -> Result<u16, JsonError> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else { return Err(self.expected("four hexadecimal digits")) };
            value = value << 4 | digit as u16;
            self.at += 1;
        }
        Ok(value)
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
