"""BLAKE3 (https://github.com/BLAKE3-team/BLAKE3-specs), the parts in use: hash and derive_key."""

import struct

IV = (
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
    0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
# Which words each of the eight quarter rounds mixes: columns, then diagonals.
QUARTERS = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
DERIVE_KEY_CONTEXT, DERIVE_KEY_MATERIAL = 32, 64
BLOCK, CHUNK = 64, 1024
MASK = 0xFFFFFFFF


def hash(data):
    """The hash of data, 32 bytes."""
    return _digest(IV, 0, data)


def derive_key(context, material):
    """The key that a context (text) and key material give, 32 bytes."""
    context_key = _digest(IV, DERIVE_KEY_CONTEXT, context.encode())
    return _digest(struct.unpack("<8I", context_key), DERIVE_KEY_MATERIAL, material)


def _digest(key, flags, data):
    words = _node(key, flags, data, 0, ROOT)
    return struct.pack("<8I", *words)


def _node(key, flags, data, counter, root):
    """Chaining value of the subtree over data, which begins at chunk number `counter`."""
    if len(data) <= CHUNK:
        return _chunk(key, flags, data, counter, root)
    # The left subtree is the largest power of two of whole chunks that leaves something over.
    chunks = (len(data) - 1) // CHUNK
    left = 1 << (chunks.bit_length() - 1)
    split = left * CHUNK
    both = _node(key, flags, data[:split], counter, 0)
    both += _node(key, flags, data[split:], counter + left, 0)
    return _compress(key, both, 0, BLOCK, flags | PARENT | root)


def _chunk(key, flags, data, counter, root):
    blocks = [data[at:at + BLOCK] for at in range(0, len(data), BLOCK)] or [b""]
    value = key
    for number, block in enumerate(blocks):
        block_flags = flags
        if number == 0:
            block_flags |= CHUNK_START
        if number == len(blocks) - 1:
            block_flags |= CHUNK_END | root
        words = struct.unpack("<16I", block.ljust(BLOCK, b"\0"))
        value = _compress(value, words, counter, len(block), block_flags)
    return value


def _compress(value, words, counter, length, flags):
    v = list(value) + list(IV[:4]) + [counter & MASK, counter >> 32, length, flags]
    for round_number in range(7):
        for number, (a, b, c, d) in enumerate(QUARTERS):
            va, vb, vc, vd = v[a], v[b], v[c], v[d]
            va = (va + vb + words[2 * number]) & MASK
            vd ^= va
            vd = (vd >> 16 | vd << 16) & MASK
            vc = (vc + vd) & MASK
            vb ^= vc
            vb = (vb >> 12 | vb << 20) & MASK
            va = (va + vb + words[2 * number + 1]) & MASK
            vd ^= va
            vd = (vd >> 8 | vd << 24) & MASK
            vc = (vc + vd) & MASK
            vb ^= vc
            vb = (vb >> 7 | vb << 25) & MASK
            v[a], v[b], v[c], v[d] = va, vb, vc, vd
        if round_number < 6:
            words = [words[at] for at in PERMUTATION]
    return tuple(v[at] ^ v[at + 8] for at in range(8))
