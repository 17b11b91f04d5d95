//! Server-Sent Events.
