//! `GET /api/sync/status`: what the account keeps and how far its devices have pulled.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use tidings_wire::sync::StatusResponse;

use super::{Call, json};
use crate::failure::Answer;
use crate::state::Shared;

/// Answers usage and quota.
pub(super) async fn status(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Answer<Response> {
    let call = Call::new(&shared, request);
    let caller = shared.caller(&call.headers).await?;
    let usage = shared.store.usage(caller.account).await?;
    json(&StatusResponse {
        bytes: usage.account.bytes,
        blobs: usage.account.blobs,
        quota_bytes: shared.config.quota.bytes,
        tables: usage.tables,
        devices: usage.pulls,
    })
}
