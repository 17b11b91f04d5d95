//! Request bodies, queries and media types: read within limits, refused with the one envelope.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use http::{HeaderMap, Uri};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use serde_json::json;
use tidings_wire::Code;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Duration, Instant, timeout, timeout_at};

use crate::config::Timeouts;
use crate::failure::{Answer, Failure};

/// A body in memory, with the room that it takes.
#[derive(Debug)]
pub struct Received {
    /// The bytes.
    pub bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

/// Bytes of a refused body that are read and dropped, so that the sender gets to see the answer.
const DRAIN_BYTES: usize = 32 << 20;
/// How long that may take.
const DRAIN: Duration = Duration::from_secs(2);

/// Reads a body of at most `limit` bytes.
///
/// A length that is too large is refused before anything is read, a body without a length as soon
/// as it is too large; memory grows with what has arrived, not with what was announced.
///
/// # Errors
/// 413, 408 when it pauses or takes too long, 400 when it breaks off.
pub async fn read(
    headers: &HeaderMap,
    mut body: Body,
    limit: usize,
    timeouts: &Timeouts,
    room: &Arc<Semaphore>,
) -> Answer<Received> {
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        if !headers.contains_key(EXPECT) {
            drain(body).await;
        }
        return Err(Failure::too_large(limit));
    }
    let end = Instant::now() + timeouts.body;
    let mut taken: Option<OwnedSemaphorePermit> = None;
    let mut bytes = Vec::new();
    loop {
        let idle = (Instant::now() + timeouts.body_idle).min(end);
        let frame = match timeout_at(idle, body.frame()).await {
            Err(_) => {
                let message = "the body did not arrive in time; nothing was changed";
                return Err(Failure::new(Code::Timeout, message));
            }
            Ok(None) => break,
            Ok(Some(Err(error))) => {
                let message = format!("the body broke off: {error}; nothing was changed");
                return Err(Failure::new(Code::BadBody, message));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            drop(bytes);
            drain(body).await;
            return Err(Failure::too_large(limit));
        }
        // Room is taken as bytes arrive: who announces much and sends little holds none.
        let have = taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let need = (bytes.len() + data.len()).div_ceil(1 << 10).saturating_sub(have);
        if let Some(need) = u32::try_from(need).ok().filter(|need| *need > 0) {
            let more = timeout_at(idle, room.clone().acquire_many_owned(need)).await;
            let Ok(Ok(more)) = more else {
                let message = "the server has no room for this now; nothing was changed";
                return Err(Failure::new(Code::Unavailable, message).retry_after(5));
            };
            match taken.as_mut() {
                Some(taken) => taken.merge(more),
                None => taken = Some(more),
            }
        }
        let most = announced.and_then(|length| usize::try_from(length).ok());
        grow(&mut bytes, data.len(), most.unwrap_or(limit));
        bytes.extend_from_slice(&data);
    }
    Ok(Received { bytes: bytes.into(), _room: taken })
}

/// Makes room for `more`: by doubling while less than half of what can come is here, then for all
/// of it, so that old and new buffer together stay under twice the limit while bytes are moved.
fn grow(bytes: &mut Vec<u8>, more: usize, most: usize) {
    let need = bytes.len() + more;
    if need <= bytes.capacity() {
        return;
    }
    let half = most / 2;
    let target = if need > half { most } else { (bytes.capacity() * 2).min(half) };
    bytes.reserve_exact(target.max(need) - bytes.len());
}

/// Drops what still comes, within limits: a connection that is closed on unread bytes is reset,
/// and the sender might never read why.
async fn drain(mut body: Body) {
    let reading = async {
        let mut seen = 0;
        while let Some(Ok(frame)) = body.frame().await {
            seen += frame.data_ref().map_or(0, Bytes::len);
            if seen > DRAIN_BYTES {
                break;
            }
        }
    };
    let _ = timeout(DRAIN, reading).await;
}

/// Refuses a body of another media type. A missing one is taken for the right one.
///
/// # Errors
/// 415.
pub fn expect_type(headers: &HeaderMap, media_type: &str) -> Answer<()> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    if essence.trim().eq_ignore_ascii_case(media_type) {
        return Ok(());
    }
    let message = format!("this call takes {media_type}");
    Err(Failure::new(Code::UnsupportedMediaType, message))
}

/// Reads JSON.
///
/// # Errors
/// 400 with the place and the field.
pub fn json<T: DeserializeOwned>(bytes: &[u8]) -> Answer<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        let message = error.to_string();
        let code = if message.contains("recursion limit") {
            Code::TooDeep
        } else if error.is_data() {
            code_of(&message)
        } else {
            Code::BadJson
        };
        let place = json!({ "line": error.line(), "column": error.column() });
        Failure::new(code, message).details(place)
    })
}

/// Reads the query.
///
/// # Errors
/// 400 naming the parameter.
pub fn query<T: DeserializeOwned>(uri: &Uri) -> Answer<T> {
    let parsed = axum::extract::Query::<T>::try_from_uri(uri);
    parsed.map(|axum::extract::Query(query)| query).map_err(|rejection| {
        let message = rejection.body_text();
        let message =
            message.strip_prefix("Failed to deserialize query string: ").unwrap_or(&message);
        Failure::new(code_of(message), format!("query: {message}"))
    })
}

/// The code for what serde says about a field.
fn code_of(message: &str) -> Code {
    if message.contains("unknown field") {
        Code::UnknownField
    } else if message.contains("missing field") {
        Code::MissingField
    } else {
        Code::InvalidField
    }
}

#[cfg(test)]
mod tests {
    use tidings_wire::account::ChainQuery;
    use tidings_wire::auth::ChallengeRequest;

    use super::*;

    #[test]
    fn faults_of_json_and_queries_have_their_codes() {
        let code = |text: &str| json::<ChallengeRequest>(text.as_bytes()).unwrap_err().code();
        assert_eq!(code("{"), Code::BadJson);
        assert_eq!(code(&"[".repeat(200_000)), Code::InvalidField);
        assert_eq!(code("{}"), Code::MissingField);
        assert_eq!(code(r#"{"other":1}"#), Code::UnknownField);
        assert_eq!(code(r#"{"account_id":"x"}"#), Code::InvalidField);
        let code = |text: &str| {
            let uri: Uri = format!("/api/chain?{text}").parse().unwrap();
            query::<ChainQuery>(&uri).unwrap_err().code()
        };
        assert_eq!(code(""), Code::MissingField);
        assert_eq!(code("acount_id=1"), Code::UnknownField);
        let id = "00112233445566778899aabbccddeeff";
        assert_eq!(code(&format!("account_id={id}&from=x")), Code::InvalidField);
        assert_eq!(code(&format!("account_id={id}&account_id={id}")), Code::InvalidField);
    }
}
