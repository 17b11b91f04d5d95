"""Zstandard (RFC 8878) through the library that every Debian has."""

import ctypes

_LIBRARY = ctypes.CDLL("libzstd.so.1")
_LIBRARY.ZSTD_isError.argtypes = [ctypes.c_size_t]
for _name in ("ZSTD_findFrameCompressedSize", "ZSTD_decompress"):
    getattr(_LIBRARY, _name).restype = ctypes.c_size_t
_LIBRARY.ZSTD_findFrameCompressedSize.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
_LIBRARY.ZSTD_decompress.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t,
]
MAGIC = bytes.fromhex("28b52ffd")
WINDOW = 1 << 20


def decompress(frame, limit):
    """What one frame, and nothing after it, unpacks to; None if that is more than `limit` bytes,
    wants a larger window than 2^20, or the frame is damaged."""
    window = _window(frame)
    if window is None or window > WINDOW:
        return None
    if _LIBRARY.ZSTD_findFrameCompressedSize(frame, len(frame)) != len(frame):
        return None
    room = ctypes.create_string_buffer(limit)
    length = _LIBRARY.ZSTD_decompress(room, limit, frame, len(frame))
    return None if _LIBRARY.ZSTD_isError(length) else room.raw[:length]


def _window(frame):
    """The window that a frame's header asks for (RFC 8878, section 3.1.1.1)."""
    if frame[:4] != MAGIC or len(frame) < 6:
        return None
    descriptor = frame[4]
    if not descriptor & 0x20:
        exponent, mantissa = frame[5] >> 3, frame[5] & 7
        base = 1 << 10 + exponent
        return base + base // 8 * mantissa
    dictionary = (0, 1, 2, 4)[descriptor & 3]
    size_len = (1, 2, 4, 8)[descriptor >> 6]
    size = int.from_bytes(frame[5 + dictionary:5 + dictionary + size_len], "little")
    return size + 256 if size_len == 2 else size
