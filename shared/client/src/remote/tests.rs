//! The client against servers that are right, wrong, slow and hostile.

mod answers;
mod notify;
mod proxy;
mod trust;

use super::*;
use crate::testing::{Server, Step};

/// A signed-in client of a test server.
fn client(server: &Server) -> SyncClient {
    client_with(server, Timeouts::default())
}

fn client_with(server: &Server, timeouts: Timeouts) -> SyncClient {
    let config = Config { timeouts, ..Config::new(server.url().parse().unwrap()) };
    SyncClient::new(&config).unwrap().with_token("T0KEN")
}

fn send(bytes: impl Into<Vec<u8>>) -> Vec<Step> {
    vec![Step::Send(bytes.into())]
}
