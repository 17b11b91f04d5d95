//! Every byte that crosses a process in Tidings, as pure data.
//!
//! Used by the server, the daemon, the clients and the tests. Nothing here does IO, holds a key
//! or verifies a signature: signed things travel as opaque bytes and are decoded by
//! `tidings-proof`.

pub mod account;
pub mod auth;
pub mod ids;
pub mod limits;
pub mod linking;
pub mod local;
pub mod pairing;
pub mod problem;
pub mod sse;
pub mod sync;

pub use ids::{
    AccountId, AppId, ChainIndex, DeviceId, Epoch, Generation, Hash, Incarnation, ManifestNumber,
    Nameplate, ParseIdError, Position, Seq, ServerId, Stamp, StartId, TableTag,
};
pub use problem::{Code, Problem, ProblemBody};
