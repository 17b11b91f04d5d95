//! The server over real sockets, and every store under one suite.

#[cfg(test)]
mod accounts;
#[cfg(test)]
mod admin;
#[cfg(test)]
mod chain;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod compact;
#[cfg(test)]
mod concurrency;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod disk;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod files;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod headers;
#[cfg(test)]
mod lanes;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod logs;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod memory;
#[cfg(test)]
mod pairing;
#[cfg(test)]
mod parking;
#[cfg(test)]
mod parking_tls;
#[cfg(test)]
mod pull;
#[cfg(test)]
mod reset;
#[cfg(test)]
mod sign_in;
#[cfg(test)]
mod slow;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod stalled;
#[cfg(test)]
mod store;
#[cfg(test)]
mod subscribe;
#[cfg(test)]
mod tls;
