//! How a stream gets from its handler to its connection.
//!
//! A connection whose socket can be parked offers a seat with a request. The handler that opens a
//! stream takes it and answers with a head only; the connection then parks its socket.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::Subscription;

/// A stream that waits for its socket.
pub(crate) struct Parking {
    /// The stream.
    pub(crate) subscription: Subscription,
    /// The first bytes after the head of the answer.
    pub(crate) hello: Bytes,
}

/// The place of one stream; an extension of the request.
#[derive(Clone, Default)]
pub(crate) struct Seat(Arc<Mutex<Option<Parking>>>);

impl Seat {
    /// Takes the seat.
    pub(crate) fn take(&self, parking: Parking) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(parking);
    }

    /// Leaves it; gives who sat there.
    pub(crate) fn leave(&self) -> Option<Parking> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
