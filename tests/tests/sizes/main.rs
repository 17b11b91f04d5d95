//! Hostile sizes: whatever comes in from outside, server and daemon hold less than twice what they
//! allow of it, because they refuse before they allocate.
//!
//! Both run inside this process, whose allocator counts live bytes and their peak. What C code
//! allocates (zstd's tables) it does not see. A run of `cargo nextest` has a process for each test;
//! under `cargo test` they take turns.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking; the lints' own exception covers test functions only"
)]

mod answers;
mod blobs;
mod local;
mod measure;
mod server;
mod throw;

#[global_allocator]
static ALLOCATOR: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;
