//! One open stream: a cursor on the log, a wake-up when it grows, and a heartbeat.
//!
//! Nothing is judged before the connection asks for it, so what is sent follows the rules of that
//! moment, and a slow client costs no memory: it is further behind, and past a limit it is told
//! to read anew.

use std::time::Duration;

use axum::body::Bytes;
use tidings_wire::local::{
    Closed, ClosedReason, Connected, LogPosition, Resync, ResyncReason, Retry,
};
use tidings_wire::sse::{Frame, PING};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::judge::Judged;
use super::limit::Place;
use super::pull::Step;
use super::{Profile, Shown};
use crate::api::Api;
use crate::api::error::ApiError;
use crate::api::gate::Access;
use crate::replica::{Entry, Image, log, meta, query};
use crate::store::StoreError;

/// How long a client waits before it opens a broken stream again.
const RETRY: Duration = Duration::from_millis(1_000);
/// The same after the daemon stopped.
const RETRY_STOPPED: u64 = 500;
/// Entries and bytes read from the log at a time.
const PAGE_ENTRIES: usize = 128;
const PAGE_BYTES: usize = 512 << 10;

/// An open stream.
pub struct Session {
    access: Access,
    shown: Shown,
    head: watch::Receiver<LogPosition>,
    /// Everything up to here was judged.
    cursor: LogPosition,
    /// What is being caught up with.
    round: Option<Round>,
    /// A frame that waits to be told whether its transaction goes on.
    held: Option<Judged>,
    limits: Limits,
    /// What is sent first.
    opening: Option<Bytes>,
    beat: Duration,
    next_beat: Instant,
    stopping: CancellationToken,
    state: State,
    _place: Place,
}

#[derive(PartialEq, Eq)]
enum State {
    /// The app did not exist when the stream was opened.
    Unborn,
    Live,
    Ended,
}

/// Catching up to what was the head when it began.
struct Round {
    until: LogPosition,
    /// Whether it repeats what a client missed while it was away.
    resumed: bool,
    changes: usize,
    entries: usize,
}

#[derive(Clone, Copy)]
struct Limits {
    changes: usize,
    entries: usize,
}

/// A page of the log with what judging needs, or why there is none.
enum Page {
    Entries(Vec<(Entry, Option<Image>)>),
    Expired { oldest: Option<LogPosition>, floor: LogPosition },
    Unborn,
}

impl Session {
    /// Opens a stream that goes on after `last`, or from now on; `Some(None)` is an id that is
    /// none of this API.
    pub async fn open(
        api: &Api,
        access: Access,
        place: Place,
        shown: Shown,
        last: Option<Option<LogPosition>>,
    ) -> Result<Self, ApiError> {
        let head = access.head();
        let state = access.read(|source, app| {
            let record = meta::app(source, app)?;
            Ok((record, log::oldest(source, app)?))
        });
        let (record, oldest) = state.await?;
        let beat = match shown.profile {
            Profile::Stream => api.config().stream_heartbeat,
            Profile::Subscribe => api.config().subscribe_heartbeat,
        };
        let limits =
            Limits { changes: api.config().replay_changes, entries: api.config().replay_entries };
        let mut session = Self {
            access,
            shown,
            head,
            cursor: LogPosition(0),
            round: None,
            held: None,
            limits,
            opening: None,
            beat,
            next_beat: Instant::now() + beat,
            stopping: api.stopping().clone(),
            state: State::Live,
            _place: place,
        };
        let mut expired = None;
        let from = match (&record, last) {
            (None, _) => {
                session.state = State::Unborn;
                LogPosition(0)
            }
            (Some(record), None) => LogPosition(record.head),
            (Some(record), Some(Some(last))) if !record.is_expired(last) => {
                let (until, resumed) = (LogPosition(record.head), true);
                session.round = Some(Round { until, resumed, changes: 0, entries: 0 });
                last
            }
            (Some(record), Some(last)) => {
                // What remains is still repeated; of an id from elsewhere nothing is known.
                let from =
                    last.filter(|last| last.0 <= record.head).unwrap_or(LogPosition(record.head));
                let from = from.max(LogPosition(record.floor));
                let (until, resumed) = (LogPosition(record.head), true);
                session.round = Some(Round { until, resumed, changes: 0, entries: 0 });
                expired = Some(from);
                from
            }
        };
        session.cursor = from;
        session.opening = Some(session.first_frames(from, last.is_some(), expired, oldest)?);
        Ok(session)
    }

