//! Whole networks of engines in virtual time, against a model server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "a test fails by panicking; the lints' own exception covers test functions only"
)]

mod sim;
