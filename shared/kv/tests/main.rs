//! The suite that every engine passes: what all do alike, opening, damage, what the committer
//! promises, kill -9, power cuts, disks that fill up, break or turn read-only, and the rewrite of
//! grown files.

#[cfg(test)]
mod child;
#[cfg(test)]
mod committer;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod damage;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod faults;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod model;
#[cfg(test)]
mod opening;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod powercut;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod readonly;
#[cfg(test)]
mod rewrite;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod steps;
#[cfg(test)]
mod support;
#[cfg(test)]
mod workload;
