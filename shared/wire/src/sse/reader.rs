//! The reader: bytes of a stream, cut anywhere, become events, comments and retry hints.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::limits;

/// Longest reconnection delay that a `retry:` line can ask for; larger values mean this one.
///
/// A hostile or broken stream can thus delay the next dial, but never stop it.
pub const RETRY_MAX: Duration = Duration::from_secs(600);

/// What a stream said, in the order it said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A dispatched event.
    Event(Event),
    /// A comment line, which is how servers keep an idle stream alive. Its text is dropped.
    Comment,
    /// A valid `retry:` line: wait this long before dialling again. At most [`RETRY_MAX`].
    Retry(Duration),
}

/// One dispatched event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The event's type; `message` when the stream named none.
    pub name: String,
    /// The `data:` lines, joined by LF.
    pub data: String,
    /// The last event id in force, which earlier events may have set; empty when there is none.
    pub id: Arc<str>,
}

/// Why a stream cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// A line went past the limit before it ended.
    #[error("a line of the event stream is longer than {limit} bytes")]
    LineTooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The data of one event went past the limit.
    #[error("an event of the stream is larger than {limit} bytes")]
    EventTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
}

/// A Server-Sent Events parser without IO.
///
/// Call [`feed`](Self::feed) with each piece that arrives, then [`next_item`](Self::next_item)
/// until it answers `Ok(None)`. The result never depends on where the pieces were cut. Whatever
/// the peer sends, a drained reader holds at most one line, one event and the last event id, and
/// the time spent is linear in the bytes. After an error every further call returns that error:
/// the connection is of no use any more. An event that is unfinished when the stream ends is
/// dropped with the reader, as the standard asks.
#[derive(Debug)]
pub struct Reader {
    line_limit: usize,
    event_limit: usize,
    /// Bytes fed and not looked at yet.
    input: VecDeque<u8>,
    /// The line so far, without its end.
    line: Vec<u8>,
    /// The last line ended with CR; an LF that follows belongs to that end.
    after_cr: bool,
    /// No line has ended yet, so a byte order mark may lead the first.
    first_line: bool,
    name: String,
    data: String,
    has_data: bool,
    /// The id that takes effect when the block ends.
    pending_id: Option<Arc<str>>,
    last_id: Arc<str>,
    retry: Option<Duration>,
    failed: Option<SseError>,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// A reader at the start of a stream, with the limits [`limits::SSE_LINE`] and
    /// [`limits::SSE_EVENT`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_limits(limits::SSE_LINE, limits::SSE_EVENT)
    }

    /// A reader with smaller limits, in bytes, for a stream whose events are known to be small.
    #[must_use]
    pub fn with_limits(line: usize, event: usize) -> Self {
        Self {
            line_limit: line.min(limits::SSE_LINE),
            event_limit: event.min(limits::SSE_EVENT),
            input: VecDeque::new(),
            line: Vec::new(),
            after_cr: false,
            first_line: true,
            name: String::new(),
            data: String::new(),
            has_data: false,
            pending_id: None,
            last_id: Arc::from(""),
            retry: None,
            failed: None,
        }
    }

    /// A reader for a stream that resumes: `last_event_id` stays in force until the stream sets
    /// another. An id with CR, LF or NUL, which could not have come from a stream, is taken as
    /// empty.
    #[must_use]
    pub fn resuming(last_event_id: &str) -> Self {
        let mut reader = Self::new();
        if !last_event_id.contains(['\r', '\n', '\0']) {
            reader.last_id = Arc::from(last_event_id);
        }
        reader
    }

    /// Takes the next piece of the stream. Any byte, also half a line, shows that the peer lives.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.input.extend(bytes);
        }
    }

    /// The next item of the bytes fed so far; `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`SseError`] when a line or an event is larger than its limit, and from then on.
    pub fn next_item(&mut self) -> Result<Option<Item>, SseError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        loop {
            match self.take_line() {
                Ok(false) => return Ok(None),
                Ok(true) => {}
                Err(error) => return Err(self.fail(error)),
            }
            let line = std::mem::take(&mut self.line);
            let outcome = self.end_line(&line);
            // The allocation serves the next line too, unless one long line made it large.
            if line.capacity() <= KEPT_LINE {
                self.line = line;
                self.line.clear();
            }
            match outcome {
                Ok(None) => {}
                Ok(item) => return Ok(item),
                Err(error) => return Err(self.fail(error)),
            }
        }
    }

    /// The id to send as `Last-Event-ID` when the stream is opened again; empty means none.
    ///
    /// It never contains CR, LF or NUL, so it always fits into a header.
    #[must_use]
    pub fn last_event_id(&self) -> &str {
        &self.last_id
    }

    /// The reconnection delay that the stream asked for last, if it did.
    #[must_use]
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    fn fail(&mut self, error: SseError) -> SseError {
        self.failed = Some(error);
        self.input = VecDeque::new();
        self.line = Vec::new();
        self.data = String::new();
        self.name = String::new();
        error
    }

    /// Moves bytes from the input into the line; true when the line is complete.
    fn take_line(&mut self) -> Result<bool, SseError> {
        if self.after_cr && !self.input.is_empty() {
            self.after_cr = false;
            if self.input.front() == Some(&b'\n') {
                self.input.pop_front();
            }
        }
        while !self.input.is_empty() {
            let (run, _) = self.input.as_slices();
            let end = run.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let text = run.get(..end.unwrap_or(run.len())).unwrap_or_default();
            if text.len() > self.line_limit - self.line.len() {
                return Err(SseError::LineTooLong { limit: self.line_limit });
            }
            let ended_by = end.and_then(|at| run.get(at)).copied();
            let used = text.len() + usize::from(ended_by.is_some());
            grow(&mut self.line, text.len(), self.line_limit);
            self.line.extend_from_slice(text);
            self.input.drain(..used);
            if let Some(byte) = ended_by {
                self.after_cr = byte == b'\r';
                return Ok(true);
            }
        }
        if self.input.capacity() > KEPT_INPUT {
            self.input = VecDeque::new();
        }
        Ok(false)
    }

    fn end_line(&mut self, line: &[u8]) -> Result<Option<Item>, SseError> {
        let mut line = line;
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.dispatch());
        }
        let colon = line.iter().position(|&byte| byte == b':');
        let (field, value) = match colon.and_then(|at| line.split_at_checked(at)) {
            Some((field, rest)) => {
                let value = rest.strip_prefix(b":").unwrap_or(rest);
                (field, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &[][..]),
        };
        match field {
            b"" => return Ok(Some(Item::Comment)),
            b"data" => self.push_data(value)?,
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => {
                self.pending_id = Some(Arc::from(String::from_utf8_lossy(value).as_ref()));
            }
            b"retry" => {
                if let Some(delay) = retry_delay(value) {
                    self.retry = Some(delay);
                    return Ok(Some(Item::Retry(delay)));
                }
            }
            _ => {}
        }
        Ok(None)
    }

    /// Adds one `data:` line, decoded. A line break is ASCII, so no character spans two lines and
    /// decoding line by line gives what decoding the whole stream would.
    fn push_data(&mut self, value: &[u8]) -> Result<(), SseError> {
        let decoded: usize = value.utf8_chunks().map(|c| c.valid().len() + mark(&c).len()).sum();
        let join = usize::from(self.has_data);
        if decoded + join > self.event_limit - self.data.len() {
            return Err(SseError::EventTooLarge { limit: self.event_limit });
        }
        let room = room(self.data.len(), self.data.capacity(), decoded + join, self.event_limit);
        self.data.reserve_exact(room);
        if self.has_data {
            self.data.push('\n');
        }
        for chunk in value.utf8_chunks() {
            self.data.push_str(chunk.valid());
            self.data.push_str(mark(&chunk));
        }
        self.has_data = true;
        Ok(())
    }

    fn dispatch(&mut self) -> Option<Item> {
        if let Some(id) = self.pending_id.take() {
            self.last_id = id;
        }
        let name = std::mem::take(&mut self.name);
        if !std::mem::take(&mut self.has_data) {
            return None;
        }
        let name = if name.is_empty() { "message".to_owned() } else { name };
        let data = std::mem::take(&mut self.data);
        Some(Item::Event(Event { name, data, id: Arc::clone(&self.last_id) }))
    }
}

