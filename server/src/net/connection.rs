//! One connection: HTTP/1.1 or HTTP/2 by hyper, with timeouts of our own.
//!
//! A stream over HTTP/1.1 is the last answer of its connection: hyper lets go of the socket, which
//! is then parked in the hub, and the connection's task ends.
//!
//! hyper's only clock for reading a head also runs while a kept-alive connection is idle, so the
//! two are told apart here: `idle` until the first byte of a request, `header` until its head is
//! there. Requests in progress, streams too, have no clock but that of their writes.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{Method, Version};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tidings_wire::limits;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::accept::Entered;
use super::parked::Park;
use super::socket::{Watch, Watched};
use crate::clock::Millis;
use crate::config::Timeouts;
use crate::hub::{Seat, Subscription};
use crate::state::Peer;

/// The media type of streams.
const EVENT_STREAM: &str = "text/event-stream";

/// Streams of one HTTP/2 connection at a time.
const HTTP2_STREAMS: u32 = 128;
/// Bytes that HTTP/2 buffers for writing per stream.
const HTTP2_SEND: usize = 64 << 10;
/// Bytes that HTTP/2 takes before they are asked for, per stream and per connection.
const HTTP2_WINDOW: u32 = 256 << 10;
const HTTP2_CONNECTION_WINDOW: u32 = 1 << 20;

/// Requests in progress on a connection.
#[derive(Debug, Default)]
struct Busy {
    /// From the head of a request to the last byte of its answer.
    requests: AtomicUsize,
    /// Answers that are being read, streams left out.
    answers: AtomicUsize,
    /// Pieces of answers that were handed on.
    pieces: AtomicU64,
    /// The last request ended, or an answer began.
    changed: Notify,
}

impl Busy {
    fn begin(self: &Arc<Self>) -> InProgress {
        self.requests.fetch_add(1, Ordering::SeqCst);
        InProgress { busy: self.clone(), answering: false }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    fn answers(&self) -> usize {
        self.answers.load(Ordering::SeqCst)
    }

    fn pieces(&self) -> u64 {
        self.pieces.load(Ordering::Relaxed)
    }
}

/// A request in progress.
struct InProgress {
    busy: Arc<Busy>,
    answering: bool,
}

impl InProgress {
    fn answer(&mut self) {
        self.answering = true;
        self.busy.answers.fetch_add(1, Ordering::SeqCst);
        self.busy.changed.notify_one();
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        if self.answering {
            self.busy.answers.fetch_sub(1, Ordering::SeqCst);
        }
        if self.busy.requests.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.busy.changed.notify_one();
        }
    }
}

/// A stream whose answer is ready to be sent.
struct Ticket {
    subscription: Subscription,
    /// The head of the answer, and the first bytes of the stream.
    first: Bytes,
}

/// Where a connection's service leaves the ticket for the connection's owner.
#[derive(Clone, Default)]
struct Desk(Arc<Mutex<Option<Ticket>>>);

impl Desk {
    fn put(&self, ticket: Ticket) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(ticket);
    }

    fn take(&self) -> Option<Ticket> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Serves a connection until it ends, idles too long, is parked, or the server stops.
pub(crate) async fn serve<S: Park>(
    stream: S,
    peer: IpAddr,
    router: Router,
    timeouts: &Timeouts,
    stopping: CancellationToken,
    entered: Entered,
) {
    let (stream, watch) = Watched::new(stream, timeouts.write_stall);
    let Some(ticket) = converse(stream, &watch, peer, router, timeouts, stopping).await else {
        return;
    };
    // hyper is gone, and what it had read behind the request with it.
    let Some(socket) = watch.into_socket() else { return };
    match socket.park(entered) {
        Ok(sink) => ticket.subscription.park(sink, &ticket.first),
        Err(error) => tracing::warn!(%peer, %error, "a stream cannot be parked"),
    }
}

