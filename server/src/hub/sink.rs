//! Where the frames of a stream go: a parked socket, or the body of an answer.

use std::io;

use bytes::Bytes;
use mio::{Registry, Token};

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
