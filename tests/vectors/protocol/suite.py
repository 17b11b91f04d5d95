"""Cipher suite 1: the primitives, as section "Primitives" puts them together."""

from primitives import blake3, edwards, sealing

from .encodings import Refused, label, need


def derive(secret, purpose, rest=b""):
    """HKDF(secret, label ‖ rest)."""
    return sealing.hkdf(secret, label(purpose) + rest)


def mac(key, data):
    """HMAC(key, data)."""
    return sealing.mac(key, data)


def hash_of(data):
    """BLAKE3."""
    return blake3.hash(data)


def derive_key(purpose, data):
    """BLAKE3's key derivation; the context is the label's text, without a length."""
    return blake3.derive_key("tidings/1/" + purpose, data)


def check_signature(key, signed, signature):
    """Refuses a signature that is not the key's over these bytes."""
    need(edwards.verify(key, signed, signature), "the signature does not fit")


def open_sealed(key, data, sealed):
    """Opens nonce and ciphertext, or refuses: for every reason alike."""
    plaintext = sealing.open_at(key, sealed[:24], data, sealed[24:]) if len(sealed) >= 40 else None
    if plaintext is None:
        raise Refused("does not open")
    return plaintext


def padme(length):
    """The Padmé length."""
    if length < 2:
        return length
    exponent = length.bit_length() - 1
    kept = exponent.bit_length()
    unit = 1 << max(exponent - kept, 0)
    return -(-length // unit) * unit


def unpad(padded):
    """The body in a padded body, or a refusal that says nothing more."""
    length = int.from_bytes(padded[:4], "big")
    body, zeros = padded[4:4 + length], padded[4 + length:]
    if len(padded) < 4 or len(body) != length or len(padded) != padme(4 + length) or any(zeros):
        raise Refused("does not open")
    return body
