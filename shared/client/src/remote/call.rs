//! One call: what is sent, how long it may take, and how its answer is judged.

use std::time::Duration;

use reqwest::{
    Method, RequestBuilder, Response, Url,
    header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER},
};
use serde::{Serialize, de::DeserializeOwned};
use tidings_wire::{ProblemBody, limits, sync::MEDIA_TYPE};

use super::{ClientError, SyncClient, decode};

pub(super) const JSON: &str = "application/json";
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// A call being built.
pub(super) struct Call {
    request: RequestBuilder,
    timeout: Duration,
}

impl SyncClient {
    /// A call without credentials.
    pub(super) fn open_call(&self, method: Method, path: &str, query: &[(&str, &str)]) -> Call {
        let request = self.calls.request(method, self.address(path, query));
        Call { request, timeout: self.timeouts.answer }
    }

    /// A call in the name of the signed-in device.
    pub(super) fn call(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Call, ClientError> {
        let call = self.open_call(method, path, query);
        Ok(Call { request: call.request.header(AUTHORIZATION, self.bearer()?), ..call })
    }

    pub(super) fn address(&self, path: &str, query: &[(&str, &str)]) -> Url {
        let mut url = self.url.call(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    pub(super) fn bearer(&self) -> Result<HeaderValue, ClientError> {
        let token = self.token.as_deref().ok_or(ClientError::NoToken)?;
        // A token with bytes that fit into no header came from no server.
        let mut value =
            HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| ClientError::NoToken)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl Call {
    /// Allows another time for the whole of it.
    pub(super) fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Adds a JSON body.
    pub(super) fn json(self, body: &impl Serialize) -> Result<Self, ClientError> {
        let bytes = serde_json::to_vec(body)
            .map_err(|error| ClientError::Protocol(format!("request: {error}")))?;
        self.body(JSON, bytes, limits::JSON_REQUEST)
    }

    /// Adds a CBOR body.
    pub(super) fn cbor(
        self,
        body: &impl minicbor::Encode<()>,
        limit: usize,
    ) -> Result<Self, ClientError> {
        let bytes = minicbor::to_vec(body)
            .map_err(|error| ClientError::Protocol(format!("request: {error}")))?;
        self.body(MEDIA_TYPE, bytes, limit)
    }

    /// Adds a body of any media type.
    pub(super) fn body(
        self,
        media_type: &'static str,
        bytes: Vec<u8>,
        limit: usize,
    ) -> Result<Self, ClientError> {
        if bytes.len() > limit {
            return Err(ClientError::RequestTooLarge { size: bytes.len(), limit });
        }
        let request =
            self.request.header(CONTENT_TYPE, HeaderValue::from_static(media_type)).body(bytes);
        Ok(Self { request, ..self })
    }

    /// Sends it and reads a JSON answer of at most `limit` bytes.
    pub(super) async fn answer_json<T: DeserializeOwned>(
        self,
        limit: usize,
    ) -> Result<T, ClientError> {
        let response = self.send(JSON).await?;
        expect_media_type(&response, JSON)?;
        decode::json(&read_body(response, limit).await?)
    }

    /// Sends it and reads a CBOR answer of at most `limit` bytes.
    pub(super) async fn answer_cbor<T>(self, limit: usize) -> Result<T, ClientError>
    where
        T: for<'b> minicbor::Decode<'b, ()>,
    {
        let response = self.send(MEDIA_TYPE).await?;
        expect_media_type(&response, MEDIA_TYPE)?;
        decode::cbor(&read_body(response, limit).await?)
    }

    /// Sends it and takes any success that is not a page for people; its body is not read.
    pub(super) async fn answer_nothing(self) -> Result<(), ClientError> {
        let response = self.send(JSON).await?;
        if media_type(&response).is_some_and(|found| found.contains("html")) {
            return Err(not_tidings(&response));
        }
        Ok(())
    }

    async fn send(self, accept: &'static str) -> Result<Response, ClientError> {
        let request = self.request.header(reqwest::header::ACCEPT, accept).timeout(self.timeout);
        judge(request.send().await.map_err(|error| ClientError::from_send(&error))?).await
    }
}

/// Lets a success pass and turns everything else into its error.
pub(super) async fn judge(response: Response) -> Result<Response, ClientError> {
    let status = response.status();
    let encoded = response.headers().get(CONTENT_ENCODING).filter(|value| *value != "identity");
    if let Some(encoding) = encoded {
        // None was asked for; a hop that compresses also holds small writes of a stream back.
        return Err(ClientError::Protocol(format!("it came encoded as {encoding:?}")));
    }
    if status.is_success() {
        return Ok(response);
    }
    if status.is_redirection() || media_type(&response).as_deref() != Some(JSON) {
        return Err(not_tidings(&response));
    }
    let waits = retry_after(&response);
    let foreign = not_tidings(&response);
    let body = read_body(response, limits::JSON_RESPONSE).await?;
    let Ok(ProblemBody { error: mut problem }) = decode::json(&body) else {
        return Err(foreign);
    };
    // A person reads this in a terminal, and a hostile server wrote it.
    problem.message = clip(&problem.message);
    problem.hint = problem.hint.as_deref().map(clip);
    let retry_after = problem.retry_after.map(Duration::from_secs).or(waits);
    let status = status.as_u16();
    Err(ClientError::Problem { status, problem: Box::new(problem), retry_after })
}

/// Refuses a success of another media type, which some hop has made up.
pub(super) fn expect_media_type(response: &Response, wanted: &str) -> Result<(), ClientError> {
    if media_type(response).as_deref() == Some(wanted) {
        Ok(())
    } else {
        Err(not_tidings(response))
    }
}

fn media_type(response: &Response) -> Option<String> {
    let value = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next()?.trim().to_ascii_lowercase())
}

fn not_tidings(response: &Response) -> ClientError {
    let status = response.status();
    let found = if status.is_redirection() {
        let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        format!("a redirect to {}", clip(to.unwrap_or("nowhere")))
    } else {
        let found = media_type(response);
        clip(found.as_deref().unwrap_or("an answer without a media type"))
    };
    let retry_after = retry_after(response);
    ClientError::NotTidings { status: status.as_u16(), found, retry_after }
}

/// Characters of a stranger's text that are kept; no server of ours says more at once.
const CLIPPED: usize = 500;

/// What a stranger sent, short enough and plain enough for a line of a log or a terminal.
pub(super) fn clip(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(CLIPPED).collect()
}

/// Seconds only: the other form, a date, needs a clock that agrees with the server's.
fn retry_after(response: &Response) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

async fn read_body(mut response: Response, limit: usize) -> Result<Vec<u8>, ClientError> {
    let announced = response.content_length().and_then(|length| usize::try_from(length).ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(ClientError::TooLarge { limit });
    }
    let mut body: Vec<u8> = Vec::new();
    loop {
        let chunk = response.chunk().await.map_err(|error| ClientError::from_body(&error))?;
        let Some(chunk) = chunk else { return Ok(body) };
        let need = body.len() + chunk.len();
        if need > limit {
            return Err(ClientError::TooLarge { limit });
        }
        if need > body.capacity() {
            // Straight to the limit from half of it: old and new stay under twice the limit.
            let target = if need > limit / 2 { limit } else { need.max(body.capacity() * 2) };
            body.reserve_exact(target - body.len());
        }
        body.extend_from_slice(&chunk);
    }
}
