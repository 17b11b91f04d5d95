//! Calls whose formats are fixed and whose behaviour a later version brings.

use axum::response::Response;
use tidings_wire::Code;

use crate::failure::{Answer, Failure};

/// `PUT /api/sync/parts/{hash}` and `POST /api/sync/compact`.
pub(super) async fn runs() -> Answer<Response> {
    Err(Failure::new(
        Code::NotYet,
        "this version of the server does not compact; nothing was changed",
    )
    .hint("a later version does"))
}
