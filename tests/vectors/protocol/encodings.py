"""Encodings: fields in a fixed order, and the reader that takes them apart."""

import re
import struct

FORMAT = 1
APP_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}\Z")


class Refused(Exception):
    """What was read does not count."""


class NeedsNewer(Refused):
    """A format or kind that this document does not describe."""


def need(holds, why):
    """Refuses unless the condition holds."""
    if not holds:
        raise Refused(why)


def u8(number):
    return struct.pack(">B", number)


def u32(number):
    return struct.pack(">I", number)


def u64(number):
    return struct.pack(">Q", number)


def long(data):
    """`bytes`: a length of four bytes, then the data."""
    return u32(len(data)) + data


def short(text):
    """`short`: a length of one byte, then the text."""
    data = text.encode()
    return u8(len(data)) + data


def label(purpose):
    """A label, as it stands before what it is for."""
    return short("tidings/1/" + purpose)


class Reader:
    """Reads one encoding. Leaving the `with` block checks that nothing is left over."""

    def __init__(self, data, limit=None):
        need(limit is None or len(data) <= limit, "longer than its limit")
        self.data, self.at = data, 0

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            need(self.at == len(self.data), "bytes after the end")

    def left(self):
        return len(self.data) - self.at

    def take(self, length):
        """`[n]`: so many bytes."""
        need(length <= self.left(), "the bytes end too early")
        self.at += length
        return self.data[self.at - length:self.at]

    def u8(self):
        return self.take(1)[0]

    def u32(self):
        return struct.unpack(">I", self.take(4))[0]

    def u64(self):
        return struct.unpack(">Q", self.take(8))[0]

    def long(self, limit=None):
        length = self.u32()
        need(limit is None or length <= limit, "longer than its limit")
        return self.take(length)

    def text(self, data):
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise Refused("not UTF-8") from error

    def app(self):
        app = self.text(self.take(self.u8()))
        need(APP_ID.match(app), "not an app id")
        return app

    def format(self):
        """The first byte of a signed thing."""
        found = self.u8()
        need(found != 0, "format 0 does not exist")
        if found != FORMAT:
            raise NeedsNewer("format %d" % found)

    def kind(self, known):
        """A kind byte, one of those listed."""
        found = self.u8()
        if found not in known:
            raise NeedsNewer("kind %d" % found)
        return found

    def list(self, item, shortest, most=None):
        """`list of x`, each of which takes at least so many bytes."""
        count = self.u32()
        need(count * shortest <= self.left(), "a count of more than is there")
        need(most is None or count <= most, "more than the limit")
        return [item() for _ in range(count)]

    def rising(self, item, shortest, key=lambda item: item, most=None):
        """A list that rises by its key, without repeats."""
        items = self.list(item, shortest, most)
        keys = [key(item) for item in items]
        need(all(a < b for a, b in zip(keys, keys[1:])), "a list that does not rise")
        return items

    def replica(self):
        """Device id and incarnation."""
        return self.take(16), self.take(8)

    def chain_head(self):
        return self.u64(), self.take(32)

    def manifest_head(self):
        """(app, replica, n, hash): app ids sort by their text, which is ASCII."""
        return self.app(), self.replica(), self.u64(), self.take(32)


MANIFEST_HEAD_SHORTEST = 2 + 24 + 8 + 32
