//! The HTTP of it: one exchange after the other, streams passed on as they come.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::answer::Piece;
use super::{Answer, Asked, Script, Shared, Turn, lock};

/// The body of a request to the real server.
pub(super) type Upstream = Full<Bytes>;

pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| exchange(Arc::clone(&shared), request));
            let serving = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            // A connection that breaks is what the evil server is for.
            let _ = serving.await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// One exchange. An error cuts the connection.
async fn exchange(shared: Arc<Shared>, request: Request<Incoming>) -> io::Result<Response<Pieces>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let asked = Asked {
        at: SystemTime::now(),
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body,
    };
    let life = shared.life.subscribe();
    let script = Arc::clone(&*lock(&shared.script));
    lock(&shared.asked).push(asked.clone());
    tokio::time::sleep(script.pause()).await;
    match script.turn(&asked) {
        Turn::Pass => pass(&shared, shared.upstream, &asked, &script, life).await,
        Turn::Ask(upstream) => pass(&shared, upstream, &asked, &script, life).await,
        Turn::Answer(answer) => Ok(respond(*answer, life)),
        Turn::Cut => Err(io::ErrorKind::ConnectionAborted.into()),
        Turn::Lose => {
            pass(&shared, shared.upstream, &asked, &script, life).await?;
            Err(io::ErrorKind::ConnectionAborted.into())
        }
    }
}

/// Asks a server, and gives its answer as the script changes it.
async fn pass(
    shared: &Shared,
    upstream: SocketAddr,
    asked: &Asked,
    script: &Script,
    life: watch::Receiver<u64>,
) -> io::Result<Response<Pieces>> {
    let uri: Uri = format!("http://{upstream}{}?{}", asked.path, asked.query)
        .parse()
        .map_err(io::Error::other)?;
    let mut request = Request::new(Full::new(asked.body.clone()));
    *request.method_mut() = asked.method.clone();
    *request.uri_mut() = uri;
    copy(&asked.headers, request.headers_mut(), &[HOST, CONNECTION, CONTENT_LENGTH]);
    let response = shared.client.request(request).await.map_err(io::Error::other)?;
    let (parts, body) = response.into_parts();
    let mut answer = Answer::new(parts.status, "text/plain", Bytes::new());
    answer.headers.clear();
    copy(&parts.headers, &mut answer.headers, &[CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING]);
    if asked.is("/api/sync/subscribe") && parts.status.is_success() {
        script.change(asked, &mut answer);
        return Ok(relay(answer, body, life));
    }
    answer.body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    script.change(asked, &mut answer);
    Ok(respond(answer, life))
}

fn copy(from: &HeaderMap, to: &mut HeaderMap, except: &[HeaderName]) {
    for (name, value) in from {
        if !except.contains(name) {
            to.append(name, value.clone());
        }
    }
}

/// Gives an answer that is all here.
fn respond(answer: Answer, life: watch::Receiver<u64>) -> Response<Pieces> {
    let plain = answer.rest.is_empty() && !answer.held;
    let (sender, pieces) =
        if plain { Pieces::whole(answer.body.clone()) } else { Pieces::open(answer.body.clone()) };
    let response = head(&answer, pieces);
    if let Some(sender) = sender {
        speak(answer.rest, answer.held, sender, life);
    }
    response
}

/// Passes a stream on as it comes.
fn relay(answer: Answer, body: Incoming, life: watch::Receiver<u64>) -> Response<Pieces> {
    let (sender, pieces) = Pieces::open(Bytes::new());
    let response = head(&answer, pieces);
    if let Some(sender) = sender {
        own(pump(body, sender), life);
    }
    response
}

fn head(answer: &Answer, pieces: Pieces) -> Response<Pieces> {
    let mut response = Response::new(pieces);
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers.clone();
    response
}

/// Sends pieces one after the other, then perhaps holds the connection.
fn speak(rest: Vec<Piece>, held: bool, sender: mpsc::Sender<Bytes>, life: watch::Receiver<u64>) {
    let speaking = async move {
        for Piece { after, bytes, times } in rest {
            for _ in 0..times {
                if !after.is_zero() {
                    tokio::time::sleep(after).await;
                }
                if sender.send(bytes.clone()).await.is_err() {
                    return;
                }
            }
        }
        if held {
            sender.closed().await;
        }
    };
    own(speaking, life);
}

async fn pump(mut body: Incoming, sender: mpsc::Sender<Bytes>) {
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(bytes) = frame.into_data()
            && sender.send(bytes).await.is_err()
        {
            return;
        }
    }
}

/// Runs until it is done, or a new script begins.
fn own(work: impl Future<Output = ()> + Send + 'static, mut life: watch::Receiver<u64>) {
    let until = async move {
        tokio::select! {
            () = work => {}
            _ = life.changed() => {}
        }
    };
    #[expect(clippy::disallowed_methods, reason = "it ends with the stream or the script")]
    tokio::spawn(until);
}

/// A body that comes in pieces, or is one.
#[derive(Debug)]
pub(super) struct Pieces {
    first: Option<Bytes>,
    rest: Option<mpsc::Receiver<Bytes>>,
}

impl Pieces {
    fn whole(bytes: Bytes) -> (Option<mpsc::Sender<Bytes>>, Self) {
        (None, Self { first: Some(bytes), rest: None })
    }

    fn open(first: Bytes) -> (Option<mpsc::Sender<Bytes>>, Self) {
        let (sender, receiver) = mpsc::channel(4);
        let first = (!first.is_empty()).then_some(first);
        (Some(sender), Self { first, rest: Some(receiver) })
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let Some(rest) = self.rest.as_mut() else { return Poll::Ready(None) };
        rest.poll_recv(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_none()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match (&self.first, &self.rest) {
            (first, None) => {
                let length = first.as_ref().map_or(0, Bytes::len);
                hyper::body::SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
            }
            _ => hyper::body::SizeHint::default(),
        }
    }
}
