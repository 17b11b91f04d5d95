"""XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03), HKDF-SHA256 (RFC 5869) and HMAC-SHA256."""

import hmac
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

MASK = 0xFFFFFFFF
QUARTERS = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)


def hchacha20(key, nonce):
    """The subkey of a key and the first 16 bytes of a nonce."""
    v = list(struct.unpack("<16I", b"expand 32-byte k" + key + nonce))
    for _ in range(10):
        for a, b, c, d in QUARTERS:
            for to, by, into, left in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                v[to] = (v[to] + v[by]) & MASK
                mixed = v[into] ^ v[to]
                v[into] = (mixed << left | mixed >> 32 - left) & MASK
    return struct.pack("<8I", *v[:4], *v[12:])


def seal_at(key, nonce, data, plaintext):
    """Ciphertext and tag under a nonce of 24 bytes."""
    cipher = ChaCha20Poly1305(hchacha20(key, nonce[:16]))
    return cipher.encrypt(bytes(4) + nonce[16:], plaintext, data)


def open_at(key, nonce, data, ciphertext):
    """What was sealed, or None."""
    return open_chacha(hchacha20(key, nonce[:16]), bytes(4) + nonce[16:], data, ciphertext)


def open_chacha(key, nonce, data, ciphertext):
    """ChaCha20-Poly1305 (RFC 8439), or None."""
    if len(ciphertext) < 16:
        return None
    try:
        return ChaCha20Poly1305(key).decrypt(nonce, ciphertext, data)
    except InvalidTag:
        return None


def hkdf(secret, info, length=32, salt=None):
    """HKDF-SHA256, extract and expand."""
    return HKDF(hashes.SHA256(), length, salt, info).derive(secret)


def hkdf_extract(salt, secret):
    """The first half of HKDF-SHA256."""
    return mac(salt, secret)


def hkdf_expand(key, info, length):
    """The second half of HKDF-SHA256."""
    return HKDFExpand(hashes.SHA256(), length, info).derive(key)


def mac(key, data):
    """HMAC-SHA256."""
    return hmac.digest(key, data, "sha256")
