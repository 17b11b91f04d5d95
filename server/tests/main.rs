//! The server over real sockets, and every store under one suite.

mod accounts;
mod admin;
mod chain;
mod cli;
mod concurrency;
mod fixture;
mod headers;
mod lanes;
mod limits;
mod pairing;
mod pull;
mod reset;
mod sign_in;
mod slow;
mod store;
mod subscribe;
mod tls;
