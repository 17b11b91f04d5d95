//! Tests of the encodings and of everything that is verified, with keys of their own.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking; the lints' own exception covers test functions only"
)]

mod chain;
mod codec;
mod forgery;
mod support;
