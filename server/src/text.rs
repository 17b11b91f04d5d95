//! Base64url without padding: how bytes travel in JSON, URLs and tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Writes bytes.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads text of at most `limit` bytes once decoded; `None` when it is longer or malformed.
///
/// The length is checked before anything is allocated, and one value has one spelling: bits
/// beyond the last byte must be zero.
pub fn decode(text: &str, limit: usize) -> Option<Vec<u8>> {
    if text.len() > limit.div_ceil(3) * 4 {
        return None;
    }
    URL_SAFE_NO_PAD.decode(text).ok().filter(|bytes| bytes.len() <= limit)
}

/// Reads text of exactly `N` bytes.
pub fn decode_array<const N: usize>(text: &str) -> Option<[u8; N]> {
    decode(text, N)?.try_into().ok()
}
