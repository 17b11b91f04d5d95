"""Counts what holds, and reads the files."""

import json
import pathlib
import time

from protocol.encodings import Refused

HERE = pathlib.Path(__file__).resolve().parent.parent
CRYPTO = HERE.parent.parent / "shared" / "crypto" / "tests" / "vectors"
DIRECTORIES = (CRYPTO, CRYPTO / "published", HERE)


class Report:
    """Everything that was checked."""

    def __init__(self, verbose):
        self.verbose = verbose
        self.started = time.monotonic()
        self.held, self.refused, self.failed = 0, 0, []
        self.read = set()
        self.group = ""

    def vector(self, name):
        """A file of Tidings' own answers."""
        for directory in (CRYPTO, HERE):
            if (directory / (name + ".json")).exists():
                return self._load(directory / (name + ".json"))
        raise FileNotFoundError(name)

    def published(self, name):
        """A file of somebody else's answers."""
        return self._load(CRYPTO / "published" / (name + ".json"))

    def _load(self, path):
        self.read.add(path)
        return json.loads(path.read_text(encoding="utf-8"))

    def unread(self):
        """The files that no check has read."""
        there = {path for directory in DIRECTORIES for path in directory.glob("*.json")}
        return sorted(there - self.read)

    def same(self, what, found, expected):
        """Checks that two values are the same, in their types too."""
        as_text = [value.hex() if isinstance(value, bytes) else value for value in (found, expected)]
        if repr(as_text[0]) == repr(as_text[1]):
            self._hold(what)
        else:
            self.fail(what, "found %r, expected %r" % tuple(as_text))

    def holds(self, what, condition):
        """Checks a condition."""
        if condition:
            self._hold(what)
        else:
            self.fail(what, "does not hold")

    def refuses(self, what, opens, *arguments):
        """Checks that a forgery is refused, in the one way that refusals have."""
        try:
            opens(*arguments)
        except Refused as reason:
            self.refused += 1
            self._say("refused", what, reason)
            return
        self.fail(what, "a forgery was taken")

    def flips(self, what, data, opens, every=1):
        """Checks that no byte of `data` can change (those at the ends always, in between each
        `every`th), that it cannot end early, and that nothing can follow it."""
        for at in range(len(data)):
            if at % every == 0 or at < 64 or at >= len(data) - 64:
                changed = bytearray(data)
                changed[at] ^= 1 << at % 8
                self.refuses("%s, byte %d changed" % (what, at), opens, bytes(changed))
        for length in {0, 1, len(data) // 2, len(data) - 1}:
            self.refuses("%s, cut to %d bytes" % (what, length), opens, data[:length])
        self.refuses("%s, a byte longer" % what, opens, data + b"\0")

    def fail(self, what, why):
        self.failed.append("%s: %s: %s" % (self.group, what, why))
        print("FAILED %s" % self.failed[-1])

    def _hold(self, what):
        self.held += 1
        self._say("holds", what, "")

    def _say(self, outcome, what, why):
        if self.verbose:
            print("%-8s %s: %s%s" % (outcome, self.group, what, " (%s)" % why if why else ""))


def unhex(vector, *fields):
    """Fields of hexadecimal text: one, or a list of several."""
    values = [bytes.fromhex(vector[field]) for field in fields]
    return values[0] if len(values) == 1 else values
