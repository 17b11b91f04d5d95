"""The group of Ed25519 (RFC 8032, section 5.1) and its strict signature check."""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)


def decode(encoded):
    """The point (X, Y, Z, T) that 32 bytes encode, or None."""
    number = int.from_bytes(encoded, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    y %= P
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if v * x * x % P == -u % P:
        x = x * ROOT_OF_MINUS_ONE % P
    if v * x * x % P != u:
        return None
    if x & 1 != sign:
        x = -x % P
    return x, y, 1, x * y % P


def encode(point):
    """The 32 bytes of a point."""
    x, y, z, _ = point
    inverse = pow(z, -1, P)
    x, y = x * inverse % P, y * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def add(a, b):
    """The sum of two points."""
    e = (a[1] - a[0]) * (b[1] - b[0]) % P
    f = (a[1] + a[0]) * (b[1] + b[0]) % P
    g = 2 * a[3] * b[3] * D % P
    h = 2 * a[2] * b[2] % P
    e, f, g, h = f - e, h - g, h + g, f + e
    return e * f % P, g * h % P, f * g % P, e * h % P


def negate(point):
    """The point that adds to nothing."""
    x, y, z, t = point
    return -x % P, y, z, -t % P


def multiply(scalar, point):
    """A point taken so many times."""
    total = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = add(total, point)
        point = add(point, point)
        scalar >>= 1
    return total


def is_small(point):
    """Whether the point is one of the eight of small order."""
    for _ in range(3):
        point = add(point, point)
    return point[0] == 0 and (point[1] - point[2]) % P == 0


BASE = decode((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def is_usable_key(key):
    """Whether 32 bytes can be a signing key: a point, and not of small order."""
    point = decode(key)
    return point is not None and not is_small(point)


def verify(key, message, signature):
    """Whether a signature is the key's, strictly: no small order in key or R, S below the order,
    no cofactor in the equation."""
    if len(signature) != 64 or not is_usable_key(key) or not is_usable_key(signature[:32]):
        return False
    if int.from_bytes(signature[32:], "little") >= ORDER:
        return False
    try:
        # OpenSSL compares the encoding of SB - kA with R, which is the equation without cofactor.
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except InvalidSignature:
        return False
    return True