/// U+FFFD for the invalid bytes of a chunk, nothing when it has none.
fn mark(chunk: &std::str::Utf8Chunk<'_>) -> &'static str {
    if chunk.invalid().is_empty() { "" } else { "\u{fffd}" }
}

/// ASCII digits only; a number too large for the cap is the cap.
fn retry_delay(value: &[u8]) -> Option<Duration> {
    if value.is_empty() {
        return None;
    }
    let mut millis = 0_u64;
    for byte in value {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        millis = millis.saturating_mul(10).saturating_add(digit);
    }
    Some(Duration::from_millis(millis).min(RETRY_MAX))
}

fn grow(buffer: &mut Vec<u8>, more: usize, limit: usize) {
    buffer.reserve_exact(room(buffer.len(), buffer.capacity(), more, limit));
}

/// How much to reserve for `more` bytes: doubling, but straight to the limit from half of it, so
/// that old and new buffer together stay under twice the limit while bytes are moved.
fn room(len: usize, capacity: usize, more: usize, limit: usize) -> usize {
    let need = len + more;
    if need <= capacity {
        return 0;
    }
    let target = if need > limit / 2 { limit } else { need.max(capacity * 2).max(64) };
    target.saturating_sub(len)
}

/// Largest line buffer that is kept for the next line, in bytes.
const KEPT_LINE: usize = 4 << 10;
/// Largest input buffer that is kept when it is empty, in bytes.
const KEPT_INPUT: usize = 64 << 10;
