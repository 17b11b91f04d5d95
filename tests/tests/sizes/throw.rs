//! A client that holds nothing: it writes the same piece again and again, reads the answer
//! meanwhile, and keeps only its beginning.

use std::time::Duration;

use tidings_tests::{DEADLINE, within};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What is thrown after the head.
#[derive(Debug, Clone, Copy)]
pub struct Body {
    /// Before the pieces.
    pub beginning: &'static [u8],
    /// The piece.
    pub piece: &'static [u8],
    /// How many of them.
    pub times: u64,
    /// After the pieces.
    pub end: &'static [u8],
    /// Whether all of it is framed as chunks.
    pub chunked: bool,
}

impl Body {
    /// No body.
    pub const NONE: Self = Self { beginning: &[], piece: &[], times: 0, end: &[], chunked: false };

    /// How many bytes it has.
    pub fn length(&self) -> u64 {
        let fixed = self.beginning.len() + self.end.len();
        fixed as u64 + self.piece.len() as u64 * self.times
    }
}

/// The beginning of an answer.
#[derive(Debug)]
pub struct Answer(String);

impl Answer {
    /// Its status; 0 where there was none, because the connection was closed.
    pub fn status(&self) -> u16 {
        self.0.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// Asserts that it is one of these statuses.
    pub fn is(&self, accepted: &[u16]) -> &Self {
        assert!(accepted.contains(&self.status()), "{accepted:?} was expected: {}", self.0);
        self
    }

    /// Asserts that it says something.
    pub fn says(&self, text: &str) -> &Self {
        assert!(self.0.contains(text), "it does not say {text:?}: {}", self.0);
        self
    }
}

/// Bytes of an answer that are kept.
const KEPT: usize = 4 << 10;

/// Writes a head and a body, and reads the answer until its end or until it pauses.
pub async fn throw(stream: impl AsyncRead + AsyncWrite, head: &str, body: Body) -> Answer {
    let (mut from, mut to) = tokio::io::split(stream);
    let write = async {
        to.write_all(head.as_bytes()).await?;
        if body.chunked {
            chunk(&mut to, body.beginning).await?;
            for _ in 0..body.times {
                chunk(&mut to, body.piece).await?;
            }
            chunk(&mut to, body.end).await?;
            to.write_all(b"0\r\n\r\n").await?;
        } else {
            to.write_all(body.beginning).await?;
            for _ in 0..body.times {
                to.write_all(body.piece).await?;
            }
            to.write_all(body.end).await?;
        }
        to.flush().await
    };
    let mut kept = Vec::with_capacity(KEPT);
    let read = async {
        let mut buffer = [0; 1024];
        loop {
            // An answer without a body that closes the connection comes to its end by itself; one
            // that keeps it open is over when nothing more comes.
            let wait = if kept.is_empty() { DEADLINE } else { Duration::from_millis(200) };
            match tokio::time::timeout(wait, from.read(&mut buffer)).await {
                Ok(Ok(read)) if read > 0 => {
                    let room = KEPT - kept.len();
                    kept.extend_from_slice(&buffer[..read.min(room)]);
                }
                _ => return,
            }
        }
    };
    // The server may stop reading in the middle: that is as good an answer.
    let both = async {
        tokio::select! {
            () = read => {}
            () = async { let _ = write.await; std::future::pending::<()>().await } => {}
        }
    };
    within("an answer", DEADLINE, both).await;
    Answer(String::from_utf8_lossy(&kept).into_owned())
}

async fn chunk(to: &mut (impl AsyncWrite + Unpin), piece: &[u8]) -> std::io::Result<()> {
    if piece.is_empty() {
        return Ok(());
    }
    to.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
    to.write_all(piece).await?;
    to.write_all(b"\r\n").await
}
