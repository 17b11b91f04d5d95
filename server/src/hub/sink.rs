//! Where the frames of a stream go: a parked socket, or the body of an answer.

use std::io;
use std::ops::{Deref, DerefMut};

use bytes::Bytes;
use mio::{Registry, Token};

use crate::net::Plain;

/// Whether a sink has passed on everything that it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// All of it.
    Whole,
    /// Some of it waits in the sink until the reader takes more.
    Held,
}

/// What wakes the hub for a sink that is a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Bytes from the reader, or its end.
    Reader,
    /// That too, and room for what is held.
    Room,
}

/// One reader's end of a stream. Dropping it closes it.
///
/// The hub calls it under a lock: nothing here may wait. Every error means that the reader is
/// gone.
pub trait Sink: Send {
    /// Passes a frame on. Not to be called while something is held.
    ///
    /// # Errors
    /// The reader is gone.
    fn send(&mut self, frame: &Bytes) -> io::Result<Sent>;

    /// Passes on what is held.
    ///
    /// # Errors
    /// The reader is gone.
    fn flush(&mut self) -> io::Result<Sent>;

    /// Looks at what came from the reader, who has nothing to say any more.
    ///
    /// # Errors
    /// The reader is gone, or it spoke.
    fn peer(&mut self) -> io::Result<()>;

    /// Asks to be woken.
    ///
    /// # Errors
    /// The system watches no more sockets.
    fn arm(&mut self, registry: &Registry, token: Token, wake: Wake) -> io::Result<()>;

    /// Passes a last frame on, if that can be done at once. The sink is dropped then.
    fn bye(&mut self, last: &Bytes);
}

/// A sink in its slot. The commonest lies there itself: thousands of small allocations between
/// the large ones of requests would leave holes everywhere.
pub(crate) enum Outlet {
    /// A parked socket without TLS.
    Plain(Plain),
    /// Any other.
    Boxed(Box<dyn Sink>),
}

impl Deref for Outlet {
    type Target = dyn Sink;

    fn deref(&self) -> &(dyn Sink + 'static) {
        match self {
            Self::Plain(plain) => plain,
            Self::Boxed(sink) => &**sink,
        }
    }
}

impl DerefMut for Outlet {
    fn deref_mut(&mut self) -> &mut (dyn Sink + 'static) {
        match self {
            Self::Plain(plain) => plain,
            Self::Boxed(sink) => &mut **sink,
        }
    }
}
