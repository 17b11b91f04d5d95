//! A request as it came: what a script looks at, and what a server would know.

use std::collections::BTreeMap;
use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde::de::DeserializeOwned;
use tidings_proof::{Blob, SignedManifest};
use tidings_wire::AppId;
use tidings_wire::sync::PushRequest;

/// A request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// When it had come.
    pub at: SystemTime,
    /// The method.
    pub method: Method,
    /// The path without the query.
    pub path: String,
    /// The query, as it came.
    pub query: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Asked {
    /// Whether it goes to this path.
    pub fn is(&self, path: &str) -> bool {
        self.path == path
    }

    /// The parameters of the query.
    ///
    /// # Panics
    /// It is not a query.
    pub fn parameters(&self) -> BTreeMap<String, String> {
        let url = reqwest::Url::parse(&format!("http://evil/?{}", self.query)).expect("a query");
        url.query_pairs().into_owned().collect()
    }

    /// The app that it is about; none for calls about the account.
    pub fn app(&self) -> Option<AppId> {
        self.parameters().get("app_id").and_then(|app| app.parse().ok())
    }

    /// Whether it asks for what is new, rather than for a lane that misses something.
    pub fn is_plain_pull(&self) -> bool {
        self.is("/api/sync/pull") && !self.parameters().contains_key("tables")
    }

    /// Its body as JSON.
    ///
    /// # Panics
    /// It is not.
    pub fn json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    /// The push that it carries; none if it is none.
    pub fn push(&self) -> Option<PushRequest> {
        if !self.is("/api/sync/push") {
            return None;
        }
        minicbor::decode(&self.body).ok()
    }

    /// The manifest of the push that it carries.
    pub fn manifest(&self) -> Option<SignedManifest> {
        SignedManifest::decode(&self.push()?.manifest).ok()
    }

    /// The blobs of the push that it carries.
    pub fn blobs(&self) -> Vec<Vec<u8>> {
        let blobs = self.push().map(|push| push.blobs).unwrap_or_default();
        blobs.into_iter().map(Vec::from).filter(|blob| Blob::parse(blob).is_ok()).collect()
    }

    /// Everything of it as one text of bytes: line, headers, body.
    pub fn wire(&self) -> Vec<u8> {
        let mut wire = format!("{} {}?{}\n", self.method, self.path, self.query).into_bytes();
        for (name, value) in &self.headers {
            wire.extend_from_slice(name.as_str().as_bytes());
            wire.extend_from_slice(b": ");
            wire.extend_from_slice(value.as_bytes());
            wire.push(b'\n');
        }
        wire.extend_from_slice(&self.body);
        wire
    }
}