    fn first_frames(
        &self,
        from: LogPosition,
        resumed: bool,
        expired: Option<LogPosition>,
        oldest: Option<LogPosition>,
    ) -> Result<Bytes, ApiError> {
        let tables: Option<Vec<String>> = self
            .shown
            .tables
            .as_ref()
            .map(|tables| tables.iter().map(|table| table.as_str().to_owned()).collect());
        let (table, tables) = match tables {
            Some(mut tables) if tables.len() == 1 => (tables.pop(), None),
            tables => (None, tables),
        };
        let connected = Connected {
            app: self.access.app().clone(),
            table,
            tables,
            live: true,
            resumed: resumed && expired.is_none(),
            store: self.access.store_id(),
            expires_at: None,
        };
        let id = match self.state {
            // Not above where the app's positions will begin.
            State::Unborn => u64::try_from(self.access.now() / 1_000).unwrap_or(0) << 20,
            _ => from.0,
        };
        let id = id.to_string();
        // A client that named an id keeps it until something newer comes.
        let id = (!resumed).then_some(id.as_str());
        let mut frame = Frame::new().retry(RETRY).json(Some("connected"), id, &connected);
        if let Some(from) = expired {
            let id = from.to_string();
            frame = frame
                .and_then(|frame| frame.json(Some("resync"), Some(&id), &self.expired(oldest)));
        }
        frame.map(|frame| frame.finish().into()).map_err(unwritable)
    }

    fn expired(&self, oldest: Option<LogPosition>) -> Resync {
        let table = match &self.shown.tables {
            Some(tables) if tables.len() == 1 => tables.first(),
            _ => None,
        };
        Resync {
            reason: ResyncReason::BackfillExpired,
            table: table.map(|table| table.as_str().to_owned()),
            last_replayed: None,
            head: None,
            oldest,
        }
    }

    /// Judges the next page of the log; the frames may be empty.
    async fn advance(&mut self) -> Result<Frame, ApiError> {
        let head = *self.head.borrow_and_update();
        let round =
            self.round.get_or_insert(Round { until: head, resumed: false, changes: 0, entries: 0 });
        let until = round.until;
        let mut frame = Frame::new();
        let page = match self.read(until).await? {
            Page::Unborn => {
                self.round = None;
                return Ok(frame);
            }
            Page::Expired { oldest, floor } => {
                // The log was trimmed under a client that is too slow for it.
                self.round = None;
                self.held = None;
                self.cursor = floor;
                let id = floor.to_string();
                return frame
                    .json(Some("resync"), Some(&id), &self.expired(oldest))
                    .map_err(unwritable);
            }
            Page::Entries(entries) => entries,
        };
        self.state = State::Live;
        let done = page.is_empty();
        for (entry, now) in page {
            self.cursor = entry.position;
            let (tx, ends) = (entry.tx, entry.tx_last);
            let judged = self.shown.judge(entry, now);
            if let Some(round) = &mut self.round {
                round.entries += 1;
                round.changes += usize::from(judged.is_some());
            }
            if let Some(held) = self.held.take() {
                if judged.is_some() || held.tx != tx {
                    let last = held.tx != tx;
                    frame = held.write(self.shown.profile, last, frame).map_err(unwritable)?;
                } else {
                    self.held = Some(held);
                }
            }
            if let Some(judged) = judged {
                self.held = Some(judged);
            }
            if ends && let Some(held) = self.held.take() {
                frame = held.write(self.shown.profile, true, frame).map_err(unwritable)?;
            }
            if self.is_too_far_behind() {
                return self.truncate(frame);
            }
        }
        if done || self.cursor >= until {
            self.cursor = self.cursor.max(until);
            self.round = None;
        }
        Ok(frame)
    }

