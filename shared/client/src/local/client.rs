//! The client itself, and requests that no method covers.

use std::{fmt, io, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Method,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper_util::{
    client::legacy::Client as HyperClient,
    rt::{TokioExecutor, TokioTimer},
};
use serde::Serialize;
use tidings_wire::local::CLIENT_HEADER;
use tokio_stream::{Stream, StreamExt};

use super::{LocalError, Reply, dial::Dial, path};

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// What is read of an answer at a time, in bytes: heads have to fit, bodies come in such pieces.
const READ_BUFFER: usize = 64 << 10;

/// A client of the daemon behind one socket. Cloning is cheap and shares the connections.
///
/// Nothing is repeated, and a call that was given up may have been done all the same.
#[derive(Clone)]
pub struct Client {
    socket: Arc<Path>,
    http: HyperClient<Dial, Body>,
    token: Option<HeaderValue>,
    name: Option<HeaderValue>,
    pub(super) timeouts: Timeouts,
}

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For the whole answer to a call, and for the head of a stream; uploads have no limit. 60 s.
    pub answer: Duration,
    /// Without a byte of a stream, before it counts as dead: 2.5 of the slowest heartbeats. 63 s.
    pub silence: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { answer: Duration::from_secs(60), silence: Duration::from_secs(63) }
    }
}

impl Client {
    /// A client of the daemon behind this socket. Nothing is sent yet.
    #[must_use]
    pub fn new(socket: impl AsRef<Path>) -> Self {
        let socket: Arc<Path> = Arc::from(socket.as_ref());
        let http = HyperClient::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            // Below the time after which the daemon closes an idle connection.
            .pool_idle_timeout(Duration::from_secs(20))
            .http1_max_buf_size(READ_BUFFER)
            .build(Dial(Arc::clone(&socket)));
        Self { socket, http, token: None, name: None, timeouts: Timeouts::default() }
    }

    /// The same client with a bearer token: the owner's, or an app's access token.
    ///
    /// # Errors
    /// [`LocalError::BadRequest`] when it does not fit into a header.
    pub fn with_token(&self, token: &str) -> Result<Self, LocalError> {
        let mut value = header(&format!("Bearer {token}"), "the token")?;
        value.set_sensitive(true);
        Ok(Self { token: Some(value), ..self.clone() })
    }

    /// The same client under a name, which the `origin` of its changes repeats.
    ///
    /// # Errors
    /// [`LocalError::BadRequest`] when it does not fit into a header.
    pub fn with_name(&self, name: &str) -> Result<Self, LocalError> {
        Ok(Self { name: Some(header(name, "the client's name")?), ..self.clone() })
    }

    /// The same client with other times.
    #[must_use]
    pub fn with_timeouts(&self, timeouts: Timeouts) -> Self {
        Self { timeouts, ..self.clone() }
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// [`LocalError`]; anything but a success is one.
    pub async fn request(&self, request: Request) -> Result<Reply, LocalError> {
        self.answer(request).await?.successful()
    }

    /// The same, whatever the answer's status.
    pub(super) async fn answer(&self, request: Request) -> Result<Reply, LocalError> {
        let limit = request.timeout.unwrap_or(Some(self.timeouts.answer));
        let whole = async {
            let (head, body) = self.send(request, "application/json").await?.into_parts();
            Reply::read(head, body).await
        };
        match limit {
            Some(limit) => {
                tokio::time::timeout(limit, whole).await.map_err(|_| LocalError::Timeout)?
            }
            None => whole.await,
        }
    }

    /// Sends a request; the answer's body is not read yet.
    pub(super) async fn send(
        &self,
        request: Request,
        accept: &'static str,
    ) -> Result<http::Response<Incoming>, LocalError> {
        let bad = |error: http::Error| LocalError::BadRequest(error.to_string());
        let mut built = http::Request::builder()
            .method(request.method)
            .uri(path::address(&request.path, &request.query))
            .header(ACCEPT, accept)
            .body(request.body.unwrap_or_else(|| full(Bytes::new())))
            .map_err(bad)?;
        let headers = built.headers_mut();
        for (name, value) in request.headers {
            headers.insert(name, header(&value, "a header")?);
        }
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        if let Some(name) = &self.name {
            headers.insert(HeaderName::from_static(CLIENT_HEADER), name.clone());
        }
        let sent = self.http.request(built).await;
        sent.map_err(|error| LocalError::from_send(&error, &self.socket))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// A request to the daemon.
pub struct Request {
    method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    headers: Vec<(HeaderName, String)>,
    body: Option<Body>,
    /// Of its own; `Some(None)` is no limit.
    timeout: Option<Option<Duration>>,
}

impl Request {
    /// A request without a body. The path begins with a slash and is encoded already.
    #[must_use]
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        let path = path.into();
        Self { method, path, query: Vec::new(), headers: Vec::new(), body: None, timeout: None }
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn query(mut self, name: &'static str, value: impl ToString) -> Self {
        self.query.push((name, value.to_string()));
        self
    }

    /// Adds a header, or replaces it.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    /// Allows another time for the whole answer; `None` is no limit.
    #[must_use]
    pub fn within(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Adds a body of any media type.
    #[must_use]
    pub fn body(mut self, media_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        self.body = Some(full(bytes.into()));
        self.header(CONTENT_TYPE, media_type)
    }

    /// Adds a value as its JSON body.
    ///
    /// # Errors
    /// [`LocalError::BadRequest`] when it has no JSON form.
    pub fn json(self, value: &impl Serialize) -> Result<Self, LocalError> {
        let bytes =
            serde_json::to_vec(value).map_err(|error| LocalError::BadRequest(error.to_string()))?;
        Ok(self.body("application/json", bytes))
    }

    /// Adds a body that is sent as it comes, and lifts the time limit.
    #[must_use]
    pub fn upload(
        mut self,
        media_type: &'static str,
        pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Self {
        let frames = pieces.map(|piece| piece.map(Frame::data));
        self.body = Some(StreamBody::new(frames).boxed_unsync());
        self.header(CONTENT_TYPE, media_type).within(None)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({} {})", self.method, self.path)
    }
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn header(value: &str, what: &str) -> Result<HeaderValue, LocalError> {
    HeaderValue::try_from(value)
        .map_err(|_| LocalError::BadRequest(format!("{what} has characters that no header takes")))
}
