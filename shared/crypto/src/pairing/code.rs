//! The code that a person reads on one computer and types on the other.

use std::fmt;
use std::str::FromStr;

use bip39::Language;
use tidings_wire::Nameplate;
use zeroize::Zeroizing;

use crate::random::CryptoRng;

/// Number of words in a code.
const WORDS: usize = 3;

/// A mailbox's number and three words, as `4821-amused-violin-tunnel`.
///
/// The words carry 33 bits, which only ever face one guess. `Display` shows them, `Debug` does not.
#[derive(Clone, PartialEq, Eq)]
pub struct PairingCode {
    nameplate: Nameplate,
    words: Zeroizing<[u16; WORDS]>,
}

/// Why a text is not a pairing code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// It does not begin with the digits of a mailbox.
    #[error("a code begins with a number, as in 4821-amused-violin-tunnel")]
    Nameplate,
    /// It does not have three words.
    #[error("a code has {WORDS} words after the number, not {0}")]
    WordCount(usize),
    /// A word is not in the list.
    #[error("`{0}` is not a word that codes are made of")]
    UnknownWord(String),
}

impl PairingCode {
    /// Draws words for a mailbox.
    pub fn generate(nameplate: Nameplate, rng: &mut impl CryptoRng) -> Self {
        let mut words = Zeroizing::new([0; WORDS]);
        // The list has 2048 words, so that a masked number is as random as a whole one.
        words.iter_mut().for_each(|word| *word = (rng.next_u32() & 0x7ff) as u16);
        Self { nameplate, words }
    }

    /// The mailbox.
    pub fn nameplate(&self) -> Nameplate {
        self.nameplate
    }

    /// The words alone, joined by hyphens: the password of the PAKE.
    pub(crate) fn password(&self) -> Zeroizing<String> {
        let mut password = Zeroizing::new(String::with_capacity(WORDS * 9));
        for (at, word) in self.words.iter().enumerate() {
            if at > 0 {
                password.push('-');
            }
            password.push_str(word_at(*word));
        }
        password
    }
}

fn word_at(index: u16) -> &'static str {
    Language::English.word_list().get(usize::from(index)).copied().unwrap_or_default()
}

impl fmt::Display for PairingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.nameplate, self.password().as_str())
    }
}

impl fmt::Debug for PairingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairingCode").field("nameplate", &self.nameplate).finish_non_exhaustive()
    }
}

impl FromStr for PairingCode {
    type Err = CodeError;

    /// Takes any case, and hyphens or white space between the parts.
    fn from_str(text: &str) -> Result<Self, CodeError> {
        let lower = Zeroizing::new(text.to_lowercase());
        let mut parts = lower
            .split(|letter: char| {
                letter.is_whitespace() || matches!(letter, '-' | '\u{2010}'..='\u{2014}')
            })
            .filter(|part| !part.is_empty());
        let nameplate = parts.next().unwrap_or_default();
        let nameplate = nameplate.parse().map_err(|_| CodeError::Nameplate)?;
        let mut words = Zeroizing::new([0; WORDS]);
        let mut count = 0;
        for part in parts {
            let known = Language::English.find_word(part);
            let word =
                known.ok_or_else(|| CodeError::UnknownWord(part.chars().take(32).collect()))?;
            if let Some(place) = words.get_mut(count) {
                *place = word;
            }
            count += 1;
        }
        if count == WORDS {
            Ok(Self { nameplate, words })
        } else {
            Err(CodeError::WordCount(count))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_as_people_type_it() {
        let code: PairingCode = "4821-amused-violin-tunnel".parse().unwrap();
        assert_eq!(code.nameplate(), Nameplate(4821));
        assert_eq!(code.to_string(), "4821-amused-violin-tunnel");
        for same in [
            " 4821 Amused  VIOLIN\ttunnel\n",
            "4821 - amused - violin - tunnel",
            "4821\u{2013}amused\u{2014}violin-tunnel",
            "-4821--amused-violin-tunnel-",
        ] {
            assert_eq!(same.parse::<PairingCode>().unwrap(), code, "{same:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_code_is_named() {
        let wrong = |text: &str| text.parse::<PairingCode>().unwrap_err();
        assert_eq!(wrong(""), CodeError::Nameplate);
        assert_eq!(wrong("amused-violin-tunnel"), CodeError::Nameplate);
        assert_eq!(wrong("99999999999-amused-violin-tunnel"), CodeError::Nameplate);
        assert_eq!(wrong("1-amused-violin"), CodeError::WordCount(2));
        assert_eq!(wrong("1-amused-violin-tunnel-zoo"), CodeError::WordCount(4));
        assert_eq!(wrong("1-amused-violni-tunnel"), CodeError::UnknownWord("violni".into()));
        assert_eq!(wrong(&format!("1-{}", "x".repeat(99))), CodeError::UnknownWord("x".repeat(32)));
    }

    #[test]
    fn debug_shows_no_word() {
        let code: PairingCode = "4821-amused-violin-tunnel".parse().unwrap();
        assert_eq!(format!("{code:?}"), "PairingCode { nameplate: Nameplate(4821), .. }");
    }
}
