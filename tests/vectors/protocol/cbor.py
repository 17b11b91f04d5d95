"""CBOR (RFC 8949) as bodies have it: one encoding for each value."""

import math
import struct

from .encodings import Refused, need

DEPTH = 64
# The arrays of body, rows, row and cells around a value.
AROUND = 6


class Undefined:
    """CBOR's undefined: a value that was removed."""

    def __repr__(self):
        return "undefined"

    def __deepcopy__(self, _):
        return self


UNDEFINED = Undefined()


class Decoder:
    """Reads items. `finish` checks that nothing is left over."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def finish(self):
        need(self.at == len(self.data), "bytes after the end")

    def take(self, length):
        need(length <= len(self.data) - self.at, "the bytes end too early")
        self.at += length
        return self.data[self.at - length:self.at]

    def head(self):
        """Major type and argument, of a head that is as short as it can be."""
        first = self.take(1)[0]
        major, small = first >> 5, first & 31
        if major == 7 or small < 24:
            return major, small
        need(small < 28, "an indefinite length")
        argument = int.from_bytes(self.take(1 << small - 24), "big")
        least = 24 if small == 24 else 1 << (4 << small - 24)
        need(argument >= least, "a head that could be shorter")
        return major, argument

    def next_is(self, byte):
        """Whether the next item begins with this byte."""
        return self.at < len(self.data) and self.data[self.at] == byte

    def item(self, levels=DEPTH + AROUND):
        """Any item, nested at most so many levels. Maps rise by the bytes of their keys."""
        major, argument = self.head()
        if major == 0:
            return argument
        if major == 1:
            return -1 - argument
        if major == 2:
            return self.take(argument)
        if major == 3:
            try:
                return self.take(argument).decode()
            except UnicodeDecodeError as error:
                raise Refused("not UTF-8") from error
        if major in (4, 5):
            need(levels > 0, "nested too deep")
            need(argument <= len(self.data) - self.at, "a length of more than is there")
        if major == 4:
            return [self.item(levels - 1) for _ in range(argument)]
        if major == 5:
            return self._map(argument, levels - 1)
        need(major == 7, "a tag")
        return self._simple(argument)

    def _map(self, count, levels):
        members, last = {}, None
        for _ in range(count):
            key = self.item(0)
            need(isinstance(key, (str, bytes)), "a key that is neither text nor bytes")
            order = key.encode() if isinstance(key, str) else key
            need(last is None or last < order, "members that do not rise")
            members[key], last = self.item(levels), order
        return members

    def _simple(self, argument):
        simple = {20: False, 21: True, 22: None, 23: UNDEFINED}
        if argument in simple:
            return simple[argument]
        need(argument == 27, "neither simple value nor float of 64 bits")
        number = struct.unpack(">d", self.take(8))[0]
        need(math.isfinite(number), "a float that is no number")
        return number


def decode(data):
    """The one item that fills the bytes."""
    decoder = Decoder(data)
    item = decoder.item()
    decoder.finish()
    return item


def encode(item):
    """The encoding of an item."""
    if item is None or item is UNDEFINED or isinstance(item, bool):
        return bytes([{False: 0xF4, True: 0xF5, None: 0xF6}.get(item, 0xF7)])
    if isinstance(item, int):
        return _head(0, item) if item >= 0 else _head(1, -1 - item)
    if isinstance(item, float):
        return b"\xfb" + struct.pack(">d", item)
    if isinstance(item, bytes):
        return _head(2, len(item)) + item
    if isinstance(item, str):
        return _head(3, len(item.encode())) + item.encode()
    if isinstance(item, list):
        return _head(4, len(item)) + b"".join(map(encode, item))
    order = sorted(item, key=lambda key: key.encode() if isinstance(key, str) else key)
    return _head(5, len(item)) + b"".join(encode(key) + encode(item[key]) for key in order)


def _head(major, argument):
    if argument < 24:
        return bytes([major << 5 | argument])
    for more in range(4):
        if argument < 1 << (8 << more):
            return bytes([major << 5 | 24 + more]) + argument.to_bytes(1 << more, "big")
    raise ValueError("no CBOR head holds this")
