//! Invite codes: 20 letters and digits that are easy to read out, kept here only as a hash.

use tidings_proof::labels;
use tidings_wire::Hash;

use crate::failure::Answer;
use crate::random;

/// Letters and digits that are not taken for one another (no i, l, o, u, 0, 1).
const ALPHABET: &[u8; 30] = b"abcdefghjkmnpqrstvwxyz23456789";

/// Groups of a code, and characters in a group.
const GROUPS: usize = 4;
const GROUP: usize = 5;

/// A new code: 98 bits.
///
/// # Errors
/// When the system has no random bytes.
pub fn code() -> Answer<String> {
    let mut code = String::new();
    for group in 0..GROUPS {
        if group > 0 {
            code.push('-');
        }
        while code.len() % (GROUP + 1) < GROUP {
            let [byte] = random::bytes::<1>()?;
            // Above the last whole multiple the letters would not be equally likely.
            let letter = usize::from(byte) % ALPHABET.len();
            if usize::from(byte) < 256 - 256 % ALPHABET.len()
                && let Some(letter) = ALPHABET.get(letter)
            {
                code.push(char::from(*letter));
            }
        }
    }
    Ok(code)
}

/// What the store keeps of a code. Case, spaces and dashes are as the person likes.
pub fn hash(code: &str) -> Hash {
    let plain: String = code
        .chars()
        .filter(|c| !c.is_whitespace() && *c != '-')
        .map(|c| c.to_ascii_lowercase())
        .collect();
    Hash(blake3::derive_key(labels::SERVER_INVITE.as_str(), plain.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_readable_and_differ() {
        let a = code().unwrap();
        assert_eq!(a.len(), 23);
        assert!(a.split('-').all(|group| group.len() == 5));
        assert!(a.bytes().all(|byte| byte == b'-' || ALPHABET.contains(&byte)));
        assert_ne!(a, code().unwrap());
    }

    #[test]
    fn spelling_does_not_matter() {
        assert_eq!(hash("abcde-fghjk"), hash(" ABCDE fghjk"));
        assert_ne!(hash("abcde"), hash("abcdf"));
    }
}
