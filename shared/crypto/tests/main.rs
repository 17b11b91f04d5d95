//! Tests of sealing, signing, the key ring, pairing and the paper key, and the known answers.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking; the lints' own exception covers test functions only"
)]

mod chain;
mod known_answers;
mod pairing;
mod paper;
mod published;
mod sealing;
mod second;
mod secrets;
mod support;
