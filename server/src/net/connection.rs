//! One connection: HTTP/1.1 or HTTP/2 by hyper, with timeouts of our own.
//!
//! hyper's only clock for reading a head also runs while a kept-alive connection is idle, so the
//! two are told apart here: `idle` until the first byte of a request, `header` until its head is
//! there. Requests in progress, streams too, have no clock but that of their writes.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tidings_wire::limits;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::socket::{Watch, Watched};
use crate::config::Timeouts;
use crate::state::Peer;

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
    requests: AtomicUsize,
    idle: Notify,
}

impl Busy {
    fn begin(self: &Arc<Self>) -> InProgress {
        self.requests.fetch_add(1, Ordering::SeqCst);
        InProgress(self.clone())
    }

    fn count(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// A request in progress, until the last byte of its answer was handed on.
struct InProgress(Arc<Busy>);

impl Drop for InProgress {
    fn drop(&mut self) {
        if self.0.requests.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.idle.notify_one();
        }
    }
}

/// Serves a connection until it ends, idles too long, or the server stops.
pub(crate) async fn serve<S>(
    stream: S,
    peer: IpAddr,
    router: Router,
    timeouts: &Timeouts,
    stopping: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (stream, watch) = Watched::new(stream, timeouts.write_stall);
    let busy = Arc::new(Busy::default());
    let service = {
        let busy = busy.clone();
        service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let in_progress = busy.begin();
            let router = router.clone();
            async move {
                let mut request: Request = request.map(Body::new);
                request.extensions_mut().insert(Peer(peer));
                let response: Response = match router.oneshot(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                };
                Ok::<_, Infallible>(
                    response.map(|body| Tracked { body, _in_progress: in_progress }),
                )
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
    let mut watching = pin!(overdue(&watch, &busy, timeouts));
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%peer, %error, "connection ended");
                }
                return;
            }
            reason = watching.as_mut(), if !closing => {
                tracing::debug!(%peer, reason, "connection closed");
                // Nobody is owed an answer: there is no request.
                return;
            }
            () = stopping.cancelled(), if !closing => {
                closing = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
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
async fn overdue(watch: &Watch, busy: &Busy, timeouts: &Timeouts) -> &'static str {
    let (mut waiting, mut since, mut reads) = (Waiting::Head, Instant::now(), watch.reads());
    loop {
        if busy.count() > 0 {
            busy.idle.notified().await;
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
            () = busy.idle.notified() => {
                // A whole request came and went.
                (waiting, since, reads) = (Waiting::Idle, Instant::now(), watch.reads());
                continue;
            }
        }
        if busy.count() > 0 {
            continue;
        }
        if waiting == Waiting::Idle && !http2 && watch.reads() != reads {
            (waiting, since) = (Waiting::Head, Instant::now());
        } else if Instant::now() >= deadline {
            return if waiting == Waiting::Head { "no request head in time" } else { "idle" };
        }
    }
}

/// The body of an answer, which keeps its request in progress.
struct Tracked {
    body: Body,
    _in_progress: InProgress,
}

impl HttpBody for Tracked {
    type Data = bytes::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
