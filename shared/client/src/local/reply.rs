//! A whole answer of the daemon.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header::ETAG, response::Parts};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use tidings_wire::{
    ProblemBody,
    local::{LogPosition, POSITION_HEADER},
};

use super::{LocalError, error::innermost};

/// Largest answer that is read, in bytes: more than the largest page of the largest rows.
const ANSWER: usize = 320 << 20;

/// A successful answer with its body.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The HTTP status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as it came.
    pub body: Bytes,
}

impl Reply {
    /// Reads the body as JSON.
    ///
    /// # Errors
    /// [`LocalError::Protocol`] when it is something else.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, LocalError> {
        serde_json::from_slice(&self.body).map_err(|error| LocalError::Protocol(error.to_string()))
    }

    /// The app's position after the write, or that the read has seen.
    #[must_use]
    pub fn position(&self) -> Option<LogPosition> {
        self.headers.get(POSITION_HEADER)?.to_str().ok()?.parse().ok()
    }

    /// The version of the row, as `If-Match` takes it.
    #[must_use]
    pub fn etag(&self) -> Option<&str> {
        self.headers.get(ETAG)?.to_str().ok()
    }

    /// Reads an answer to its end, whatever its status.
    pub(super) async fn read(head: Parts, body: Incoming) -> Result<Self, LocalError> {
        let body = collect(body).await?;
        Ok(Self { status: head.status, headers: head.headers, body })
    }

    /// Turns what is no success into its error.
    pub(super) fn successful(self) -> Result<Self, LocalError> {
        if self.status.is_success() {
            return Ok(self);
        }
        let status = self.status.as_u16();
        match serde_json::from_slice(&self.body) {
            Ok(ProblemBody { error }) => {
                Err(LocalError::Problem { status, problem: Box::new(error) })
            }
            Err(_) => Err(LocalError::Protocol(format!("status {status} without a problem"))),
        }
    }
}

async fn collect(mut body: Incoming) -> Result<Bytes, LocalError> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| LocalError::Interrupted(innermost(&error)))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > ANSWER {
            return Err(LocalError::Protocol(format!("it is larger than {ANSWER} bytes")));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}
