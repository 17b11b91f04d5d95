"""ML-KEM-768 (FIPS 203). The names are the standard's."""

import hashlib

Q, N, K = 3329, 256, 3
ETA = 2
DU, DV = 10, 4


def _bit_reversed(number):
    return int(f"{number:07b}"[::-1], 2)


ZETAS = [pow(17, _bit_reversed(at), Q) for at in range(128)]
GAMMAS = [pow(17, 2 * _bit_reversed(at) + 1, Q) for at in range(128)]


def _g(data):
    digest = hashlib.sha3_512(data).digest()
    return digest[:32], digest[32:]


def _h(data):
    return hashlib.sha3_256(data).digest()


def _j(data):
    return hashlib.shake_256(data).digest(32)


def keygen(d, z):
    """Algorithm 16: encapsulation and decapsulation key of two seeds."""
    rho, sigma = _g(d + bytes([K]))
    a = _matrix(rho)
    s = [_ntt(_sample_cbd(sigma, at)) for at in range(K)]
    e = [_ntt(_sample_cbd(sigma, K + at)) for at in range(K)]
    t = [_add(_dot(a[row], s), e[row]) for row in range(K)]
    ek = b"".join(_encode(poly, 12) for poly in t) + rho
    dk = b"".join(_encode(poly, 12) for poly in s) + ek + _h(ek) + z
    return ek, dk


def is_encapsulation_key(ek):
    """The check of section 7.2: its length, and every coefficient below Q."""
    return len(ek) == 384 * K + 32 and all(
        max(_decode(ek[384 * at:384 * at + 384], 12)) < Q for at in range(K)
    )


def encapsulate(ek, m):
    """Algorithm 17: shared secret and ciphertext, from 32 given random bytes."""
    key, r = _g(m + _h(ek))
    return key, _encrypt(ek, m, r)


def decapsulate(dk, c):
    """Algorithm 18: the shared secret; another one, which nobody knows, for a false ciphertext."""
    s, ek = dk[:384 * K], dk[384 * K:768 * K + 32]
    h, z = dk[768 * K + 32:768 * K + 64], dk[768 * K + 64:]
    m = _decrypt(s, c)
    key, r = _g(m + h)
    return key if _encrypt(ek, m, r) == c else _j(z + c)


def _encrypt(ek, m, r):
    t = [_decode(ek[384 * at:384 * at + 384], 12) for at in range(K)]
    a = _matrix(ek[384 * K:])
    y = [_ntt(_sample_cbd(r, at)) for at in range(K)]
    e1 = [_sample_cbd(r, K + at) for at in range(K)]
    e2 = _sample_cbd(r, 2 * K)
    transposed = [[a[row][column] for row in range(K)] for column in range(K)]
    u = [_add(_inverse_ntt(_dot(transposed[at], y)), e1[at]) for at in range(K)]
    mu = [_decompress(bit, 1) for bit in _decode(m, 1)]
    v = _add(_add(_inverse_ntt(_dot(t, y)), e2), mu)
    c = b"".join(_encode([_compress(x, DU) for x in poly], DU) for poly in u)
    return c + _encode([_compress(x, DV) for x in v], DV)


def _decrypt(dk, c):
    step = 32 * DU
    u = [[_decompress(x, DU) for x in _decode(c[step * at:step * at + step], DU)] for at in range(K)]
    v = [_decompress(x, DV) for x in _decode(c[step * K:], DV)]
    s = [_decode(dk[384 * at:384 * at + 384], 12) for at in range(K)]
    inner = _inverse_ntt(_dot(s, [_ntt(poly) for poly in u]))
    return _encode([_compress((a - b) % Q, 1) for a, b in zip(v, inner)], 1)


def _matrix(rho):
    return [[_sample_ntt(rho + bytes([column, row])) for column in range(K)] for row in range(K)]


def _sample_ntt(seed):
    """Algorithm 7: a polynomial in NTT form, by rejection."""
    length, coefficients = 672, []
    while len(coefficients) < N:
        stream = hashlib.shake_128(seed).digest(length)
        coefficients = []
        for at in range(0, length, 3):
            low, mid, high = stream[at:at + 3]
            for candidate in (low | (mid & 15) << 8, mid >> 4 | high << 4):
                if candidate < Q:
                    coefficients.append(candidate)
        length += 168
    return coefficients[:N]


def _sample_cbd(seed, nonce):
    """Algorithm 8: small coefficients, as differences of sums of bits."""
    bits = int.from_bytes(hashlib.shake_256(seed + bytes([nonce])).digest(64 * ETA), "little")
    poly = []
    for _ in range(N):
        poly.append(((bits & 1) + (bits >> 1 & 1) - (bits >> 2 & 1) - (bits >> 3 & 1)) % Q)
        bits >>= 4
    return poly


def _ntt(poly):
    """Algorithm 9."""
    f, at, length = list(poly), 1, 128
    while length >= 2:
        for start in range(0, N, 2 * length):
            zeta = ZETAS[at]
            at += 1
            for j in range(start, start + length):
                t = zeta * f[j + length] % Q
                f[j + length] = (f[j] - t) % Q
                f[j] = (f[j] + t) % Q
        length //= 2
    return f


def _inverse_ntt(poly):
    """Algorithm 10."""
    f, at, length = list(poly), 127, 2
    while length <= 128:
        for start in range(0, N, 2 * length):
            zeta = ZETAS[at]
            at -= 1
            for j in range(start, start + length):
                t = f[j]
                f[j] = (t + f[j + length]) % Q
                f[j + length] = zeta * (f[j + length] - t) % Q
        length *= 2
    return [x * 3303 % Q for x in f]


def _dot(left, right):
    """The sum of products, in NTT form (algorithms 11 and 12)."""
    total = [0] * N
    for f, g in zip(left, right):
        for at in range(128):
            a0, a1, b0, b1 = f[2 * at], f[2 * at + 1], g[2 * at], g[2 * at + 1]
            total[2 * at] += a0 * b0 + a1 * b1 * GAMMAS[at]
            total[2 * at + 1] += a0 * b1 + a1 * b0
    return [x % Q for x in total]


def _add(left, right):
    return [(a + b) % Q for a, b in zip(left, right)]


def _compress(x, bits):
    return ((x << bits + 1) + Q) // (2 * Q) % (1 << bits)


def _decompress(y, bits):
    return (2 * Q * y + (1 << bits)) >> bits + 1


def _encode(poly, bits):
    packed = 0
    for at, x in enumerate(poly):
        packed |= x << at * bits
    return packed.to_bytes(32 * bits, "little")


def _decode(data, bits):
    packed, mask = int.from_bytes(data, "little"), (1 << bits) - 1
    return [packed >> at * bits & mask for at in range(N)]