/// Speaks HTTP until the connection ends, or a stream is all that is left of it.
async fn converse<S: Park>(
    stream: Watched<S>,
    watch: &Watch<S>,
    peer: IpAddr,
    router: Router,
    timeouts: &Timeouts,
    stopping: CancellationToken,
) -> Option<Ticket> {
    let (busy, desk) = (Arc::new(Busy::default()), Desk::default());
    let service = {
        let (busy, desk) = (busy.clone(), desk.clone());
        service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let mut in_progress = busy.begin();
            let (router, desk) = (router.clone(), desk.clone());
            async move {
                let mut request: Request = request.map(Body::new);
                request.extensions_mut().insert(Peer(peer));
                let seat = Seat::default();
                // The streams of HTTP/2 share a socket, and a HEAD has no stream.
                if request.version() <= Version::HTTP_11 && request.method() == Method::GET {
                    request.extensions_mut().insert(seat.clone());
                }
                let response: Response = match router.oneshot(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                };
                if let Some(parking) = seat.leave() {
                    let first = first_bytes(&response, &parking.hello);
                    desk.put(Ticket { subscription: parking.subscription, first });
                    // Dropped with the connection: hyper does not answer this.
                    return pending().await;
                }
                // A stream may be silent for long; its reader is looked after by its frames.
                if response.headers().get(CONTENT_TYPE).is_none_or(|kind| kind != EVENT_STREAM) {
                    in_progress.answer();
                }
                Ok::<_, Infallible>(response.map(|body| Tracked { body, in_progress }))
            }
        })
    };
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .half_close(false)
        .max_buf_size(limits::REQUEST_HEAD * 2)
        .max_headers(limits::REQUEST_HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(HTTP2_STREAMS)
        .max_header_list_size(u32::try_from(limits::REQUEST_HEAD).unwrap_or(u32::MAX))
        .max_send_buf_size(HTTP2_SEND)
        .initial_stream_window_size(HTTP2_WINDOW)
        .initial_connection_window_size(HTTP2_CONNECTION_WINDOW)
        .keep_alive_interval(timeouts.idle)
        .keep_alive_timeout(timeouts.write_stall);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut closing = false;
    let mut watching = pin!(overdue(watch, &busy, timeouts));
    loop {
        let speaking = poll_fn(|cx| match connection.as_mut().poll(cx) {
            Poll::Ready(ended) => Poll::Ready(Err(ended)),
            // Answers to what was asked before the stream go out whole first.
            Poll::Pending if watch.is_held() => Poll::Pending,
            Poll::Pending => desk.take().map_or(Poll::Pending, |ticket| Poll::Ready(Ok(ticket))),
        });
        tokio::select! {
            left = speaking => match left {
                Ok(ticket) => return Some(ticket),
                Err(ended) => {
                    if let Err(error) = ended {
                        tracing::debug!(%peer, %error, "connection ended");
                    }
                    return None;
                }
            },
            reason = watching.as_mut(), if !closing => {
                tracing::debug!(%peer, reason, "connection closed");
                // Nobody is owed an answer: there is no request.
                return None;
            }
            () = stopping.cancelled(), if !closing => {
                closing = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The head of an answer that ends with its connection (RFC 9112, 6.3), and what follows it.
fn first_bytes(response: &Response, hello: &[u8]) -> Bytes {
    let mut head = format!("HTTP/1.1 {}\r\n", response.status()).into_bytes();
    // The end of the connection is the end of the stream: the length of the empty body that stands
    // for it says nothing.
    for (name, value) in response.headers().iter().filter(|(name, _)| **name != CONTENT_LENGTH) {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    let rest = format!("date: {}\r\nconnection: close\r\n\r\n", Millis::now().http_date());
    [&head, rest.as_bytes(), hello].concat().into()
}

/// What a connection without a request in progress is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// The first byte of a head, since the last request ended.
    Idle,
    /// The rest of a head; a new connection owes its first one at once.
    Head,
}

/// Ends when the connection is idle for too long, or a head takes too long.
async fn overdue<S>(watch: &Watch<S>, busy: &Busy, timeouts: &Timeouts) -> &'static str {
    let (mut waiting, mut since, mut reads) = (Waiting::Head, Instant::now(), watch.reads());
    loop {
        if busy.requests() > 0 {
            if busy.answers() == 0 {
                busy.changed.notified().await;
            } else if stalled(busy, timeouts).await {
                return "an answer is not taken";
            }
            (waiting, since, reads) = (Waiting::Idle, Instant::now(), watch.reads());
            continue;
        }
        // HTTP/2 speaks between requests too, so that its bytes do not mean a head.
        let http2 = watch.is_http2();
        let limit =
            if waiting == Waiting::Head && !http2 { timeouts.header } else { timeouts.idle };
        let deadline = since + limit;
        // An idle connection is looked at often enough to notice that a head has begun.
        let look = deadline.min(Instant::now() + timeouts.header);
        tokio::select! {
            () = sleep_until(look) => {}
            () = busy.changed.notified() => {
                // A whole request came and went.
                (waiting, since, reads) = (Waiting::Idle, Instant::now(), watch.reads());
                continue;
            }
        }
        if busy.requests() > 0 {
            continue;
        }
        if waiting == Waiting::Idle && !http2 && watch.reads() != reads {
            (waiting, since) = (Waiting::Head, Instant::now());
        } else if Instant::now() >= deadline {
            return if waiting == Waiting::Head { "no request head in time" } else { "idle" };
        }
    }
}

/// Whether no piece of any answer is taken for the time that a write may stall. Over HTTP/2 the
/// socket may well move while its streams do not.
async fn stalled(busy: &Busy, timeouts: &Timeouts) -> bool {
    let before = busy.pieces();
    tokio::select! {
        () = sleep(timeouts.write_stall) => busy.answers() > 0 && busy.pieces() == before,
        () = busy.changed.notified() => false,
    }
}

/// The body of an answer, which keeps its request in progress.
struct Tracked {
    body: Body,
    in_progress: InProgress,
}

impl HttpBody for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_ready() {
            self.in_progress.busy.pieces.fetch_add(1, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
