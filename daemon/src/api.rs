//! The local API: HTTP/1.1 and Server-Sent Events on the daemon's Unix socket (docs/apps.md).
//!
//! [`socket`] listens, `guard` turns away whoever may not speak at all, [`gate`] decides about
//! everything else, and one file per group of routes does what was asked.

pub mod account;
mod batch;
mod body;
pub mod error;
pub mod gate;
mod guard;
mod import;
mod io;
mod names;
mod params;
mod query;
mod rows;
pub mod socket;
mod status;
mod stream;
mod tables;
mod unsent;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use tokio_util::sync::CancellationToken;

use self::error::{ApiError, Code};
use self::gate::{Gate, OwnerToken};
use self::stream::Streams;
use crate::config::Config;
use crate::replica::Replica;
use crate::status::Status;

/// What the routes share.
#[derive(Clone)]
pub struct Api {
    shared: Arc<Shared>,
}

struct Shared {
    gate: Gate,
    status: Status,
    config: Config,
    streams: Streams,
    stopping: CancellationToken,
}

impl Api {
    /// The API over a replica. Streams end in order when `stopping` is cancelled.
    pub fn new(
        replica: Replica,
        owner: OwnerToken,
        status: Status,
        config: Config,
        stopping: CancellationToken,
    ) -> Self {
        let streams = Streams::new(config.streams_per_app);
        let gate = Gate::new(replica, owner);
        Self { shared: Arc::new(Shared { gate, status, config, streams, stopping }) }
    }

    /// The gate that every route but ping and health passes.
    pub fn gate(&self) -> &Gate {
        &self.shared.gate
    }

    /// The daemon's status.
    pub fn status(&self) -> &Status {
        &self.shared.status
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Cancelled when the daemon stops: streams end then.
    pub fn stopping(&self) -> &CancellationToken {
        &self.shared.stopping
    }

    pub(crate) fn streams(&self) -> &Streams {
        &self.shared.streams
    }

    /// Every route on one screen. `more` are routes of other parts, which take their own state;
    /// the checks at the door cover them too.
    pub fn router(&self, more: Router) -> Router {
        let app = Router::new()
            .route("/", get(tables::app))
            .route("/tables", get(tables::list))
            .route("/tables/{table}", get(tables::show).put(tables::declare))
            .route("/tables/{table}/rows", get(query::by_params).post(rows::insert))
            .route(
                "/tables/{table}/rows/{row}",
                get(rows::show).put(rows::put).patch(rows::patch).delete(rows::delete),
            )
            .route("/tables/{table}/rows/{row}/stream", get(stream::row_stream))
            .route("/tables/{table}/rows/{row}/subscribe", get(stream::row_subscribe))
            .route("/tables/{table}/query", post(query::by_body))
            .route("/tables/{table}/import", post(import::import))
            .route("/tables/{table}/stream", get(stream::table_stream))
            .route("/tables/{table}/subscribe", get(stream::table_subscribe))
            .route("/stream", get(stream::app_stream))
            .route("/subscribe", get(stream::app_subscribe))
            .route("/unsent", get(unsent::list))
            .route("/batch", post(batch::batch));
        Router::new()
            .route("/v1/ping", get(status::ping))
            .route("/v1/health", get(status::health))
            .route("/v1/status", get(status::show))
            .route("/v1/status/stream", get(status::stream))
            .route("/v1/apps", get(tables::apps))
            .nest("/v1/apps/{app}", app)
            .with_state(self.clone())
            .merge(more)
            .fallback(not_found)
            .method_not_allowed_fallback(method_not_allowed)
            .layer(axum::middleware::from_fn(guard::check))
    }
}

async fn not_found() -> ApiError {
    ApiError::new(Code::RouteNotFound, "there is no such route")
}

async fn method_not_allowed() -> ApiError {
    ApiError::new(Code::MethodNotAllowed, "the route does not know this method")
}
