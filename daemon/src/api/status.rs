//! Status, its stream, health and ping.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use tidings_wire::local::{Closed, ClosedReason, PingAnswer, Retry, StatusAnswer};
use tidings_wire::sse::{Frame, PING};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Api;
use super::error::ApiError;
use super::gate::Caller;
use super::params::Params;
use super::stream::{Step, respond};

/// `GET /v1/ping`: whether anybody is there. No token.
pub async fn ping() -> Json<PingAnswer> {
    Json(presence(true))
}

/// `GET /v1/health`: whether the store takes writes. No token.
pub async fn health(State(api): State<Api>) -> Response {
    let ok = api.gate().is_healthy();
    let status = if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(presence(ok))).into_response()
}

fn presence(ok: bool) -> PingAnswer {
    PingAnswer { ok, version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id() }
}

/// `GET /v1/status`.
pub async fn show(
    State(api): State<Api>,
    _: Caller,
    params: Params,
) -> Result<Json<StatusAnswer>, ApiError> {
    params.finish()?;
    Ok(Json(api.status().snapshot()))
}

/// `GET /v1/status/stream`: the status now and whenever it is another.
pub async fn stream(
    State(api): State<Api>,
    _: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    params.finish()?;
    let beat = api.config().stream_heartbeat;
    let mut follower = api.status().follow();
    follower.mark_changed();
    Ok(respond(StatusStream {
        follower,
        beat,
        next_beat: Instant::now() + beat,
        last: None,
        stopping: api.stopping().clone(),
        ended: false,
    }))
}

/// Least time between two events: a busy import changes the status with every transaction.
const PACE: Duration = Duration::from_millis(100);

struct StatusStream {
    follower: watch::Receiver<StatusAnswer>,
    beat: Duration,
    next_beat: Instant,
    /// When the last event went out.
    last: Option<Instant>,
    stopping: CancellationToken,
    ended: bool,
}

impl Step for StatusStream {
    async fn step(mut self) -> Option<(Bytes, Self)> {
        if self.ended {
            return None;
        }
        tokio::select! {
            () = self.stopping.cancelled() => Some((self.end(), self)),
            changed = self.follower.changed() => {
                if changed.is_err() {
                    return Some((self.end(), self));
                }
                // The first event after a pause goes out at once; what follows it too soon waits,
                // and then says how it is by that time.
                if let Some(last) = self.last {
                    tokio::time::sleep_until(last + PACE).await;
                }
                let status = self.follower.borrow_and_update().clone();
                let frame = Frame::new().json(Some("status"), None, &status).ok()?;
                self.last = Some(Instant::now());
                self.next_beat = Instant::now() + self.beat;
                Some((frame.finish().into(), self))
            }
            () = tokio::time::sleep_until(self.next_beat) => {
                self.next_beat = Instant::now() + self.beat;
                Some((Bytes::from_static(PING), self))
            }
        }
    }
}

impl StatusStream {
    fn end(&mut self) -> Bytes {
        self.ended = true;
        let closed = Closed {
            reason: ClosedReason::ServerShutdown,
            retry: Retry::Fresh,
            after_ms: Some(500),
        };
        let frame = Frame::new().json(Some("closed"), None, &closed);
        frame.map(|frame| frame.finish().into()).unwrap_or_default()
    }
}
