//! What a malicious server tries, each a named test against real daemons (the numbers are those
//! of the threat model's list), and after each the same invariants: see [`scene::Scene::holds`].

mod invariants;
mod scene;
mod witness;

mod account;
mod blobs;
mod lanes;
mod losses;
mod manifests;
mod transport;
