//! Where randomness comes from: the operating system, or a test's seed.

use getrandom::SysRng;
use getrandom::rand_core::UnwrapErr;

pub use getrandom::rand_core::{CryptoRng, Rng};

/// The operating system's randomness.
///
/// Where the system has none, nothing may go on, so that drawing from it then ends the process's
/// thread rather than return an error that somebody might skip.
pub const fn system() -> UnwrapErr<SysRng> {
    UnwrapErr(SysRng)
}

/// Draws an array.
pub(crate) fn array<const N: usize>(rng: &mut impl CryptoRng) -> [u8; N] {
    let mut bytes = [0; N];
    rng.fill_bytes(&mut bytes);
    bytes
}
