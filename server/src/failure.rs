//! A call that does not do what was asked, as the one JSON envelope with its status.
//!
//! Handlers return `Result<_, Failure>`; nothing else writes an error response.

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::json;
use tidings_wire::{Code, Problem, ProblemBody};

use crate::store::{Refusal, StoreFault};

/// A refusal or a fault, boxed because the good path should not carry its size.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure(Box<Problem>);

/// What handlers return.
pub type Answer<T> = Result<T, Failure>;

impl Failure {
    /// A failure with a code and a message for people.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Problem::new(code, message)))
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds when to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after = Some(seconds);
        self
    }

    /// Adds facts for programs.
    #[must_use]
    pub fn details(mut self, details: serde_json::Value) -> Self {
        self.0.details = Some(details);
        self
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// A body that is larger than it may be.
    pub fn too_large(limit: usize) -> Self {
        Self::new(Code::TooLarge, format!("the body is larger than the limit of {limit} bytes"))
            .details(json!({ "limit": limit }))
    }

    /// A parameter, header or field with a value that it cannot have.
    pub fn invalid(field: &str, message: impl std::fmt::Display) -> Self {
        Self::new(Code::InvalidField, format!("{field}: {message}"))
            .details(json!({ "field": field }))
    }

    /// A fault on this side. The cause goes to the log, not to the caller.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(%cause, "request failed");
        Self::new(
            Code::Internal,
            "the server failed at this request; its log says why, by x-request-id",
        )
    }

    /// The envelope.
    pub fn body(&self) -> Vec<u8> {
        let body = ProblemBody { error: (*self.0).clone() };
        // A problem always has a JSON form: texts, numbers and a JSON value.
        serde_json::to_vec(&body).unwrap_or_default()
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = self.status();
        let mut response = Response::new(axum::body::Body::from(self.body()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.0.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<StoreFault> for Failure {
    fn from(fault: StoreFault) -> Self {
        match fault {
            StoreFault::Full => {
                Self::new(Code::StorageFull, "the server's disk is full; nothing was changed")
                    .hint("the operator has to make room; reading goes on")
                    .retry_after(60)
            }
            StoreFault::Unavailable(cause) => {
                tracing::error!(%cause, "the store does not answer");
                Self::new(
                    Code::StoreUnavailable,
                    "the server's store does not take this now; sending it again is safe",
                )
                .retry_after(5)
            }
            StoreFault::Busy => {
                Self::new(Code::StoreUnavailable, "the server's store is busy; nothing was changed")
                    .retry_after(1)
            }
            StoreFault::Damaged(cause) => {
                tracing::error!(%cause, "the store is damaged");
                Self::new(
                    Code::Internal,
                    "the server cannot read what it stored; its log says more",
                )
            }
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        use Refusal as R;
        match refusal {
            R::Fault(fault) => fault.into(),
            R::NoAccount => Self::new(Code::AccountNotFound, "there is no such account here"),
            R::AccountExists => Self::new(Code::AccountExists, "the account exists already")
                .hint("sign in to it, or link this computer to it"),
            R::InviteRequired => Self::new(
                Code::InviteRequired,
                "this server creates accounts for invited people only",
            )
            .hint("ask its operator for a code, then add --invite CODE"),
            R::InviteInvalid => Self::new(
                Code::InviteInvalid,
                "the invite code does not exist, was used or has expired",
            )
            .hint("ask the server's operator for a new one"),
            R::ChainMoved(head) => Self::new(
                Code::ChainMoved,
                "the account's devices have changed meanwhile; nothing was changed",
            )
            .hint("read the chain and try again")
            .details(json!({ "head": head })),
            R::ChainFull => Self::new(
                Code::QuotaExceeded,
                "the account's device chain is as long as this server lets it be",
            )
            .hint("ask the server's operator for more"),
            R::CutMoved => Self::new(
                Code::CutMoved,
                "the device has written more than the entry names; nothing was changed",
            )
            .hint("read its manifests and try again"),
            R::LaneFork => Self::new(
                Code::LaneFork,
                "another blob stands at this place of the lane; nothing was changed",
            ),
            R::LaneGap { have, sent } => Self::new(
                Code::LaneGap,
                format!(
                    "the lane ends at {have} and the push begins at {sent}; nothing was changed"
                ),
            )
            .details(json!({ "have": have, "sent": sent })),
            R::LaneBehind => Self::new(
                Code::LaneBehind,
                "the lane has gone on past these blobs; nothing was changed",
            ),
            R::ManifestBehind(have) => Self::new(
                Code::ManifestBehind,
                format!("the server holds manifest {have}; nothing was changed"),
            )
            .details(json!({ "have": have })),
            R::ManifestHeads => Self::new(
                Code::BadBlob,
                "the manifest does not name its lanes' heads as they are after this push",
            ),
            R::NotCompacted(_) => Self::new(Code::StoreUnavailable, refusal.to_string()),
            R::Quota(what) => Self::new(
                Code::QuotaExceeded,
                format!("the account's quota of {what} is used up; nothing was changed"),
            )
            .hint("compaction frees room; or ask the server's operator for more"),
        }
    }
}

/// The answer to a path that is not a route.
pub async fn no_route(uri: http::Uri) -> Failure {
    Failure::new(Code::RouteNotFound, format!("there is no {}", path_for_message(&uri)))
}

/// The answer to a method that a route does not have.
pub async fn no_method(method: http::Method, uri: http::Uri) -> Failure {
    let path = path_for_message(&uri);
    Failure::new(Code::MethodNotAllowed, format!("{path} does not take {method}"))
}

fn path_for_message(uri: &http::Uri) -> String {
    uri.path().chars().take(120).collect()
}
