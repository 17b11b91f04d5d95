//! What the end-to-end tests stand on: real programs on free ports and in homes of their own,
//! clients of both, a proxy that can spoil a connection, and a device and a server made by hand.
//!
//! Nothing here hopes: whatever is waited for has a deadline, and a failure prints what every
//! program said. A test keeps the [`House`] for as long as it runs; dropping it ends everything.
#![expect(
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by a panic that says what is wrong"
)]

pub mod apart;
pub mod bench;
pub mod device;
pub mod evil;
pub mod feed;
pub mod front;
pub mod fuzz;
pub mod hand;
pub mod house;
pub mod inside;
pub mod nginx;
pub mod process;
pub mod programs;
pub mod proxy;
pub mod server;
pub mod soak;
pub mod sweep;
pub mod wait;

pub use device::{Device, Follower};
pub use evil::Evil;
pub use front::{Act, Alter, Front};
pub use hand::Hand;
pub use house::House;
pub use process::Process;
pub use proxy::Proxy;
pub use server::Server;
pub use wait::{DEADLINE, eventually, within};
