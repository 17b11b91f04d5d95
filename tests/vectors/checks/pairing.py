"""Pairing: messages, confirmations, what passes through the channel."""

import hashlib

from primitives import edwards, spake2
from protocol import pairing
from protocol.devices import DeviceKeys
from protocol.encodings import long, u64
from protocol.pairing import ANSWER, HEADS, LINKED, OFFER, STOP, Channel

from .report import unhex


class Conversation:
    """A stored conversation, with the channel that a given key opens."""

    def __init__(self, vector, key):
        self.vector = vector
        self.new, self.old = (
            [bytes.fromhex(message) for message in vector[side]] for side in ("new", "old")
        )
        self.nameplate, self.password = pairing.read_code(vector["code"])
        self.identities = pairing.identities(unhex(vector, "server_id"), self.nameplate)
        _, self.message_a = pairing.read_message(self.new[0])
        _, (self.message_b, self.confirmed) = pairing.read_message(self.old[0])
        self.channel = Channel(key, self.identities, self.message_a, self.message_b)

    def inner(self, side, index):
        return self.channel.open(side, index, getattr(self, side)[index])


def check_confirmations(report, conversation):
    channel = conversation.channel
    report.same("confirmation of old", channel.confirmation("old"), conversation.confirmed)
    _, confirmed = pairing.read_message(conversation.new[1])
    report.same("confirmation of new", channel.confirmation("new"), confirmed)
    other = Channel(bytes(32), conversation.identities, conversation.message_a, conversation.message_b)
    report.holds("another key confirms otherwise", other.confirmation("new") != confirmed)


def check_offer(report, conversation, offer, round, index, heads):
    kind, fields = offer
    report.same("offer", kind, OFFER)
    report.same("round", fields["round"], round)
    report.same("account", fields["account"].hex(), conversation.vector["account"])
    report.same("server", fields["server"].hex(), conversation.vector["server_id"])
    report.same("chain", fields["chain"], (index, b"\xce" * 32))
    report.same("heads", [head[2] for head in fields["heads"]], heads)


def check_answer(report, conversation, answer, offer):
    kind, fields = answer
    keys = DeviceKeys.read(unhex(conversation.vector, "device_keys"))
    report.same("answer", kind, ANSWER)
    report.same("round", fields["round"], offer["round"])
    report.same("device", fields["device"], keys.public)
    report.same("name", fields["name"], "Desk")
    index = offer["chain"][0] + 1
    fields["device"].check_co_signature(offer["account"], index, fields["co_signature"])
    check = fields["device"].check_co_signature
    report.refuses("for another index", check, offer["account"], index + 1, fields["co_signature"])


def check_whole(report, conversation):
    """Offer, answer, linked, and forgeries of each."""
    check_confirmations(report, conversation)
    offer = conversation.inner("old", 1)
    check_offer(report, conversation, offer, 0, 4, [6])
    check_answer(report, conversation, conversation.inner("new", 2), offer[1])
    report.same("linked", conversation.inner("old", 2), (LINKED, {"chain": (5, b"\xce" * 32)}))
    refusal = unhex(conversation.vector, "refusal")
    report.same("refusal", pairing.read_message(refusal), (pairing.REFUSAL, None))
    channel, old, new = conversation.channel, conversation.old, conversation.new
    report.flips("offer", old[1], lambda data: channel.open("old", 1, data))
    report.flips("answer", new[2], lambda data: channel.open("new", 2, data), every=29)
    report.refuses("a message again", channel.open, "old", 2, old[1])
    report.refuses("a message in another place", channel.open, "old", 1, old[2])
    report.refuses("an own message sent back", channel.open, "new", 1, old[1])
    report.refuses("an unsealed message", channel.open, "new", 1, new[1])
    report.refuses("a message of a later format", pairing.read_message, b"\2" + new[1][1:])
    report.refuses("a message of an unknown kind", pairing.read_message, b"\1\6")
    report.refuses("a message too long", pairing.read_message, b"\1\4" + long(bytes(65_536)))


