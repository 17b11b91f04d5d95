"""SPAKE2 in Ed25519's group, as python-spake2 (Magic Wormhole) has it: like RFC 9382 in its
messages, with a key derivation of its own that is older than that."""

import hashlib

from . import edwards
from .sealing import hkdf

M = edwards.decode(bytes.fromhex("15cfd18e385952982b6a8f8c7854963b58e34388c8e6dae891db756481a02312"))
N = edwards.decode(bytes.fromhex("f04f2e7eb734b2a8f8b472eaf9c3c632576ac64aea650b496a8a20ff00e583c3"))


def password_scalar(password):
    """w: the password as a number."""
    wide = hkdf(password, b"SPAKE2 pw", length=48)
    return int.from_bytes(wide, "big") % edwards.ORDER


def message_a(password, x):
    """What side A sends, of its random scalar."""
    return b"A" + _blinded(password, x, M)


def message_b(password, y):
    """What side B sends, of its random scalar."""
    return b"B" + _blinded(password, y, N)


def _blinded(password, scalar, by):
    own = edwards.multiply(scalar, edwards.BASE)
    return edwards.encode(edwards.add(own, edwards.multiply(password_scalar(password), by)))


def key_of_a(password, identities, x, a, b):
    """The key that side A ends with, or None when B's message is none."""
    return _key(password, identities, x, a, b, b, b"B", N)


def key_of_b(password, identities, y, a, b):
    """The key that side B ends with, or None when A's message is none."""
    return _key(password, identities, y, a, b, a, b"A", M)


def _key(password, identities, scalar, a, b, other, side, blinded_by):
    point = edwards.decode(other[1:]) if len(other) == 33 and other[:1] == side else None
    if point is None:
        return None
    blind = edwards.negate(edwards.multiply(password_scalar(password), blinded_by))
    z = edwards.encode(edwards.multiply(scalar, edwards.add(point, blind)))
    hashed = [hashlib.sha256(part).digest() for part in (password, *identities)]
    return hashlib.sha256(b"".join(hashed) + a[1:] + b[1:] + z).digest()
