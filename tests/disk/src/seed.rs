//! Bytes and numbers that look random and depend on a seed only.

/// Bytes of a seed (splitmix64).
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(length + 8);
    // A plain loop: the tests are not optimised, and make many megabytes of it.
    while bytes.len() < length {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// A number below `limit` that depends on the seed only.
///
/// # Panics
/// The limit is 0.
pub fn pick(seed: u64, limit: u64) -> u64 {
    noise(seed, 8).iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)) % limit
}
