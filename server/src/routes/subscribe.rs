//! `GET /api/sync/subscribe`: a stream that says that something changed, and nothing else.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use tidings_wire::sync::{ACCOUNT_CHANNEL, SubscribeQuery};
use tidings_wire::{AppId, Code};

use super::Call;
use crate::body;
use crate::failure::{Answer, Failure};
use crate::hub::{self, Listener, Parking, Seat, SubscribeError};
use crate::state::{Caller, Shared};

/// Subscribes.
pub(super) async fn subscribe(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Answer<Response> {
    let seat = request.extensions().get::<Seat>().cloned();
    let call = Call::new(&shared, request);
    if !accepts(&call.headers) {
        let message = "this call answers text/event-stream, which Accept excludes";
        return Err(Failure::new(Code::NotAcceptable, message));
    }
    let caller = shared.caller(&call.headers).await?;
    let query: SubscribeQuery = body::query(&call.uri)?;
    let channel = match query.app_id.as_str() {
        known @ (hub::ALL | ACCOUNT_CHANNEL) => known.into(),
        app => {
            let app: AppId = app.parse().map_err(|error| Failure::invalid("app_id", error))?;
            app.as_str().into()
        }
    };
    let Caller { account, device, expires, .. } = caller;
    let incarnation = query.incarnation;
    let listener = Listener { account, device, incarnation, channel, expires };
    let subscription = shared.hub.subscribe(listener)?;
    // The device may have been revoked between the check and the subscription; from here on the
    // hub ends the stream, so this look cannot miss.
    shared.active(account, device).await?;
    let hello = hub::hello(shared.config.streams.retry);
    let body = match seat {
        Some(seat) => {
            seat.take(Parking { subscription, hello });
            Body::empty()
        }
        None => Body::new(subscription.into_body(&hello)),
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    // nginx would gather small writes otherwise.
    let buffering = HeaderName::from_static("x-accel-buffering");
    headers.insert(buffering, HeaderValue::from_static("no"));
    Ok(response)
}

impl From<SubscribeError> for Failure {
    fn from(error: SubscribeError) -> Self {
        let message = error.to_string();
        match error {
            SubscribeError::AppLimit(_) | SubscribeError::AccountLimit(_) => {
                Self::new(Code::StreamLimit, message)
                    .hint("close streams that nobody reads")
                    .retry_after(60)
            }
            SubscribeError::Closing => Self::new(Code::Unavailable, message).retry_after(5),
        }
    }
}

/// Whether `Accept` allows `text/event-stream` (RFC 9110, 12.5.1): the most specific range that
/// matches decides, and a quality of 0 excludes.
fn accepts(headers: &HeaderMap) -> bool {
    let mut best: Option<(u8, bool)> = None;
    let mut any = false;
    for value in headers.get_all(ACCEPT) {
        let Ok(value) = value.to_str() else { continue };
        for range in value.split(',').map(str::trim).filter(|range| !range.is_empty()) {
            any = true;
            let mut parts = range.split(';').map(str::trim);
            let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
            let rank = match essence.as_str() {
                "text/event-stream" => 2,
                "text/*" => 1,
                "*/*" => 0,
                _ => continue,
            };
            let quality = parts
                .filter_map(|part| part.split_once('='))
                .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
                .map_or(1.0, |(_, quality)| quality.trim().parse().unwrap_or(0.0));
            if best.is_none_or(|(known, _)| rank >= known) {
                best = Some((rank, quality > 0.0));
            }
        }
    }
    if any { best.is_some_and(|(_, allowed)| allowed) } else { true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_is_read_by_the_standard() {
        let accepts = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(ACCEPT, HeaderValue::from_str(value).unwrap());
            }
            accepts(&headers)
        };
        for right in [
            &[][..],
            &[""],
            &["text/event-stream"],
            &["TEXT/Event-Stream; charset=utf-8"],
            &["*/*"],
            &["text/*;q=0.1, application/json"],
            &["application/json", "text/event-stream"],
            &["*/*;q=0, text/event-stream"],
        ] {
            assert!(accepts(right), "{right:?}");
        }
        for wrong in [
            &["application/json"][..],
            &["text/html, application/xhtml+xml"],
            &["text/event-stream;q=0"],
            &["text/event-stream;q=0, */*"],
            &["*/*;q=0.000"],
            &["application/*"],
        ] {
            assert!(!accepts(wrong), "{wrong:?}");
        }
    }
}
