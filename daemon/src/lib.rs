//! The Tidings daemon and command line.
