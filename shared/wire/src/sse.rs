//! Server-Sent Events by the WHATWG rules: one reader and one writer for every stream.
//!
//! Both are pure: bytes in, items out, and the other way round. The server's nudges, the daemon's
//! local streams and all clients use these two types, so that a frame means the same everywhere.
//! Reconnecting, timers and sockets belong to the callers.

mod frame;
mod reader;
#[cfg(test)]
mod tests;

pub use frame::{CHANGED, Frame, FrameError, KEEPALIVE, PING};
pub use reader::{Event, Item, RETRY_MAX, Reader, SseError};
