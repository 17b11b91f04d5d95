//! Typed HTTP and SSE clients: remote (sync server) and local (daemon socket).
