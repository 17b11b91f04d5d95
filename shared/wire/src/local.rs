//! Shapes of the daemon's socket.
