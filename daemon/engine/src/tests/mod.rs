//! The engine in virtual time: one module per concern, all over one bench.

mod bench;
mod lanes;
mod links;
mod losses;
mod manifests;
mod network;
mod pulls;
mod pushes;
mod quarantine;
