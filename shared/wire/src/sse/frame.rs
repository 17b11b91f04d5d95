//! The writer: frames as bytes, in the shape that also the simplest parsers understand.

use std::{fmt::Write as _, time::Duration};

use serde::Serialize;

/// The server's payload-free nudge. Its `data:` line is there and empty, because a standard
/// parser drops an event without one.
pub const CHANGED: &[u8] = b"event: changed\ndata:\n\n";
/// The comment that keeps the server's streams and the daemon's live windows alive.
pub const KEEPALIVE: &[u8] = b": keepalive\n\n";
/// The comment that keeps the daemon's table streams alive.
pub const PING: &[u8] = b": ping\n\n";

/// Why an event cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The event's name contains CR, LF or NUL.
    #[error("the event name contains a line break or NUL")]
    BadName,
    /// The event's id contains CR, LF or NUL.
    #[error("the event id contains a line break or NUL")]
    BadId,
    /// The data contains CR or LF and would need more than one `data:` line.
    #[error("the event data contains a line break")]
    BadData,
    /// The value cannot be written as JSON.
    #[error("the event data cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Builds the bytes of one or more frames.
///
/// It writes LF only, one `data:` line per event and always one, and ends every frame with an
/// empty line, so that a parser which merely splits on `"\n\n"` works too.
///
/// ```
/// use std::time::Duration;
/// use tidings_wire::sse::Frame;
///
/// let hello = Frame::new().retry(Duration::from_millis(1500)).comment("welcome").finish();
/// assert_eq!(hello, b"retry: 1500\n: welcome\n\n");
/// let event = Frame::new().event(Some("update"), Some("17"), "{}")?.finish();
/// assert_eq!(event, b"id: 17\nevent: update\ndata: {}\n\n");
/// # Ok::<(), tidings_wire::sse::FrameError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Frame {
    text: String,
}

impl Frame {
    /// A builder with nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a `retry:` line in whole milliseconds. It shares the frame of what follows.
    #[must_use]
    pub fn retry(mut self, delay: Duration) -> Self {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "retry: {}", delay.as_millis());
        self
    }

    /// Adds a comment line. Line breaks and NUL in the text become spaces.
    #[must_use]
    pub fn comment(mut self, text: &str) -> Self {
        self.text.push_str(": ");
        self.text.extend(text.chars().map(|c| if is_break(c) { ' ' } else { c }));
        self.text.push('\n');
        self
    }

    /// Adds an event and ends the frame. Without a name its type is `message`; without an id the
    /// earlier one stays in force.
    ///
    /// # Errors
    /// [`FrameError`] when a part contains a byte that would break the frame. JSON in one line,
    /// as `serde_json` writes it, never does.
    pub fn event(
        mut self,
        name: Option<&str>,
        id: Option<&str>,
        data: &str,
    ) -> Result<Self, FrameError> {
        if name.is_some_and(|name| name.contains(is_break)) {
            return Err(FrameError::BadName);
        }
        if id.is_some_and(|id| id.contains(is_break)) {
            return Err(FrameError::BadId);
        }
        if data.contains(['\r', '\n']) {
            return Err(FrameError::BadData);
        }
        if let Some(id) = id {
            self.field("id", id);
        }
        if let Some(name) = name {
            self.field("event", name);
        }
        self.field("data", data);
        self.text.push('\n');
        Ok(self)
    }

    /// Adds an event whose data is a value as JSON, and ends the frame.
    ///
    /// # Errors
    /// As [`event`](Self::event), and when the value has no JSON form.
    pub fn json(
        self,
        name: Option<&str>,
        id: Option<&str>,
        data: &impl Serialize,
    ) -> Result<Self, FrameError> {
        self.event(name, id, &serde_json::to_string(data)?)
    }

    /// The bytes, with the last frame ended.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
        self.text.into_bytes()
    }

    fn field(&mut self, name: &str, value: &str) {
        self.text.push_str(name);
        self.text.push(':');
        // A value's own leading space survives, because readers remove only this one.
        if !value.is_empty() {
            self.text.push(' ');
            self.text.push_str(value);
        }
        self.text.push('\n');
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\0')
}
