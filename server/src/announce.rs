//! The order of effects: durable, then acknowledged, then announced.
//!
//! An [`Announcement`] is made once something is durable and publishes when it is dropped. It
//! rides in the body of the acknowledgement, which HTTP drops when the last byte has been handed
//! on; if the caller left before that, it publishes just the same.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::hub::Hub;
use crate::state::Shared;

/// What is done in the end.
type Publish = Box<dyn FnOnce(&Hub) + Send>;

/// Something to be published.
pub struct Announcement {
    hub: Arc<Hub>,
    publish: Option<Publish>,
}

impl Announcement {
    /// To be published when this is dropped.
    pub fn new(shared: &Shared, publish: impl FnOnce(&Hub) + Send + 'static) -> Self {
        Self { hub: shared.hub.clone(), publish: Some(Box::new(publish)) }
    }

    /// Lets the answer go first.
    pub fn after(self, response: Response) -> Response {
        hold(response, self)
    }
}

/// Keeps something until the answer's last byte was handed on, or its reader is gone.
pub fn hold(response: Response, kept: impl Send + Unpin + 'static) -> Response {
    response.map(|body| Body::new(Holding { body, _kept: kept }))
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if let Some(publish) = self.publish.take() {
            publish(&self.hub);
        }
    }
}

/// A body with something that goes with it.
struct Holding<T> {
    body: Body,
    _kept: T,
}

impl<T: Unpin> HttpBody for Holding<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
