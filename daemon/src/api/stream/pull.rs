//! A response body that makes its next piece when the connection asks for it: no task, no queue,
//! and everything is dropped the moment the client is gone.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use http_body::Frame;

/// Something that makes a stream's bytes, piece by piece.
pub trait Step: Send + Sized + 'static {
    /// Waits for the next piece; none ends the stream.
    fn step(self) -> impl Future<Output = Option<(Bytes, Self)>> + Send;
}

/// Answers with a stream of events.
pub fn respond(session: impl Step) -> Response {
    let mut response = Body::new(Pull { next: Some(Box::pin(session.step())) }).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

type Next<S> = Pin<Box<dyn Future<Output = Option<(Bytes, S)>> + Send>>;

struct Pull<S> {
    next: Option<Next<S>>,
}

impl<S: Step> http_body::Body for Pull<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let Some(next) = &mut this.next else { return Poll::Ready(None) };
        match ready!(next.as_mut().poll(cx)) {
            Some((bytes, session)) => {
                this.next = Some(Box::pin(session.step()));
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            None => {
                this.next = None;
                Poll::Ready(None)
            }
        }
    }
}
