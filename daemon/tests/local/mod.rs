//! The local API without an account: an app works before anything is synced.

mod batch;
mod hostile;
mod lifecycle;
mod memory;
mod process;
mod query;
mod rows;
mod streams;
mod values;
