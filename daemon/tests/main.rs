//! Tests of the daemon as a library, over real sockets and real stores.

mod local;
mod support;
