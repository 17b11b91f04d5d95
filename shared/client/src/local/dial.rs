//! Connecting to the socket, whatever the URI says.

use std::{
    future::Future,
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

/// A connector to one socket.
#[derive(Debug, Clone)]
pub(super) struct Dial(pub(super) Arc<Path>);

impl tower::Service<Uri> for Dial {
    type Response = TokioIo<UnixStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<UnixStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let socket = Arc::clone(&self.0);
        Box::pin(async move { UnixStream::connect(&*socket).await.map(TokioIo::new) })
    }
}
