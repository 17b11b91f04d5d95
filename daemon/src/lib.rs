//! The Tidings daemon and command line.

pub mod clock;
pub mod config;
pub mod replica;
pub mod status;
pub mod store;
pub mod vault;

pub mod cli;
