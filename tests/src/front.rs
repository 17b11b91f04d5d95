//! A sync server that lies on demand: it stands in front of a real one, passes on what a test does
//! not script, and answers the rest itself.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidings_wire::sync::{MEDIA_TYPE, PullResponse};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;

type Body = UnsyncBoxBody<Bytes, std::io::Error>;
type Script = Arc<dyn Fn(&Parts) -> Act + Send + Sync>;

/// What to do with a request.
#[derive(Debug)]
pub enum Act {
    /// The real server answers.
    Pass,
    /// It answers, and what it gives is changed; for pulls only.
    Alter(Alter),
    /// This answers: a status and a body of some media type.
    Answer(u16, &'static str, Bytes),
    /// This answers: a status, a media type, a beginning, and then the same piece for ever; the
    /// length that it announces, if it does.
    Endless(u16, &'static str, &'static [u8], &'static [u8], Option<u64>),
    /// A stream of Server-Sent Events, fed by the test; it ends when the sender goes.
    Stream(mpsc::UnboundedReceiver<Bytes>),
    /// The real server answers, and the connection is cut after so many bytes of the body; one
    /// that is not longer comes whole, and is counted.
    Short(usize, Arc<AtomicUsize>),
    /// The connection is cut.
    Cut,
}

/// Changes an answer to a pull, and how fast it comes.
pub struct Alter {
    change: Box<dyn FnOnce(PullResponse) -> PullResponse + Send>,
    pieces: usize,
    pause: Duration,
}

impl Alter {
    /// By a function.
    pub fn by(change: impl FnOnce(PullResponse) -> PullResponse + Send + 'static) -> Act {
        Self::slowly(1, Duration::ZERO, change)
    }

    /// By a function, in so many pieces with a pause after each.
    pub fn slowly(
        pieces: usize,
        pause: Duration,
        change: impl FnOnce(PullResponse) -> PullResponse + Send + 'static,
    ) -> Act {
        Act::Alter(Self { change: Box::new(change), pieces, pause })
    }
}

impl std::fmt::Debug for Alter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alter").finish_non_exhaustive()
    }
}

/// One request that came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// When.
    pub at: Instant,
    /// `GET /path?query`.
    pub line: String,
}

/// The running front. Dropping it ends it.
#[derive(Debug)]
pub struct Front {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    upstream: SocketAddr,
    client: Client<HttpConnector, Incoming>,
    script: Mutex<Script>,
    seen: Mutex<Vec<Seen>>,
    /// Rises with each cut; a connection of an older life ends.
    life: watch::Sender<u64>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}

