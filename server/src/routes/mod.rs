//! Every route of the server on one screen; one file per family of calls.

mod accounts;
mod apps;
mod chain;
mod health;
mod manifests;
mod not_yet;
mod pair;
mod pull;
mod push;
mod sign_in;
mod status;
mod subscribe;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post, put};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use serde::Serialize;
use tidings_wire::sync::MEDIA_TYPE;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::failure::{self, Answer, Failure};
use crate::state::{Peer, Shared};

/// The routes.
pub fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/api/accounts", post(accounts::create))
        .route("/api/accounts/self", delete(accounts::remove))
        .route("/api/auth/challenge", post(sign_in::challenge))
        .route("/api/auth/token", post(sign_in::token))
        .route("/api/chain", get(chain::read).post(chain::append))
        .route("/api/keyring", get(chain::keyring))
        .route("/api/pair", post(pair::open))
        .route("/api/pair/{nameplate}/{side}", get(pair::read).put(pair::write))
        .route("/api/sync/apps", get(apps::list))
        .route("/api/sync/push", post(push::push))
        .route("/api/sync/pull", get(pull::pull))
        .route("/api/sync/headers", get(manifests::headers))
        .route("/api/sync/manifests", get(manifests::list).post(manifests::put_back))
        .route("/api/sync/parts/{hash}", put(not_yet::runs))
        .route("/api/sync/compact", post(not_yet::runs))
        .route("/api/sync/subscribe", get(subscribe::subscribe))
        .route("/api/sync/status", get(status::status))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .fallback(failure::no_route)
        .method_not_allowed_fallback(failure::no_method)
        .layer(from_fn_with_state(shared.clone(), limit))
        .with_state(shared)
}

/// Counts every request against its address's rate (health checks are free), gives it an id that
/// log and answer share, and logs how it ended. The query is never logged.
async fn limit(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let id = shared.next_request_id();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let health = matches!(path.as_str(), "/healthz" | "/readyz");
    let peer = request.extensions().get::<Peer>().copied();
    let client = shared.client(peer, request.headers());
    let begun = Instant::now();
    let span = tracing::info_span!("request", %id, %method, path);
    let mut response = if !health && let Err(failure) = shared.rates.request(client) {
        failure.into_response()
    } else {
        next.run(request).instrument(span.clone()).await
    };
    let (status, elapsed) = (response.status().as_u16(), begun.elapsed());
    span.in_scope(|| tracing::debug!(status, ?elapsed, "answered"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Under which name an answer carries the id of its request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Takes a request apart: what handlers look at, and the body that they may read.
pub(crate) struct Call {
    pub(crate) uri: http::Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) client: std::net::IpAddr,
    body: axum::body::Body,
}

impl Call {
    pub(crate) fn new(shared: &Shared, request: Request) -> Self {
        let (parts, body) = request.into_parts();
        let peer = parts.extensions.get::<Peer>().copied();
        let client = shared.client(peer, &parts.headers);
        Self { uri: parts.uri, headers: parts.headers, client, body }
    }

    /// Reads the whole body as JSON.
    pub(crate) async fn json<T: serde::de::DeserializeOwned>(self, shared: &Shared) -> Answer<T> {
        crate::body::expect_type(&self.headers, "application/json")?;
        let limit = shared.config.limits.json_request;
        let received = self.read(shared, limit).await?;
        crate::body::json(&received.bytes)
    }

    /// Reads the whole body as CBOR bytes.
    pub(crate) async fn cbor(self, shared: &Shared, limit: usize) -> Answer<crate::body::Received> {
        crate::body::expect_type(&self.headers, MEDIA_TYPE)?;
        self.read(shared, limit).await
    }

    async fn read(self, shared: &Shared, limit: usize) -> Answer<crate::body::Received> {
        let timeouts = &shared.config.timeouts;
        crate::body::read(&self.headers, self.body, limit, timeouts, &shared.room).await
    }
}

/// Answers JSON.
pub(crate) fn json(value: &impl Serialize) -> Answer<Response> {
    let bytes = serde_json::to_vec(value).map_err(Failure::internal)?;
    Ok(answer("application/json", bytes))
}

/// Answers CBOR.
pub(crate) fn cbor(value: &impl minicbor::Encode<()>) -> Answer<Response> {
    let bytes = minicbor::to_vec(value).map_err(Failure::internal)?;
    Ok(answer(MEDIA_TYPE, bytes))
}

fn answer(media_type: &'static str, bytes: Vec<u8>) -> Response {
    let mut response = Response::new(axum::body::Body::new(Chunks(bytes.into())));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Bytes of an answer that are handed on at a time. HTTP/2 takes a frame whole, however little the
/// reader lets through, so that a large one would leave our sight.
const CHUNK: usize = 64 << 10;

/// An answer in memory, handed on piece by piece.
struct Chunks(Bytes);

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let size = self.0.len().min(CHUNK);
        let chunk = self.0.split_to(size);
        Poll::Ready((size > 0).then(|| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}
