//! Calls about the log: push, pull, headers, manifests, runs, apps and status.

use reqwest::Method;
use tidings_wire::{
    AppId, DeviceId, Hash, limits,
    sync::{
        AppsResponse, CompactRequest, HeadersResponse, Manifests, PullResponse, PushRequest,
        PushResponse, StatusResponse,
    },
};

use super::{ClientError, Lane, PullFilter, Replica, SyncClient};

/// Largest answer to a push or compact, in bytes.
const PUSH_ANSWER: usize = 64 << 10;

impl SyncClient {
    /// The account's apps and the head of each log.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn apps(&self) -> Result<AppsResponse, ClientError> {
        self.call(Method::GET, "/api/sync/apps", &[])?.answer_json(limits::JSON_RESPONSE).await
    }

    /// Appends blobs and the manifest that covers them, all or nothing. Sending the same again is
    /// answered as the first time.
    ///
    /// # Errors
    /// [`ClientError`]; `lane_fork`, `lane_gap`, `lane_behind`, `chain_moved`, `manifest_behind`
    /// when the log is not where the push says.
    pub async fn push(
        &self,
        app: &AppId,
        request: &PushRequest,
    ) -> Result<PushResponse, ClientError> {
        self.call(Method::POST, "/api/sync/push", &[("app_id", app.as_str())])?
            .cbor(request, limits::PUSH_REQUEST)?
            .within(self.timeouts.transfer)
            .answer_cbor(PUSH_ANSWER)
            .await
    }

    /// Reads the log after a cursor; without one from its start.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn pull(
        &self,
        replica: &Replica,
        cursor: Option<&[u8]>,
    ) -> Result<PullResponse, ClientError> {
        self.pull_filtered(replica, cursor, &PullFilter::default()).await
    }

    /// Reads what passes a filter of the log after a cursor. A cursor belongs to its filter.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn pull_filtered(
        &self,
        replica: &Replica,
        cursor: Option<&[u8]>,
        filter: &PullFilter,
    ) -> Result<PullResponse, ClientError> {
        let query = replica.query(cursor, filter);
        self.call(Method::GET, "/api/sync/pull", &borrow(&query))?
            .within(self.timeouts.transfer)
            .answer_cbor(limits::PULL_RESPONSE)
            .await
    }

    /// Reads the signed headers of a lane, without bodies.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn headers(&self, app: &AppId, lane: &Lane) -> Result<HeadersResponse, ClientError> {
        let query = [
            ("app_id", app.to_string()),
            ("device_id", lane.device.to_string()),
            ("incarnation", lane.incarnation.to_string()),
            ("tag", lane.table.to_string()),
            ("from", lane.from.to_string()),
        ];
        self.call(Method::GET, "/api/sync/headers", &borrow(&query))?
            .within(self.timeouts.transfer)
            .answer_cbor(limits::PULL_RESPONSE)
            .await
    }

    /// Reads the newest manifests of a device in all apps.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn manifests(&self, device: DeviceId) -> Result<Manifests, ClientError> {
        let device = device.to_string();
        self.call(Method::GET, "/api/sync/manifests", &[("device_id", &device)])?
            .within(self.timeouts.transfer)
            .answer_cbor(limits::PULL_RESPONSE)
            .await
    }

    /// Puts back manifests that are newer than the server's.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn post_manifests(&self, manifests: &Manifests) -> Result<(), ClientError> {
        self.call(Method::POST, "/api/sync/manifests", &[])?
            .cbor(manifests, limits::PUSH_REQUEST)?
            .within(self.timeouts.transfer)
            .answer_nothing()
            .await
    }

    /// Uploads a sealed part of a run; repeating it changes nothing.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn put_part(
        &self,
        app: &AppId,
        hash: Hash,
        part: Vec<u8>,
    ) -> Result<(), ClientError> {
        let path = format!("/api/sync/parts/{hash}");
        self.call(Method::PUT, &path, &[("app_id", app.as_str())])?
            .body("application/octet-stream", part, limits::BLOB)?
            .within(self.timeouts.transfer)
            .answer_nothing()
            .await
    }

    /// Swaps exactly the named entries of the log for a run whose parts were uploaded before.
    ///
    /// # Errors
    /// [`ClientError`]; `compact_stale` when the log holds something else by now.
    pub async fn compact(
        &self,
        app: &AppId,
        request: &CompactRequest,
    ) -> Result<PushResponse, ClientError> {
        self.call(Method::POST, "/api/sync/compact", &[("app_id", app.as_str())])?
            .cbor(request, limits::PUSH_REQUEST)?
            .within(self.timeouts.transfer)
            .answer_cbor(PUSH_ANSWER)
            .await
    }

    /// Usage, quota and how far each device has pulled.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn status(&self) -> Result<StatusResponse, ClientError> {
        self.call(Method::GET, "/api/sync/status", &[])?.answer_json(limits::JSON_RESPONSE).await
    }
}

fn borrow<'a>(query: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    query.iter().map(|(name, value)| (*name, value.as_str())).collect()
}
