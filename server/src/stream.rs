//! The body of a stream of `changed`: frames from the hub, keep-alives, and an end.
//!
//! One timer and one subscription a stream; nothing is buffered here. A socket that takes no
//! bytes stops this body from being polled, and the connection's own watch closes it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame as BodyFrame};
use tidings_wire::sse::{CHANGED, Frame, KEEPALIVE};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::clock::Millis;
use crate::hub::{End, Selection, Signal, Subscription};

/// Times of a stream.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Between keep-alive comments.
    pub keepalive: Duration,
    /// The first `retry:` line.
    pub retry: Duration,
    /// The `retry:` line of a server that stops.
    pub closing_retry: Duration,
    /// End of the token, by the wall clock.
    pub expires: Millis,
}

/// A stream of `changed`.
pub struct Stream {
    subscription: Subscription,
    times: Times,
    keepalive_at: Instant,
    expires_at: Instant,
    timer: Pin<Box<Sleep>>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Hello,
    Open,
    Ended,
}

impl Stream {
    /// A stream that begins now.
    pub fn new(subscription: Subscription, times: Times) -> Self {
        let now = Instant::now();
        let keepalive_at = now + times.keepalive;
        let expires_at = now + Millis::now().until(times.expires);
        let timer = Box::pin(sleep_until(keepalive_at.min(expires_at)));
        Self { subscription, times, keepalive_at, expires_at, timer, state: State::Hello }
    }

    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self.state {
            State::Hello => {
                self.state = State::Open;
                // First bytes at once, so that proxies flush and the reader knows it is through.
                let hello = Frame::new().retry(self.times.retry).comment("connected").finish();
                return Poll::Ready(Some(hello.into()));
            }
            State::Ended => return Poll::Ready(None),
            State::Open => {}
        }
        if let Poll::Ready(signal) = self.subscription.poll_signal(cx) {
            return Poll::Ready(Some(match signal {
                Signal::Changed(channel) => self.changed(&channel),
                Signal::End(end) => {
                    self.state = State::Ended;
                    self.ending(end)
                }
            }));
        }
        while self.timer.as_mut().poll_ready(cx) {
            let now = Instant::now();
            if now >= self.expires_at {
                self.state = State::Ended;
                return Poll::Ready(Some(reauth("token_expired")));
            }
            let due = now >= self.keepalive_at;
            if due {
                self.keepalive_at = now + self.times.keepalive;
            }
            self.timer.as_mut().reset(self.keepalive_at.min(self.expires_at));
            if due {
                return Poll::Ready(Some(Bytes::from_static(KEEPALIVE)));
            }
        }
        Poll::Pending
    }

    /// What has changed: nothing is said where the stream has one channel, its name where it has
    /// all.
    fn changed(&self, channel: &str) -> Bytes {
        match self.subscription.selection() {
            Selection::One(_) => Bytes::from_static(CHANGED),
            Selection::All => event("changed", channel),
        }
    }

    fn ending(&self, end: End) -> Bytes {
        match end {
            End::Revoked => reauth("device_revoked"),
            // Signing in again is how the device learns what became of the account.
            End::AccountGone => reauth("token_expired"),
            End::Closing => {
                let frame = Frame::new().retry(self.times.closing_retry);
                frame.event(Some("closing"), None, "{}").map_or_else(|_| Bytes::new(), finish)
            }
        }
    }
}

trait PollReady {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> bool;
}

impl PollReady for Pin<&mut Sleep> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> bool {
        Future::poll(self.as_mut(), cx).is_ready()
    }
}

fn reauth(reason: &str) -> Bytes {
    event("reauth", &format!(r#"{{"reason":"{reason}"}}"#))
}

/// An event; names and data here never hold a line break.
fn event(name: &str, data: &str) -> Bytes {
    Frame::new().event(Some(name), None, data).map_or_else(|_| Bytes::new(), finish)
}

fn finish(frame: Frame) -> Bytes {
    frame.finish().into()
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Infallible>>> {
        self.next(cx).map(|bytes| bytes.map(|bytes| Ok(BodyFrame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.state == State::Ended
    }
}
