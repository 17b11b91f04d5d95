//! A stream as the body of an answer, where no socket can be had: the streams of an HTTP/2
//! connection share one.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use mio::{Registry, Token};

use super::Subscription;
use super::sink::{Sent, Sink, Wake};

/// A body; dropping it closes its stream.
pub struct Body {
    subscription: Subscription,
    pipe: Arc<Pipe>,
}

impl Body {
    /// A body, and the sink that feeds it and holds so many frames.
    pub(super) fn new(subscription: Subscription, capacity: usize) -> (Self, Feed) {
        let pipe = Arc::new(Pipe { capacity, state: Mutex::default() });
        (Self { subscription, pipe: pipe.clone() }, Feed(pipe))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (frame, room) = self.pipe.take(cx);
        if room {
            // Not under the pipe's lock: the hub takes its own first, then this one.
            self.subscription.resume();
        }
        frame.map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        let state = self.pipe.lock();
        state.ended && state.frames.is_empty()
    }
}

/// Frames on their way from the hub to a body.
struct Pipe {
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    frames: VecDeque<Bytes>,
    /// The hub waits for room.
    full: bool,
    ended: bool,
    waker: Option<Waker>,
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next frame, and whether the hub waited for the room that is there now.
    fn take(&self, cx: &mut Context<'_>) -> (Poll<Option<Bytes>>, bool) {
        let mut state = self.lock();
        let frame = match state.frames.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None if state.ended => Poll::Ready(None),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        };
        let room = state.full && state.frames.is_empty();
        state.full &= !room;
        (frame, room)
    }
}

impl State {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The hub's end of a pipe.
pub(super) struct Feed(Arc<Pipe>);

impl Sink for Feed {
    fn send(&mut self, frame: &Bytes) -> io::Result<Sent> {
        let mut state = self.0.lock();
        state.frames.push_back(frame.clone());
        state.full = state.frames.len() >= self.0.capacity;
        state.wake();
        Ok(if state.full { Sent::Held } else { Sent::Whole })
    }

    fn flush(&mut self) -> io::Result<Sent> {
        Ok(if self.0.lock().full { Sent::Held } else { Sent::Whole })
    }

    fn peer(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// A body says by itself when it has room and when it is gone.
    fn arm(&mut self, _: &Registry, _: Token, _: Wake) -> io::Result<()> {
        Ok(())
    }

    fn bye(&mut self, last: &Bytes) {
        let mut state = self.0.lock();
        // What ends is told at once; what else waits is found by the next pull.
        state.frames.clear();
        state.frames.push_back(last.clone());
        state.ended = true;
        state.wake();
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.ended = true;
        state.wake();
    }
}
