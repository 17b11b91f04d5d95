//! Streams of events: tables, status, windows.

use std::{fmt, time::Duration};

use http::{HeaderName, Method, header::CONTENT_TYPE};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tidings_wire::{
    AppId,
    local::ChangeKind,
    sse::{Event, Item, Reader},
};

use super::{Client, LocalError, Reply, Request, error::innermost, path::Path};

const EVENT_STREAM: &str = "text/event-stream";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What a stream of changes shows. The default shows every change, from now on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WatchOptions {
    /// Only these kinds; all where empty.
    pub events: Vec<ChangeKind>,
    /// Only rows that match.
    pub filter: Option<Value>,
    /// Only these columns.
    pub fields: Vec<String>,
    /// Whether updates and deletes carry the row before.
    pub old: Option<OldRecord>,
    /// Go on after this event.
    pub last_event_id: Option<String>,
}

/// Whether a change carries the row before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldRecord {
    /// It does not.
    None,
    /// It does.
    Full,
}

/// An open stream of events. It does not reconnect: open it again with
/// [`last_event_id`](Self::last_event_id), after [`retry`](Self::retry).
pub struct EventStream {
    body: Incoming,
    reader: Reader,
    silence: Duration,
}

impl Client {
    /// Watches one table, several tables, or where none is named all tables of an app.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn watch(
        &self,
        app: &AppId,
        tables: &[String],
        options: &WatchOptions,
    ) -> Result<EventStream, LocalError> {
        let path = match tables {
            [table] => Path::table(app, table),
            _ => Path::app(app),
        };
        let mut request = Request::new(Method::GET, path.fixed("stream").into_string());
        if tables.len() > 1 {
            request = request.query("tables", tables.join(","));
        }
        if !options.events.is_empty() {
            let names: Vec<_> = options.events.iter().map(|kind| kind.as_str()).collect();
            request = request.query("events", names.join(","));
        }
        if let Some(filter) = &options.filter {
            request = request.query("filter", filter);
        }
        if !options.fields.is_empty() {
            request = request.query("fields", options.fields.join(","));
        }
        match options.old {
            Some(OldRecord::None) => request = request.query("old", "none"),
            Some(OldRecord::Full) => request = request.query("old", "full"),
            None => {}
        }
        self.stream_after(request, options.last_event_id.as_deref()).await
    }

    /// Watches the state of sync.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn watch_status(&self) -> Result<EventStream, LocalError> {
        self.stream(Request::new(Method::GET, "/v1/status/stream")).await
    }

    /// Opens a stream by a request of any kind.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn stream(&self, request: Request) -> Result<EventStream, LocalError> {
        self.stream_after(request, None).await
    }

    async fn stream_after(
        &self,
        request: Request,
        last_id: Option<&str>,
    ) -> Result<EventStream, LocalError> {
        let request = match last_id {
            Some(id) if !id.is_empty() => request.header(LAST_EVENT_ID, id),
            _ => request,
        };
        let open = async {
            let (head, body) = self.send(request, EVENT_STREAM).await?.into_parts();
            if !head.status.is_success() {
                Reply::read(head, body).await?.successful()?;
                return Err(LocalError::Protocol("it is no stream".to_owned()));
            }
            let media_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            if media_type.is_none_or(|found| !found.starts_with(EVENT_STREAM)) {
                return Err(LocalError::Protocol("it is no stream".to_owned()));
            }
            Ok(body)
        };
        let body = tokio::time::timeout(self.timeouts.answer, open)
            .await
            .map_err(|_| LocalError::Timeout)??;
        let reader = Reader::resuming(last_id.unwrap_or_default());
        Ok(EventStream { body, reader, silence: self.timeouts.silence })
    }
}

impl EventStream {
    /// Waits for the next event; `None` when the stream has ended. It may be cancelled without
    /// losing an event, so it fits into a `select!`.
    ///
    /// # Errors
    /// [`LocalError::Timeout`] when the stream fell silent, [`LocalError::Interrupted`] when the
    /// connection broke, [`LocalError::Protocol`] when it sent what no daemon sends.
    pub async fn next(&mut self) -> Result<Option<Event>, LocalError> {
        loop {
            loop {
                let item = self.reader.next_item();
                match item.map_err(|error| LocalError::Protocol(error.to_string()))? {
                    Some(Item::Event(event)) => return Ok(Some(event)),
                    Some(Item::Comment | Item::Retry(_)) => {}
                    None => break,
                }
            }
            let frame = tokio::time::timeout(self.silence, self.body.frame())
                .await
                .map_err(|_| LocalError::Timeout)?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| LocalError::Interrupted(innermost(&error)))?;
            if let Ok(data) = frame.into_data() {
                self.reader.feed(&data);
            }
        }
    }

    /// The id to go on after; empty when the stream has named none.
    #[must_use]
    pub fn last_event_id(&self) -> &str {
        self.reader.last_event_id()
    }

    /// How long the daemon asks to wait before the stream is opened again.
    #[must_use]
    pub fn retry(&self) -> Option<Duration> {
        self.reader.retry()
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream")
            .field("last_event_id", &self.last_event_id())
            .finish_non_exhaustive()
    }
}
