//! The Tidings daemon and command line.
//!
//! [`daemon`] starts and stops everything. [`replica`] keeps rows, log and outbox over [`store`];
//! [`api`] serves apps on the socket; [`home`] and [`config`] say where and how.

pub mod api;
pub mod cli;
pub mod clock;
pub mod config;
pub mod daemon;
pub mod disk;
mod files;
pub mod home;
pub mod projection;
pub mod replica;
pub mod status;
pub mod store;
pub mod sync;
pub mod vault;
