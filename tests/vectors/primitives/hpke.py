"""HPKE (RFC 9180) in base mode with HKDF-SHA256 and ChaCha20-Poly1305, for one message; the KEMs
X-Wing (draft-connolly-cfrg-xwing-kem) and DHKEM(X25519, HKDF-SHA256), which only the RFC's own
vector needs."""

import hashlib

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from . import mlkem
from .sealing import hkdf_expand, hkdf_extract, open_chacha

X_WING, DHKEM_X25519 = 0x647A, 0x0020
KDF, AEAD = 0x0001, 0x0003
X_WING_LABEL = bytes.fromhex("5c2e2f2f5e5c")


def x25519(scalar, point):
    """X25519 (RFC 7748). The package does not give a result of zeros, which X-Wing goes on with."""
    try:
        return X25519PrivateKey.from_private_bytes(scalar).exchange(
            X25519PublicKey.from_public_bytes(point)
        )
    except ValueError:
        return bytes(32)


def x25519_public(scalar):
    """The public key of a scalar."""
    key = X25519PrivateKey.from_private_bytes(scalar).public_key()
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


class XWingKey:
    """An X-Wing key pair, expanded from the decapsulation key of 32 bytes."""

    def __init__(self, seed):
        expanded = hashlib.shake_256(seed).digest(96)
        ek, self._mlkem = mlkem.keygen(expanded[:32], expanded[32:64])
        self._scalar = expanded[64:]
        self._x_public = x25519_public(self._scalar)
        self.public = ek + self._x_public

    def decapsulate(self, enc):
        """The shared secret; another one for a false encapsulated key."""
        shared = x25519(self._scalar, enc[1088:])
        secret = mlkem.decapsulate(self._mlkem, enc[:1088])
        return _combine(secret, shared, enc[1088:], self._x_public)


def x_wing_encapsulate(public, seed):
    """Shared secret and encapsulated key, from 64 given random bytes."""
    secret, ciphertext = mlkem.encapsulate(public[:1184], seed[:32])
    x_public = x25519_public(seed[32:])
    shared = x25519(seed[32:], public[1184:])
    return _combine(secret, shared, x_public, public[1184:]), ciphertext + x_public


def _combine(secret, shared, x_ciphertext, x_public):
    return hashlib.sha3_256(secret + shared + x_ciphertext + x_public + X_WING_LABEL).digest()


def dhkem_decapsulate(scalar, enc):
    """The shared secret of DHKEM(X25519, HKDF-SHA256)."""
    suite = b"KEM" + DHKEM_X25519.to_bytes(2, "big")
    key = _extract(suite, b"", b"eae_prk", x25519(scalar, enc))
    return _expand(suite, key, b"shared_secret", enc + x25519_public(scalar), 32)


def open_base(kem, shared, info, data, ciphertext):
    """The one message of a context in base mode, or None."""
    suite = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (kem, KDF, AEAD))
    context = b"\0" + _extract(suite, b"", b"psk_id_hash", b"")
    context += _extract(suite, b"", b"info_hash", info)
    secret = _extract(suite, shared, b"secret", b"")
    key = _expand(suite, secret, b"key", context, 32)
    nonce = _expand(suite, secret, b"base_nonce", context, 12)
    return open_chacha(key, nonce, data, ciphertext)


def _extract(suite, salt, label, secret):
    return hkdf_extract(salt, b"HPKE-v1" + suite + label + secret)


def _expand(suite, key, label, info, length):
    return hkdf_expand(key, length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info, length)
