//! The sync state machine of one account: what to ask the server next, and what to believe of
//! its answers (docs/protocol.md, "Sync").
//!
//! Pure: no socket, disk, clock, key or plaintext. The daemon's driver feeds it what happened and
//! carries out what it orders; tests do the same in virtual time. See [`Engine`].

mod app;
mod backoff;
mod book;
mod config;
mod engine;
mod facts;
mod failure;
mod jitter;
mod lane;
mod link;
mod output;
mod page;
mod plan;
mod push;
mod start;
mod time;

#[cfg(test)]
mod tests;

pub use config::EngineConfig;
pub use engine::{Engine, Link, Testimony};
pub use facts::{
    AccountFacts, Arrived, BlobFact, ChainVerdict, EntryFact, LaneKey, ManifestFact, PageFacts,
    PushAnswer, Retried, Unreadable,
};
pub use failure::{Failure, PushFailure};
pub use lane::LaneState;
pub use output::{Alarm, Output, PullOrder, Purpose, RenewCause};
pub use plan::{PagePlan, Source};
pub use start::{AppRecord, AppStart, EngineStart, StagedFact};
pub use time::Time;
