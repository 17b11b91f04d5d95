//! `GET /api/sync/apps`: the apps of the account with their heads.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use tidings_wire::sync::AppsResponse;

use super::{Call, json};
use crate::failure::Answer;
use crate::state::Shared;

/// Lists the apps.
pub(super) async fn list(State(shared): State<Arc<Shared>>, request: Request) -> Answer<Response> {
    let call = Call::new(&shared, request);
    let caller = shared.caller(&call.headers).await?;
    let apps = shared.store.apps(caller.account).await?;
    let generation = shared.store.timeline().generation;
    json(&AppsResponse { generation, apps, chain: caller.chain.head() })
}
