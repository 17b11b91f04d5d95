//! The paper key: twelve words from which a device's keys can be made again.
//!
//! The words are BIP39 English with 128 bits of entropy. Their BIP39 seed (PBKDF2-HMAC-SHA512,
//! 2048 rounds, empty passphrase) gives both keys by HKDF; no parameter comes from a server.

use std::fmt;

use bip39::{Language, Mnemonic};
use secrecy::SecretString;
use tidings_proof::{DeviceKind, labels};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;
use zeroize::Zeroizing;

use crate::derive;
use crate::keys::DeviceKeys;
use crate::random::{self, CryptoRng};

/// Number of words.
pub const WORDS: usize = 12;

/// A paper key. Wiped when dropped.
pub struct PaperKey(Mnemonic);

/// Why words are not a paper key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PaperKeyError {
    /// There are more or fewer words than twelve.
    #[error("a paper key has {WORDS} words, not {0}")]
    WordCount(usize),
    /// A word is not in the list. It names the word, which then is no part of a key.
    #[error("word {number} (`{word}`) is not in the list of words")]
    UnknownWord {
        /// Which, from 1.
        number: usize,
        /// As it was typed, at most 32 characters.
        word: String,
    },
    /// Each word is in the list, but together they are no paper key.
    #[error("the words do not belong together: one of them is wrong, or two are swapped")]
    Checksum,
}

impl PaperKey {
    /// Draws a new one.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        let entropy: Zeroizing<[u8; 16]> = Zeroizing::new(random::array(rng));
        #[expect(clippy::expect_used, reason = "16 bytes are a length that BIP39 has")]
        Self(Mnemonic::from_entropy_in(Language::English, entropy.as_slice()).expect("16 bytes"))
    }

    /// Reads the words, in any case and any Unicode form (full width, with accents that a keyboard
    /// adds), with anything but letters between them: spaces, lines, commas or the numbers of a
    /// list.
    ///
    /// # Errors
    /// [`PaperKeyError`].
    pub fn parse(text: &str) -> Result<Self, PaperKeyError> {
        let plain = text.nfkd().filter(|letter| !is_combining_mark(*letter));
        let lower = Zeroizing::new(plain.flat_map(char::to_lowercase).collect::<String>());
        let words =
            || lower.split(|letter: char| !letter.is_alphabetic()).filter(|w| !w.is_empty());
        let unknown = words().enumerate().find(|(_, w)| Language::English.find_word(w).is_none());
        if let Some((at, word)) = unknown {
            let word = word.chars().take(32).collect();
            return Err(PaperKeyError::UnknownWord { number: at + 1, word });
        }
        let count = words().count();
        if count != WORDS {
            return Err(PaperKeyError::WordCount(count));
        }
        let mut joined = Zeroizing::new(String::with_capacity(lower.len() + 1));
        for word in words() {
            joined.push_str(word);
            joined.push(' ');
        }
        Mnemonic::parse_in_normalized(Language::English, &joined)
            .map(Self)
            .map_err(|_| PaperKeyError::Checksum)
    }

    /// The words, to be printed.
    pub fn words(&self) -> SecretString {
        let mut words = String::with_capacity(WORDS * 9);
        for (at, word) in self.0.words().enumerate() {
            if at > 0 {
                words.push(' ');
            }
            words.push_str(word);
        }
        SecretString::from(words)
    }

    /// The keys of the device that it is.
    pub fn device_keys(&self) -> DeviceKeys {
        let seed = Zeroizing::new(self.0.to_seed_normalized(""));
        let signing = derive::key(seed.as_slice(), labels::PAPER_SIGNING);
        let wrapping = derive::key(seed.as_slice(), labels::PAPER_WRAPPING);
        DeviceKeys::from_seeds(DeviceKind::Paper, &signing, wrapping)
    }
}

impl fmt::Debug for PaperKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PaperKey(..)")
    }
}
