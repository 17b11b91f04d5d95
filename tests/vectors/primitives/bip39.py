"""BIP39: twelve English words for 128 bits, and the seed that they give."""

import hashlib
import pathlib

WORDS_FILE = pathlib.Path(__file__).with_name("bip39-english.txt")
WORDS = WORDS_FILE.read_text(encoding="ascii").split()
PLACES = {word: place for place, word in enumerate(WORDS)}


def entropy(words):
    """The bytes that a list of words stands for, or None: a word that is not in the list, a wrong
    number of them, a checksum that does not fit."""
    if len(words) not in (12, 15, 18, 21, 24) or any(word not in PLACES for word in words):
        return None
    bits = 0
    for word in words:
        bits = bits << 11 | PLACES[word]
    checksum_len = len(words) // 3
    data = (bits >> checksum_len).to_bytes(checksum_len * 4, "big")
    checksum = hashlib.sha256(data).digest()[0] >> 8 - checksum_len
    return data if bits & (1 << checksum_len) - 1 == checksum else None


def seed(words, passphrase=""):
    """The seed of 64 bytes. The words are ASCII, so that nothing is left to normalise."""
    salt = "mnemonic" + passphrase
    return hashlib.pbkdf2_hmac("sha512", " ".join(words).encode(), salt.encode(), 2048)
