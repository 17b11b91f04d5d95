//! Reading bodies: never more than the limit, never waiting for ever, never a media type that a
//! web page could send by accident.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::BodyExt as _;
use serde_json::json;
use tidings_tables::{Object, Value, json as values};
use tidings_wire::limits;

use super::error::{ApiError, Code};

/// JSON.
pub const JSON: &str = "application/json";
/// A JSON Merge Patch (RFC 7396).
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// One JSON value per line.
pub const NDJSON: &str = "application/x-ndjson";

/// Levels that a request may put around a row.
const ENVELOPE: usize = 8;

/// Which of the accepted media types a body has.
///
/// # Errors
/// `request.unsupported_media_type`.
pub fn media_type(
    headers: &HeaderMap,
    accepted: &[&'static str],
) -> Result<&'static str, ApiError> {
    let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let name = sent.split(';').next().unwrap_or("").trim();
    accepted.iter().copied().find(|known| name.eq_ignore_ascii_case(known)).ok_or_else(|| {
        let list = accepted.join(" or ");
        ApiError::new(Code::UnsupportedMediaType, format!("the body must be {list}"))
            .hint(format!("send `Content-Type: {}`", accepted.first().unwrap_or(&JSON)))
            .details(json!({ "accepted": accepted }))
    })
}

/// Reads a whole body of at most [`limits::LOCAL_REQUEST`] bytes.
///
/// # Errors
/// `request.too_large`, `request.timeout`.
pub async fn read(headers: &HeaderMap, body: Body, idle: Duration) -> Result<Bytes, ApiError> {
    const LIMIT: usize = limits::LOCAL_REQUEST;
    let too_large = || {
        ApiError::new(Code::TooLarge, format!("a request may have {LIMIT} bytes"))
            .hint("send fewer rows at a time; `import` takes any number")
            .details(json!({ "limit": LIMIT }))
    };
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let announced = announced.and_then(|text| text.parse::<usize>().ok());
    if announced.is_some_and(|length| length > LIMIT) {
        return Err(too_large());
    }
    let mut whole = Vec::with_capacity(announced.unwrap_or(0));
    let mut body = body;
    while let Some(piece) = next(&mut body, idle).await? {
        let length = whole.len() + piece.len();
        if length > LIMIT {
            return Err(too_large());
        }
        append(&mut whole, &piece, LIMIT);
    }
    Ok(whole.into())
}

/// Appends a piece, making room for twice as much but never for more than may come. The last step
/// goes from half of it to all of it, so that both together stay within one and a half.
pub fn append(whole: &mut Vec<u8>, piece: &[u8], most: usize) {
    let length = whole.len() + piece.len();
    if length > whole.capacity() {
        let doubled = whole.capacity() * 2;
        let room = length.max(if doubled > most / 2 { most } else { doubled });
        whole.reserve_exact(room - whole.len());
    }
    whole.extend_from_slice(piece);
}

/// The next piece of a body; none at its end.
///
/// # Errors
/// `request.timeout`, or that the connection broke.
pub async fn next(body: &mut Body, idle: Duration) -> Result<Option<Bytes>, ApiError> {
    loop {
        let frame = tokio::time::timeout(idle, body.frame()).await.map_err(|_| {
            ApiError::new(Code::Timeout, "the body did not arrive in time; nothing was changed")
        })?;
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|_| ApiError::new(Code::BadBody, "the body broke off"))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

/// Reads a JSON value, exactly.
///
/// # Errors
/// `request.bad_json`, `request.too_deep`, `row.invalid`.
pub fn parse(text: &[u8]) -> Result<Value, ApiError> {
    values::parse_nested(text, limits::JSON_DEPTH + ENVELOPE)
        .map_err(|error| ApiError::json(&error, text))
}

/// Reads a whole JSON body.
///
/// # Errors
/// As [`media_type`], [`read`] and [`parse`].
pub async fn json(headers: &HeaderMap, body: Body, idle: Duration) -> Result<Value, ApiError> {
    media_type(headers, &[JSON])?;
    parse(&read(headers, body, idle).await?)
}

/// The members of a request's envelope, to be taken one by one.
#[derive(Debug)]
pub struct Fields {
    members: Object,
    accepted: Vec<&'static str>,
}

impl Fields {
    /// The members of a value that has to be an object.
    ///
    /// # Errors
    /// `request.invalid_field`.
    pub fn new(value: Value, what: &str) -> Result<Self, ApiError> {
        match value {
            Value::Object(members) => Ok(Self { members, accepted: Vec::new() }),
            other => Err(ApiError::new(
                Code::InvalidField,
                format!("{what} must be an object, not {}", other.kind()),
            )),
        }
    }

    /// Takes a member; null is as good as none.
    pub fn take(&mut self, name: &'static str) -> Option<Value> {
        self.accepted.push(name);
        self.members.remove(name).filter(|value| *value != Value::Null)
    }

    /// Takes a string.
    ///
    /// # Errors
    /// `request.invalid_field`.
    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(expected(name, "a string", &other)),
        }
    }

    /// Takes a bool.
    ///
    /// # Errors
    /// `request.invalid_field`.
    pub fn bool(&mut self, name: &'static str) -> Result<Option<bool>, ApiError> {
        let value = self.take(name);
        value
            .map(|value| value.as_bool().ok_or_else(|| expected(name, "a bool", &value)))
            .transpose()
    }

    /// Takes a whole number that is not negative.
    ///
    /// # Errors
    /// `request.invalid_field`.
    pub fn count(&mut self, name: &'static str) -> Result<Option<usize>, ApiError> {
        let count = |value: Value| {
            let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
            number.ok_or_else(|| expected(name, "a whole number", &value))
        };
        self.take(name).map(count).transpose()
    }

    /// Takes an array.
    ///
    /// # Errors
    /// `request.invalid_field`.
    pub fn array(&mut self, name: &'static str) -> Result<Option<Vec<Value>>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(expected(name, "an array", &other)),
        }
    }

    /// Refuses what was not taken.
    ///
    /// # Errors
    /// `request.unknown_field`.
    pub fn finish(self) -> Result<(), ApiError> {
        match self.members.into_iter().next() {
            None => Ok(()),
            Some((name, _)) => Err(ApiError::new(
                Code::UnknownField,
                format!("the call does not know the field `{name}`"),
            )
            .details(json!({ "field": name, "accepted": self.accepted }))),
        }
    }
}

/// A member that a call needs.
pub fn missing(name: &str) -> ApiError {
    ApiError::new(Code::MissingField, format!("the field `{name}` is missing"))
        .details(json!({ "field": name }))
}

/// A member of the wrong kind.
pub fn expected(name: &str, what: &str, found: &Value) -> ApiError {
    ApiError::invalid(name, format!("`{name}` must be {what}, not {}", found.kind()))
}
