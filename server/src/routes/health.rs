//! For operators and their machines: is the process alive, and can it serve.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::json;
use tidings_wire::Code;

use super::json;
use crate::failure::{Answer, Failure};
use crate::state::Shared;

/// `GET /healthz`: the process answers.
pub(super) async fn alive() -> Answer<Response> {
    json(&json!({ "status": "ok" }))
}

/// `GET /readyz`: the store answers and the server is not stopping.
pub(super) async fn ready(State(shared): State<Arc<Shared>>) -> Answer<Response> {
    if shared.stopping.is_cancelled() {
        return Err(Failure::new(Code::Unavailable, "the server is stopping").retry_after(10));
    }
    shared.store.ready().await?;
    json(&json!({ "status": "ready" }))
}
