//! Tests of the daemon as a library, over real sockets and real stores.

#[cfg(test)]
mod local;
#[cfg(test)]
mod support;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: support::memory::Counting = support::memory::Counting;
