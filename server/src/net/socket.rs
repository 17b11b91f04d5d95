//! A byte stream with a watch: it notes when bytes arrive and ends when it takes none.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What the connection's owner sees of its socket, and how it gets it back.
#[derive(Debug)]
pub(crate) struct Watch<S> {
    socket: Mutex<S>,
    /// Reads that brought bytes.
    reads: AtomicU64,
    /// The peer began with HTTP/2's preface.
    http2: AtomicBool,
    /// The last write did not get through: bytes wait for it.
    held: AtomicBool,
}

impl<S> Watch<S> {
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    pub(crate) fn is_http2(&self) -> bool {
        self.http2.load(Ordering::Relaxed)
    }

    /// Whether the socket has not taken all that it was given.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// The socket itself, once nobody else has it.
    pub(crate) fn into_socket(self: Arc<Self>) -> Option<S> {
        let watch = Arc::into_inner(self)?;
        Some(watch.socket.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, S> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream whose writes may not stall.
pub(crate) struct Watched<S> {
    watch: Arc<Watch<S>>,
    stall: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Watched<S> {
    pub(crate) fn new(socket: S, stall: Duration) -> (Self, Arc<Watch<S>>) {
        let watch = Arc::new(Watch {
            socket: Mutex::new(socket),
            reads: AtomicU64::new(0),
            http2: AtomicBool::new(false),
            held: AtomicBool::new(false),
        });
        (Self { watch: watch.clone(), stall, stalled: None }, watch)
    }

    /// Starts or checks the clock of a write that waits.
    fn wait<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.watch.held.store(poll.is_pending(), Ordering::Relaxed);
        if poll.is_ready() {
            self.stalled = None;
            return poll;
        }
        let stall = self.stall;
        let sleep = self.stalled.get_or_insert_with(|| Box::pin(sleep(stall)));
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes no bytes")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let poll = Pin::new(&mut *self.watch.lock()).poll_read(cx, buf);
        let new = buf.filled().get(before..).unwrap_or_default();
        if !new.is_empty() {
            let first = self.watch.reads.fetch_add(1, Ordering::Relaxed) == 0;
            if first && new.starts_with(b"PRI * HTTP/2") {
                self.watch.http2.store(true, Ordering::Relaxed);
            }
        }
        poll
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut *self.watch.lock()).poll_write(cx, bytes);
        self.wait(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut *self.watch.lock()).poll_write_vectored(cx, bufs);
        self.wait(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.watch.lock().is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut *self.watch.lock()).poll_flush(cx);
        self.wait(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut *self.watch.lock()).poll_shutdown(cx);
        self.wait(cx, poll)
    }
}
