//! Refusals on the socket: one envelope, the codes of `tidings_wire::problem`, and what each
//! error of the lower layers comes to.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tidings_tables::{FilterError, InputError, JsonError, JsonProblem, OpError, PatchError};
use tidings_tables::{QueryError, SortError};
pub use tidings_wire::Code;
use tidings_wire::{Problem, ProblemBody};

use crate::projection::ProjectionError;
use crate::replica::{Refusal, WriteError};
use crate::store::StoreError;

/// A refusal, ready to be answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError(Box<Problem>);

impl ApiError {
    /// A refusal with a message that is safe to show.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Problem::new(code, message)))
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self(Box::new(self.0.with_hint(hint)))
    }

    /// Adds facts for programs; of several objects the members join.
    #[must_use]
    pub fn details(self, details: serde_json::Value) -> Self {
        let details = match (self.0.details.clone(), details) {
            (Some(serde_json::Value::Object(mut known)), serde_json::Value::Object(more)) => {
                known.extend(more);
                serde_json::Value::Object(known)
            }
            (_, details) => details,
        };
        Self(Box::new(self.0.with_details(details)))
    }

    /// Adds how many seconds to wait.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        Self(Box::new(self.0.with_retry_after(seconds)))
    }

    /// The problem.
    pub fn problem(&self) -> &Problem {
        &self.0
    }

    /// The problem, to be put into a larger answer.
    pub fn into_problem(self) -> Problem {
        *self.0
    }

    /// A field that cannot have its value.
    pub fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidField, message).details(json!({ "field": field }))
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = self.0.retry_after;
        let mut response = (status, Json(ProblemBody { error: *self.0 })).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::StorageFull { .. } => {
                Self::new(Code::StorageFull, "the disk is full; nothing was changed")
                    .hint("free some space and try again")
                    .retry_after(5)
            }
            StoreError::Unknown { .. } => {
                tracing::error!(%error, "a write may or may not be stored");
                Self::new(
                    Code::StoreUnavailable,
                    "the disk failed while storing this: it may or may not be stored",
                )
                .hint("read the row before writing it again")
                .retry_after(5)
            }
            StoreError::Busy | StoreError::Closed | StoreError::Failed { .. } => {
                Self::new(Code::StoreUnavailable, "the store takes no writes now").retry_after(1)
            }
            _ => {
                // The text names files; it is for the log.
                tracing::error!(%error, "the store failed");
                Self::new(Code::StoreUnavailable, "the store could not be read")
                    .hint("`tidings doctor` says more")
            }
        }
    }
}

impl From<WriteError> for ApiError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused { index, refusal } => {
                Self::from(refusal).details(json!({ "op": index }))
            }
            WriteError::Store(error) => error.into(),
            WriteError::Fault(what) => {
                tracing::error!(%what, "a write failed");
                Self::new(Code::Internal, "a fault in the daemon; nothing was changed")
            }
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Operation(OpError::Exists) => {
                Self::new(Code::RowExists, "a row with this id exists")
            }
            Refusal::Operation(OpError::Missing) => Self::new(Code::RowNotFound, "no such row"),
            Refusal::Operation(OpError::Row(error)) => error.into(),
            Refusal::Condition { found } => {
                let details = found.map(|position| json!({ "position": position }));
                let error = Self::new(
                    Code::VersionMismatch,
                    if found.is_some() {
                        "the row has changed since the version that If-Match names"
                    } else {
                        "there is no such row for If-Match to compare with"
                    },
                );
                match details {
                    Some(details) => error.details(details),
                    None => error,
                }
            }
            Refusal::TooLarge | Refusal::TooManyTables => {
                Self::new(Code::TooLarge, refusal.to_string())
            }
            Refusal::Clock(error) => Self::new(Code::StoreUnavailable, error.to_string()),
        }
    }
}

impl From<InputError> for ApiError {
    fn from(error: InputError) -> Self {
        let code = match error {
            InputError::TooLarge(_) => Code::TooLarge,
            InputError::TooDeep(_) => Code::TooDeep,
            _ => Code::RowInvalid,
        };
        Self::new(code, error.to_string())
    }
}

impl From<PatchError> for ApiError {
    fn from(error: PatchError) -> Self {
        let message = error.to_string();
        match error {
            PatchError::UnknownOperator { operator, accepted } => {
                Self::new(Code::UnknownOperator, message)
                    .details(json!({ "operator": operator, "accepted": accepted }))
            }
            PatchError::NotYet(_) => Self::new(Code::NotYet, message),
            _ => Self::new(Code::InvalidField, message),
        }
    }
}

impl From<FilterError> for ApiError {
    fn from(error: FilterError) -> Self {
        let message = error.to_string();
        match error {
            FilterError::UnknownOperator { operator, path, accepted } => {
                Self::new(Code::FilterUnknownOperator, message)
                    .details(json!({ "operator": operator, "path": path, "accepted": accepted }))
            }
            FilterError::Invalid { path, .. } => {
                Self::new(Code::FilterInvalid, message).details(json!({ "path": path }))
            }
            FilterError::TooLarge => Self::new(Code::FilterInvalid, message),
        }
    }
}

impl From<ProjectionError> for ApiError {
    fn from(error: ProjectionError) -> Self {
        Self::invalid("projection", error.to_string())
    }
}

impl From<SortError> for ApiError {
    fn from(error: SortError) -> Self {
        Self::invalid("sort", error.to_string())
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        let message = error.to_string();
        match error {
            QueryError::Limit => Self::invalid("limit", message),
            QueryError::Offset => Self::new(Code::OffsetTooLarge, message),
            QueryError::After => Self::invalid("after", message),
        }
    }
}

impl ApiError {
    /// A JSON text that could not be read. `text` tells the line and column.
    pub fn json(error: &JsonError, text: &[u8]) -> Self {
        let code = match &error.problem {
            JsonProblem::TooDeep(_) => Code::TooDeep,
            problem if problem.is_value() => Code::RowInvalid,
            _ => Code::BadJson,
        };
        let before = text.get(..error.at).unwrap_or(text);
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
        Self::new(code, error.to_string())
            .details(json!({ "at": error.at, "line": line, "column": column }))
    }
}
