"""Writes what a forger would: well-formed, signed by keys that it has, and against a rule."""

from protocol.devices import COMPUTER, DeviceKeys
from protocol.encodings import label, long, u32, u64


class Forger:
    """A device whose keys come of a byte, or of one each."""

    def __init__(self, byte, kind=COMPUTER, wrapping=None):
        self.keys = DeviceKeys(kind, bytes([byte]) * 32, bytes([wrapping or byte]) * 32)
        self.id = self.keys.id()

    def public(self):
        return self.keys.public.encode()

    def sign(self, purpose, encoding):
        """The encoding with its signature."""
        return encoding + self.keys.sign(label(purpose) + encoding)

    def co_signature(self, account, index):
        return self.keys.sign(label("co-signature") + account + u64(index) + self.id)

    def entry(self, account, index, prev, kind, body, format=1, signer=None):
        head = bytes([format]) + account + u64(index) + prev + bytes([kind])
        return self.sign("entry", head + long(body) + (signer or self.id))

    def genesis(self, commit):
        return self.entry(bytes(16), 0, bytes(32), 1, self.public() + commit)

    def after(self, chain, kind, body):
        """An entry that follows the chain's head."""
        index, prev = chain.head()
        return self.entry(chain.account, index + 1, prev, kind, body)

    def add(self, chain, device, co_signature=None):
        """The entry that adds another device."""
        own = device.co_signature(chain.account, chain.head()[0] + 1)
        return self.after(chain, 2, device.public() + (co_signature or own))


def new_epoch(number, seals, commit=bytes(32), earlier=bytes(32)):
    return u32(number) + commit + u32(seals) + earlier


def listed(*items):
    """A list of encodings."""
    return u32(len(items)) + b"".join(items)
