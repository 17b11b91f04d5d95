//! An answer, made up or to be changed.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use http::{HeaderMap, HeaderName, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidings_wire::sync::MEDIA_TYPE;
use tidings_wire::{Code, Problem, ProblemBody};

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, or its beginning.
    pub body: Bytes,
    /// What follows the body.
    pub(super) rest: Vec<Piece>,
    /// Whether the connection is kept open once everything was said.
    pub(super) held: bool,
}

/// A piece of a body, sent some time after the one before, several times.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) after: Duration,
    pub(super) bytes: Bytes,
    pub(super) times: u64,
}

impl Answer {
    /// An answer of a status, media type and body.
    ///
    /// # Panics
    /// The media type cannot stand in a header.
    pub fn new(status: StatusCode, media_type: &str, body: impl Into<Bytes>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, media_type.parse().expect("a media type"));
        Self { status, headers, body: body.into(), rest: Vec::new(), held: false }
    }

    /// A JSON answer.
    ///
    /// # Panics
    /// It cannot be written as JSON.
    pub fn json(value: &impl Serialize) -> Self {
        let body = serde_json::to_vec(value).expect("JSON");
        Self::new(StatusCode::OK, "application/json", body)
    }

    /// A CBOR answer.
    ///
    /// # Panics
    /// It cannot be written as CBOR.
    pub fn cbor(value: &impl minicbor::Encode<()>) -> Self {
        Self::new(StatusCode::OK, MEDIA_TYPE, minicbor::to_vec(value).expect("CBOR"))
    }

    /// A refusal as this server words them.
    pub fn problem(code: Code) -> Self {
        let status = StatusCode::from_u16(code.status()).expect("a status");
        let body = ProblemBody { error: Problem::new(code, "so says the evil server") };
        Self { status, ..Self::json(&body) }
    }

    /// A redirect.
    ///
    /// # Panics
    /// The target cannot stand in a header.
    pub fn redirect(status: StatusCode, target: &str) -> Self {
        Self::new(status, "text/plain", "").header("location", target)
    }

    /// An open stream of events that says nothing yet.
    pub fn stream() -> Self {
        let mut answer = Self::new(StatusCode::OK, "text/event-stream", "");
        answer.held = true;
        answer
    }

    /// Adds a header.
    ///
    /// # Panics
    /// The value cannot stand in a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        let value: HeaderValue = value.parse().expect("a header's value");
        self.headers.insert(HeaderName::from_static(name), value);
        self
    }

    /// Says more, at once.
    #[must_use]
    pub fn then(self, bytes: impl Into<Bytes>) -> Self {
        self.pieces(Duration::ZERO, bytes, 1)
    }

    /// Says the same many times, each time after a pause.
    #[must_use]
    pub fn pieces(mut self, after: Duration, bytes: impl Into<Bytes>, times: u64) -> Self {
        self.rest.push(Piece { after, bytes: bytes.into(), times });
        self
    }

    /// Ends once everything was said, instead of keeping the connection open.
    #[must_use]
    pub fn ended(mut self) -> Self {
        self.held = false;
        self
    }

    /// Reads a JSON body.
    ///
    /// # Panics
    /// It is none.
    pub fn read_json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.body).expect("a JSON answer")
    }

    /// Puts a JSON body in place of the one there.
    ///
    /// # Panics
    /// It cannot be written as JSON.
    pub fn write_json(&mut self, value: &impl Serialize) {
        self.body = serde_json::to_vec(value).expect("JSON").into();
    }

    /// Reads a CBOR body; none where the server refused.
    pub fn read_cbor<T: for<'b> minicbor::Decode<'b, ()>>(&self) -> Option<T> {
        if !self.status.is_success() {
            return None;
        }
        minicbor::decode(&self.body).ok()
    }

    /// Puts a CBOR body in place of the one there.
    ///
    /// # Panics
    /// It cannot be written as CBOR.
    pub fn write_cbor(&mut self, value: &impl minicbor::Encode<()>) {
        self.body = minicbor::to_vec(value).expect("CBOR").into();
    }

    /// Where it redirects to.
    pub fn location(&self) -> Option<&str> {
        self.headers.get(LOCATION).and_then(|value| value.to_str().ok())
    }
}
