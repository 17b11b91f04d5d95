//! Parked sockets: what is left of a connection once its stream is all that it carries.
//!
//! The socket leaves hyper and tokio; the hub watches it and writes to it. Plain, that is a
//! descriptor; with TLS the connection's state goes along whole.

use std::io::{self, Read, Write};

use bytes::Bytes;
use mio::event::Source as _;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::server::TlsStream;

use super::accept::Entered;
use crate::hub::{Outlet, Sent, Sink, Wake};

/// Bytes that the kernel may queue for a parked socket (it takes twice as much for its own
/// books). What a stalled reader does not take stays small here, and changes collapse instead.
const SEND_BUFFER: usize = 4096;
/// Bytes of what a reader says that are looked at, at a time: enough to know that it spoke.
const PEEK: usize = 64;

/// A connection that can be parked.
pub(crate) trait Park: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Takes the socket out of the runtime. It counts as a connection until it is dropped.
    ///
    /// # Errors
    /// When the system does not let go of it or take it anew.
    fn park(self, entered: Entered) -> io::Result<Outlet>;
}

impl Park for tokio::net::TcpStream {
    fn park(self, entered: Entered) -> io::Result<Outlet> {
        Ok(Outlet::Plain(Plain { socket: Socket::new(self, entered)?, rest: Box::default() }))
    }
}

impl Park for TlsStream<tokio::net::TcpStream> {
    fn park(self, entered: Entered) -> io::Result<Outlet> {
        let (stream, mut connection) = self.into_inner();
        // What was pipelined behind the request is dropped, as `Connection: close` allows.
        let mut rest = [0; PEEK];
        while connection.reader().read(&mut rest).is_ok_and(|read| read > 0) {}
        let socket = Socket::new(stream, entered)?;
        Ok(Outlet::Boxed(Box::new(Tls { connection, socket })))
    }
}

/// A bare socket.
struct Socket {
    stream: TcpStream,
    armed: bool,
    _entered: Entered,
}

impl Socket {
    fn new(stream: tokio::net::TcpStream, entered: Entered) -> io::Result<Self> {
        let stream = stream.into_std()?;
        rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER)?;
        Ok(Self { stream: TcpStream::from_std(stream), armed: false, _entered: entered })
    }

    fn arm(&mut self, registry: &Registry, token: Token, wake: Wake) -> io::Result<()> {
        let interest = match wake {
            Wake::Reader => Interest::READABLE,
            Wake::Room => Interest::READABLE | Interest::WRITABLE,
        };
        if std::mem::replace(&mut self.armed, true) {
            self.stream.reregister(registry, token, interest)
        } else {
            self.stream.register(registry, token, interest)
        }
    }
}

/// Plain HTTP.
pub(crate) struct Plain {
    socket: Socket,
    /// The rest of a frame that the socket did not take whole; nothing nearly always.
    rest: Box<[u8]>,
}

impl Plain {
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<Sent> {
        while !bytes.is_empty() {
            match attempt(|| self.socket.stream.write(bytes))? {
                Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                Some(written) => bytes = bytes.get(written..).unwrap_or_default(),
                None => {
                    self.rest = bytes.into();
                    return Ok(Sent::Held);
                }
            }
        }
        Ok(Sent::Whole)
    }
}

impl Sink for Plain {
    fn send(&mut self, frame: &Bytes) -> io::Result<Sent> {
        self.write(frame)
    }

    fn flush(&mut self) -> io::Result<Sent> {
        let rest = std::mem::take(&mut self.rest);
        self.write(&rest)
    }

    fn peer(&mut self) -> io::Result<()> {
        let mut said = [0; PEEK];
        match attempt(|| self.socket.stream.read(&mut said))? {
            None => Ok(()),
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(_) => Err(spoke()),
        }
    }

    fn arm(&mut self, registry: &Registry, token: Token, wake: Wake) -> io::Result<()> {
        self.socket.arm(registry, token, wake)
    }

    fn bye(&mut self, last: &Bytes) {
        // Half a frame stands there already if anything is held; nothing may follow it.
        if self.rest.is_empty()
            && let Err(error) = self.send(last)
        {
            tracing::debug!(%error, "a reader did not hear the end");
        }
    }
}

/// HTTP in TLS. rustls keeps what the socket does not take: a record is sealed once and sent once.
struct Tls {
    connection: ServerConnection,
    socket: Socket,
}

impl Sink for Tls {
    fn send(&mut self, frame: &Bytes) -> io::Result<Sent> {
        self.connection.writer().write_all(frame)?;
        self.flush()
    }

    fn flush(&mut self) -> io::Result<Sent> {
        while self.connection.wants_write() {
            match attempt(|| self.connection.write_tls(&mut self.socket.stream))? {
                Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                Some(_) => {}
                None => return Ok(Sent::Held),
            }
        }
        Ok(Sent::Whole)
    }

    fn peer(&mut self) -> io::Result<()> {
        while let Some(read) = attempt(|| self.connection.read_tls(&mut self.socket.stream))? {
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let state = self.connection.process_new_packets().map_err(io::Error::other)?;
            if state.peer_has_closed() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if state.plaintext_bytes_to_read() > 0 {
                return Err(spoke());
            }
        }
        // TLS has talk of its own, such as a request for new keys, and it is answered.
        self.flush().map(drop)
    }

    fn arm(&mut self, registry: &Registry, token: Token, wake: Wake) -> io::Result<()> {
        self.socket.arm(registry, token, wake)
    }

    fn bye(&mut self, last: &Bytes) {
        let said = self.connection.writer().write_all(last);
        self.connection.send_close_notify();
        if let Err(error) = said.and_then(|()| self.flush()) {
            tracing::debug!(%error, "a reader did not hear the end");
        }
    }
}

fn spoke() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the reader spoke, which ends a stream")
}

/// Reads or writes; none when the socket is not ready.
fn attempt(mut io: impl FnMut() -> io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match io() {
            Ok(count) => return Ok(Some(count)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(None),
                io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests;
