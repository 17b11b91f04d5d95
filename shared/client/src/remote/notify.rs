//! The server's nudges: a stream that says "something changed" and never what.

use std::{collections::VecDeque, fmt, time::Duration};

use reqwest::{
    Response,
    header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL},
};
use serde::Deserialize;
use tidings_wire::{
    AppId,
    sse::{Event, Item, Reader},
    sync::{ACCOUNT_CHANNEL, SubscribeQuery},
};

use super::{ClientError, SyncClient, call};

/// Longest line and largest event of this stream, in bytes; real ones have a few dozen.
const FRAME: usize = 64 << 10;

/// What a nudge is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// The log of an app.
    App(AppId),
    /// The account itself: its chain, its key ring, or a new app.
    Account,
}

impl Channel {
    fn parse(text: &str) -> Option<Self> {
        if text == ACCOUNT_CHANNEL {
            return Some(Self::Account);
        }
        text.parse().ok().map(Self::App)
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::App(app) => app.fmt(f),
            Self::Account => f.write_str(ACCOUNT_CHANNEL),
        }
    }
}

/// What a stream said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Another device pushed: pull.
    Changed {
        /// What changed.
        channel: Channel,
    },
    /// Bytes came that say nothing else: a keep-alive, or half a frame. The peer lives.
    Alive,
    /// Wait this long before dialling again once the stream ends; bounded by
    /// [`RETRY_MAX`](tidings_wire::sse::RETRY_MAX).
    Retry(Duration),
    /// The token is of no more use; the stream ends now.
    Reauth {
        /// Why.
        reason: ReauthReason,
    },
    /// The server stops; dial again after the delay.
    Closing {
        /// The delay that it asked for, if it did.
        retry: Option<Duration>,
    },
}

/// Why a stream wants another token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReauthReason {
    /// The token's time is over.
    TokenExpired,
    /// The server says that this device was taken out of the account. Only the device chain
    /// proves it.
    DeviceRevoked,
    /// A reason that this version does not know.
    Other(String),
}

/// Why a stream is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEnd {
    /// The server ended it.
    Closed,
    /// No byte came for too long.
    Silent,
    /// The connection broke.
    Broken(String),
    /// It sent what no server sends.
    Damaged(String),
}

/// An open stream of nudges. It does not reconnect: when it has ended, subscribe again and pull.
///
/// Both ways of reading it may be cancelled without losing anything, so they fit into a `select!`.
pub struct NotifyStream {
    response: Response,
    reader: Reader,
    channel: Option<Channel>,
    silence: Duration,
    waiting: VecDeque<Notice>,
    ended: Option<StreamEnd>,
}

impl SyncClient {
    /// Opens a stream of nudges for one app, for the account, or with `*` for all of it.
    ///
    /// # Errors
    /// [`ClientError`]; `stream.limit` when the account has too many open.
    pub async fn subscribe(&self, query: &SubscribeQuery) -> Result<NotifyStream, ClientError> {
        let incarnation = query.incarnation.map(|incarnation| incarnation.to_string());
        let mut pairs = vec![("app_id", query.app_id.as_str())];
        pairs.extend(incarnation.as_deref().map(|text| ("incarnation", text)));
        let request = self
            .streams
            .get(self.address("/api/sync/subscribe", &pairs))
            .header(AUTHORIZATION, self.bearer()?)
            .header(ACCEPT, call::EVENT_STREAM)
            .header(CACHE_CONTROL, "no-store");
        // A timeout of the request would also end the stream itself.
        let open = async {
            let response = request.send().await.map_err(|error| ClientError::from_send(&error))?;
            call::judge(response).await
        };
        let response = tokio::time::timeout(self.timeouts.answer, open)
            .await
            .map_err(|_| ClientError::Timeout)??;
        call::expect_media_type(&response, call::EVENT_STREAM)?;
        Ok(NotifyStream {
            response,
            reader: Reader::with_limits(FRAME, FRAME),
            channel: Channel::parse(&query.app_id),
            silence: self.timeouts.silence,
            waiting: VecDeque::new(),
            ended: None,
        })
    }
}

impl NotifyStream {
    /// Waits for the next change; `None` when the stream has ended. Keep-alives are passed over.
    pub async fn next_change(&mut self) -> Option<()> {
        loop {
            if let Notice::Changed { .. } = self.next().await? {
                return Some(());
            }
        }
    }

    /// Waits for the next notice of any kind; `None` when the stream has ended, by itself or
    /// because no byte came for the time of silence.
    pub async fn next(&mut self) -> Option<Notice> {
        loop {
            if let Some(notice) = self.waiting.pop_front() {
                return Some(notice);
            }
            if self.ended.is_some() {
                return None;
            }
            match tokio::time::timeout(self.silence, self.response.chunk()).await {
                Ok(Ok(Some(bytes))) => self.take(&bytes),
                Ok(Ok(None)) => self.ended = Some(StreamEnd::Closed),
                Ok(Err(error)) => {
                    self.ended = Some(StreamEnd::Broken(super::error::innermost(&error)));
                }
                Err(_) => self.ended = Some(StreamEnd::Silent),
            }
        }
    }

    /// Why the stream ended, once it has.
    #[must_use]
    pub fn end(&self) -> Option<&StreamEnd> {
        self.ended.as_ref()
    }

    /// The reconnection delay that the server asked for last.
    #[must_use]
    pub fn retry(&self) -> Option<Duration> {
        self.reader.retry()
    }

    fn take(&mut self, bytes: &[u8]) {
        self.reader.feed(bytes);
        loop {
            match self.reader.next_item() {
                Ok(Some(item)) => self.item(item),
                Ok(None) => break,
                Err(error) => {
                    self.ended = Some(StreamEnd::Damaged(error.to_string()));
                    break;
                }
            }
        }
        if self.waiting.is_empty() && !bytes.is_empty() {
            self.waiting.push_back(Notice::Alive);
        }
    }

    fn item(&mut self, item: Item) {
        let notice = match item {
            Item::Comment => return,
            Item::Retry(delay) => Notice::Retry(delay),
            Item::Event(event) => match self.event(&event) {
                Some(notice) => notice,
                None => return,
            },
        };
        self.waiting.push_back(notice);
    }

    fn event(&self, event: &Event) -> Option<Notice> {
        match event.name.as_str() {
            "changed" => {
                let channel = self.channel.clone().or_else(|| Channel::parse(&event.data));
                channel.map(|channel| Notice::Changed { channel })
            }
            "reauth" => {
                let reason = serde_json::from_str(&event.data).map(|Reason { reason }| reason);
                Some(Notice::Reauth { reason: reauth_reason(reason.unwrap_or_default()) })
            }
            "closing" => Some(Notice::Closing { retry: self.reader.retry() }),
            _ => None,
        }
    }
}

impl fmt::Debug for NotifyStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotifyStream").field("ended", &self.ended).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Reason {
    reason: String,
}

fn reauth_reason(text: String) -> ReauthReason {
    match text.as_str() {
        "token_expired" => ReauthReason::TokenExpired,
        "device_revoked" => ReauthReason::DeviceRevoked,
        _ => ReauthReason::Other(text),
    }
}