impl Front {
    /// Stands in front of a server and passes everything on.
    ///
    /// # Panics
    /// There is no free port.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            upstream,
            client: Client::builder(TokioExecutor::new()).build_http(),
            script: Mutex::new(Arc::new(|_| Act::Pass)),
            seen: Mutex::default(),
            life: watch::channel(0).0,
        });
        #[expect(clippy::disallowed_methods, reason = "the front owns this task and aborts it")]
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, task }
    }

    /// The URL that devices are told.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Says from now on what to do with each request.
    pub fn script(&self, script: impl Fn(&Parts) -> Act + Send + Sync + 'static) {
        *self.shared.script.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(script);
    }

    /// Cuts every connection; new ones are taken.
    pub fn cut(&self) {
        self.shared.life.send_modify(|life| *life += 1);
    }

    /// The requests so far whose line begins with this.
    pub fn seen(&self, beginning: &str) -> Vec<Seen> {
        let seen = self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|seen| seen.line.starts_with(beginning)).cloned().collect()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        // Pieces of an answer go out as they come.
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        let mut life = shared.life.subscribe();
        let born = *life.borrow();
        connections.spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&shared), request));
            let serving = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            // A connection that breaks, or is cut by a test, is what the front is for.
            tokio::select! {
                _ = serving => {}
                _ = life.wait_for(|life| *life != born) => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(
    shared: Arc<Shared>,
    request: http::Request<Incoming>,
) -> Result<Response<Body>, Cut> {
    let (parts, body) = request.into_parts();
    let line = format!("{} {}", parts.method, parts.uri);
    let seen = Seen { at: Instant::now(), line };
    shared.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
    let script = Arc::clone(&shared.script.lock().unwrap_or_else(PoisonError::into_inner));
    match script(&parts) {
        Act::Pass => pass(&shared, parts, body).await,
        Act::Alter(Alter { change, pieces, pause }) => {
            let (head, body) = pass(&shared, parts, body).await?.into_parts();
            let bytes = body.collect().await.map_err(|_| Cut)?.to_bytes();
            if head.status != StatusCode::OK {
                return Ok(Response::from_parts(head, full(bytes)));
            }
            let given = minicbor::decode(&bytes).map_err(|_| Cut)?;
            let bytes = Bytes::from(minicbor::to_vec(change(given)).map_err(|_| Cut)?);
            let body = if pieces > 1 { slow(bytes, pieces, pause) } else { full(bytes) };
            response(200, MEDIA_TYPE, body)
        }
        Act::Short(most, whole) => {
            let (head, body) = pass(&shared, parts, body).await?.into_parts();
            let bytes = body.collect().await.map_err(|_| Cut)?.to_bytes();
            if bytes.len() <= most {
                whole.fetch_add(1, Ordering::Relaxed);
                return Ok(Response::from_parts(head, full(bytes)));
            }
            let end = Err(std::io::ErrorKind::ConnectionAborted.into());
            let frames = [Ok(Frame::data(bytes.slice(..most))), end];
            let body = StreamBody::new(tokio_stream::iter(frames)).boxed_unsync();
            Ok(Response::from_parts(head, body))
        }
        Act::Answer(status, media_type, bytes) => response(status, media_type, full(bytes)),
        Act::Endless(status, media_type, beginning, piece, length) => {
            let pieces = std::iter::once(beginning).chain(std::iter::repeat(piece));
            let frames = pieces.map(|piece| Ok(Frame::data(Bytes::from_static(piece))));
            let body = StreamBody::new(tokio_stream::iter(frames)).boxed_unsync();
            let mut response = response(status, media_type, body)?;
            if let Some(length) = length {
                response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
            }
            Ok(response)
        }
        Act::Stream(feed) => response(200, "text/event-stream", fed(feed)),
        Act::Cut => Err(Cut),
    }
}

/// Ends a connection without an answer.
#[derive(Debug)]
struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cut by a script")
    }
}

impl std::error::Error for Cut {}

async fn pass(shared: &Shared, parts: Parts, body: Incoming) -> Result<Response<Body>, Cut> {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let uri = format!("http://{}{path}", shared.upstream);
    let mut request = http::Request::from_parts(parts, body);
    *request.uri_mut() = uri.parse().map_err(|_| Cut)?;
    request.headers_mut().remove(header::HOST);
    let answer = shared.client.request(request).await.map_err(|_| Cut)?;
    Ok(answer.map(|body| body.map_err(std::io::Error::other).boxed_unsync()))
}

fn response(status: u16, media_type: &'static str, body: Body) -> Result<Response<Body>, Cut> {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, media_type)
        .body(body)
        .map_err(|_| Cut)
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never: Infallible| match never {}).boxed_unsync()
}

fn slow(bytes: Bytes, pieces: usize, pause: Duration) -> Body {
    let size = bytes.len().div_ceil(pieces.max(1)).max(1);
    let (sender, receiver) = mpsc::unbounded_channel();
    let body = fed(receiver);
    #[expect(clippy::disallowed_methods, reason = "it ends with its bytes or with its reader")]
    tokio::spawn(async move {
        for at in (0..bytes.len()).step_by(size) {
            let piece = bytes.slice(at..bytes.len().min(at + size));
            if sender.send(piece).is_err() {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    });
    body
}

fn fed(feed: mpsc::UnboundedReceiver<Bytes>) -> Body {
    let frames = UnboundedReceiverStream::new(feed).map(|piece| Ok(Frame::data(piece)));
    StreamBody::new(frames).boxed_unsync()
}