def check_pairing(report):
    vector = report.vector("pairing")
    check_whole(report, Conversation(vector, unhex(vector, "pake_secret")))


def check_pairing_again(report):
    vector = report.vector("pairing_again")
    conversation = Conversation(vector, unhex(vector, "pake_secret"))
    check_confirmations(report, conversation)
    kind, fields = conversation.inner("old", 1)
    report.same("heads", kind, HEADS)
    numbers = [head[2] for head in fields["heads"]]
    first = conversation.inner("old", 2)
    check_offer(report, conversation, first, 0, 4, list(range(len(numbers), vector["heads"])))
    report.same("heads in order", numbers, list(range(len(numbers))))
    check_answer(report, conversation, conversation.inner("new", 2), first[1])
    second = conversation.inner("old", 3)
    check_offer(report, conversation, second, 1, 5, [])
    check_answer(report, conversation, conversation.inner("new", 3), second[1])
    report.same("stop", conversation.inner("old", 4), (STOP, {"reason": "too many devices"}))
    report.same("a reason of later", pairing.read_inner(b"\5\x63"), (STOP, {"reason": "failed"}))
    report.refuses("an inner message of an unknown kind", pairing.read_inner, b"\6")
    report.refuses("an inner message with more in it", pairing.read_inner, b"\5\1\0")


def seeded(seed, length):
    """The randomness of a vector: SHA-256 of its seed and a counter, again and again."""
    blocks = -(-length // 32)
    return b"".join(
        hashlib.sha256(seed.encode() + u64(counter)).digest() for counter in range(blocks)
    )[:length]


def check_pairing_spake2(report):
    vector = report.vector("pairing_spake2")
    drawn = seeded("vector: pairing, spake2", 192)
    report.same("keys of new", "0101" + drawn[:64].hex(), vector["device_keys"])
    x, y = (
        int.from_bytes(drawn[at:at + 64], "little") % edwards.ORDER for at in (64, 128)
    )
    seen = Conversation(vector, bytes(32))
    password, both, a, b = seen.password, seen.identities, seen.message_a, seen.message_b
    report.same("message of A", spake2.message_a(password, x), a)
    report.same("message of B", spake2.message_b(password, y), b)
    key = spake2.key_of_a(password, both, x, a, b)
    report.same("one key", key, spake2.key_of_b(password, both, y, a, b))
    check_whole(report, Conversation(vector, key))
    _, confirmed = pairing.read_message(seen.new[1])
    guesses = {
        "a wrong word": (b"amused-violin-zebra", both),
        "another server": (password, pairing.identities(bytes(32), seen.nameplate)),
        "another nameplate": (password, pairing.identities(unhex(vector, "server_id"), 4822)),
        "sides swapped": (password, both[::-1]),
    }
    for what, (guess, identities) in guesses.items():
        channel = Channel(spake2.key_of_a(guess, identities, x, a, b), both, a, b)
        report.holds(what + " confirms otherwise", channel.confirmation("new") != confirmed)
        report.refuses(what + " opens", channel.open, "old", 1, seen.old[1])


def check_code(report):
    expected = (4821, b"amused-violin-tunnel")
    for typed in ("4821-amused-violin-tunnel", " 4821 Amused  VIOLIN\ttunnel\n",
                  "4821\u2013amused\u2014violin-tunnel", "-4821--amused-violin-tunnel-"):
        report.same("typed as %r" % typed, pairing.read_code(typed), expected)
    for typed in ("", "amused-violin-tunnel", "1-amused-violin", "1-amused-violin-tunnel-zoo",
                  "1-amused-violni-tunnel", "99999999999-amused-violin-tunnel", "01-amused-violin-tunnel"):
        report.refuses("typed as %r" % typed, pairing.read_code, typed)
