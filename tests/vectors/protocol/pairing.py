"""Pairing: the mailbox's messages, and the channel under the exchanged key."""

import re

from primitives import bip39

from .devices import DevicePublic
from .encodings import MANIFEST_HEAD_SHORTEST, NeedsNewer, Reader, label, long, need, u32
from .suite import derive, mac, open_sealed

KEY_NEW, KEY_OLD, CONFIRM, SEALED, REFUSAL = 1, 2, 3, 4, 5
HEADS, OFFER, ANSWER, LINKED, STOP = 1, 2, 3, 4, 5
REASONS = {1: "declined", 2: "too many devices", 3: "failed"}
SIDES = {"new": 1, "old": 2}
MESSAGE_LIMIT, NAME_LIMIT = 65_536, 128


def read_code(text):
    """Nameplate and password of a code as a person types it."""
    parts = [part for part in re.split(r"[\s\-\u2010-\u2014]+", text.lower()) if part]
    need(len(parts) == 4, "a code is a number and three words")
    number, words = parts[0], parts[1:]
    need(re.fullmatch(r"0|[1-9][0-9]*", number) and int(number) < 2**32, "not a nameplate")
    need(all(word in bip39.PLACES for word in words), "not a word of the list")
    return int(number), "-".join(words).encode()


def identities(server, nameplate):
    """Of side A, which is `new`, and B, which is `old`."""
    place = server + u32(nameplate)
    return label("pair-new") + place, label("pair-old") + place


def read_message(data):
    """A message of the mailbox: its kind, and what it carries."""
    with Reader(data, MESSAGE_LIMIT) as reader:
        reader.format()
        kind = reader.kind((KEY_NEW, KEY_OLD, CONFIRM, SEALED, REFUSAL))
        if kind == KEY_OLD:
            return kind, (reader.long(), reader.take(32))
        if kind == CONFIRM:
            return kind, reader.take(32)
        return kind, None if kind == REFUSAL else reader.long()


class Channel:
    """What both sides know once they have the same key."""

    def __init__(self, key, both_identities, message_a, message_b):
        self.key = key
        parts = (*both_identities, message_a, message_b)
        self.transcript = label("pair-transcript") + b"".join(long(part) for part in parts)

    def confirmation(self, side):
        return mac(derive(self.key, "pair-confirm-" + side), self.transcript)

    def open(self, side, index, message):
        """The inner message that a side sent under this number."""
        kind, sealed = read_message(message)
        need(kind == SEALED, "not a sealed message")
        data = label("pair-message") + bytes([SIDES[side]]) + u32(index)
        return read_inner(open_sealed(derive(self.key, "pair-key-" + side), data, sealed))


def read_inner(data):
    """A message inside the channel."""
    with Reader(data) as reader:
        kind = reader.u8()
        if kind == HEADS:
            return kind, {"heads": _heads(reader)}
        if kind == OFFER:
            return kind, {
                "round": reader.u32(), "account": reader.take(16), "server": reader.take(32),
                "chain": reader.chain_head(), "heads": _heads(reader),
            }
        if kind == ANSWER:
            return kind, {
                "round": reader.u32(), "device": DevicePublic.read(reader),
                "name": reader.text(reader.long(NAME_LIMIT)), "co_signature": reader.take(64),
            }
        if kind == LINKED:
            return kind, {"chain": reader.chain_head()}
        if kind == STOP:
            return kind, {"reason": REASONS.get(reader.u8(), "failed")}
        raise NeedsNewer("pairing message %d" % kind)


def _heads(reader):
    return reader.list(reader.manifest_head, MANIFEST_HEAD_SHORTEST)
