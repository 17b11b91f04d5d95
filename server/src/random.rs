//! Random bytes from the operating system, and jitter made of them.

use std::time::Duration;

use crate::failure::{Answer, Failure};

/// Random bytes.
///
/// # Errors
/// When the system has none.
pub fn bytes<const N: usize>() -> Answer<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(Failure::internal)?;
    Ok(bytes)
}

/// A duration between `least` and `most`. Without random bytes it is `most`: jitter is a courtesy.
pub fn between(least: Duration, most: Duration) -> Duration {
    let part = bytes::<4>().map_or(u32::MAX, u32::from_be_bytes);
    least + most.saturating_sub(least).mul_f64(f64::from(part) / f64::from(u32::MAX))
}