    fn is_too_far_behind(&self) -> bool {
        self.round.as_ref().is_some_and(|round| {
            let many = round.changes >= self.limits.changes
                || (round.resumed && round.entries >= self.limits.entries);
            many && self.cursor < round.until
        })
    }

    /// Skips to the end of the round and says so.
    fn truncate(&mut self, frame: Frame) -> Result<Frame, ApiError> {
        let Some(round) = self.round.take() else { return Ok(frame) };
        let mut frame = frame;
        if let Some(held) = self.held.take() {
            frame = held.write(self.shown.profile, false, frame).map_err(unwritable)?;
        }
        let resync = Resync {
            reason: ResyncReason::BackfillTruncated,
            table: self.expired(None).table,
            last_replayed: Some(self.cursor),
            head: Some(round.until),
            oldest: None,
        };
        self.cursor = round.until;
        let id = round.until.to_string();
        frame.json(Some("resync"), Some(&id), &resync).map_err(unwritable)
    }

    async fn read(&mut self, until: LogPosition) -> Result<Page, ApiError> {
        let (cursor, shown) = (self.cursor, self.shown.clone());
        let unborn = self.state == State::Unborn;
        let read = self.access.read(move |source, app| {
            let Some(record) = meta::app(source, app)? else { return Ok(Page::Unborn) };
            let floor = LogPosition(record.floor);
            let cursor = if unborn { floor } else { cursor };
            if !unborn && record.is_expired(cursor) {
                return Ok(Page::Expired { oldest: log::oldest(source, app)?, floor });
            }
            let entries = log::read(source, app, cursor, until, PAGE_ENTRIES, PAGE_BYTES)?;
            let judged = entries.into_iter().map(|entry| {
                let now = match shown.rereads(&entry) {
                    Some(row) => query::image(source, app, &entry.table, &row)?,
                    None => None,
                };
                Ok((entry, now))
            });
            judged.collect::<Result<_, StoreError>>().map(Page::Entries)
        });
        read.await
    }

    fn end(&mut self, reason: ClosedReason) -> Bytes {
        self.state = State::Ended;
        let closed = Closed { reason, retry: Retry::Resume, after_ms: Some(RETRY_STOPPED) };
        let frame = Frame::new().json(Some("closed"), None, &closed);
        frame.map(|frame| frame.finish().into()).unwrap_or_default()
    }
}

impl Step for Session {
    async fn step(mut self) -> Option<(Bytes, Self)> {
        if self.state == State::Ended {
            return None;
        }
        if let Some(opening) = self.opening.take() {
            return Some((opening, self));
        }
        loop {
            if self.stopping.is_cancelled() {
                return Some((self.end(ClosedReason::ServerShutdown), self));
            }
            let behind = self.round.is_some() || *self.head.borrow() > self.cursor;
            if behind {
                match self.advance().await {
                    Ok(frame) => {
                        let bytes = frame.finish();
                        if !bytes.is_empty() {
                            self.next_beat = Instant::now() + self.beat;
                            return Some((bytes.into(), self));
                        }
                    }
                    Err(error) => {
                        tracing::warn!(error = %error.problem(), "a stream cannot read the log");
                        return Some((self.end(ClosedReason::StoreClosed), self));
                    }
                }
                if Instant::now() < self.next_beat {
                    continue;
                }
            }
            tokio::select! {
                () = self.stopping.cancelled() => {}
                changed = self.head.changed(), if !behind => {
                    if changed.is_err() {
                        return Some((self.end(ClosedReason::StoreClosed), self));
                    }
                }
                () = tokio::time::sleep_until(self.next_beat) => {
                    self.next_beat = Instant::now() + self.beat;
                    return Some((Bytes::from_static(PING), self));
                }
            }
        }
    }
}

fn unwritable(error: tidings_wire::sse::FrameError) -> ApiError {
    tracing::error!(%error, "a frame could not be written");
    ApiError::new(crate::api::error::Code::Internal, "a frame could not be written")
}
