//! End to end, with the programs that people run: one test binary, one module per subject.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking; the lints' own exception covers test functions only"
)]

mod corpus;
mod demo;
mod direction;
mod evil;
mod facts;
mod faults;
mod field;
mod house;
mod licences;
mod performance;
mod soak;
mod storage;
mod sweep;
mod sync_copies;
mod sync_linking;
mod sync_rows;
mod trust;
mod upgrade;
mod vectors;
mod verbs;
