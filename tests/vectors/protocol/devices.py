"""Devices and ids."""

from dataclasses import dataclass

from primitives import edwards
from primitives.hpke import XWingKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from .encodings import Reader, label, need, short, u64
from .suite import check_signature, derive, derive_key, mac

COMPUTER, PAPER = 1, 2


@dataclass(frozen=True)
class DevicePublic:
    """What everybody knows of a device."""

    kind: int
    signing: bytes
    wrapping: bytes

    @classmethod
    def read(cls, reader):
        return cls(reader.kind((COMPUTER, PAPER)), reader.take(32), reader.take(1216))

    def encode(self):
        return bytes([self.kind]) + self.signing + self.wrapping

    def id(self):
        return derive_key("device-id", self.signing + self.wrapping)[:16]

    def is_usable(self):
        return edwards.is_usable_key(self.signing)

    def check_co_signature(self, account, index, signature):
        """That this device itself says that it joins the account at this index."""
        signed = label("co-signature") + account + u64(index) + self.id()
        check_signature(self.signing, signed, signature)


class DeviceKeys:
    """A device's secret keys (section "Stored secrets")."""

    def __init__(self, kind, signing_seed, wrapping_seed):
        self.signer = Ed25519PrivateKey.from_private_bytes(signing_seed)
        self.wrapping = XWingKey(wrapping_seed)
        signing = self.signer.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public = DevicePublic(kind, signing, self.wrapping.public)

    @classmethod
    def read(cls, data):
        with Reader(data) as reader:
            reader.format()
            return cls(reader.kind((COMPUTER, PAPER)), reader.take(32), reader.take(32))

    def id(self):
        return self.public.id()

    def sign(self, signed):
        return self.signer.sign(signed)


def server_id(token_key):
    """A server's id."""
    return derive_key("server-id", token_key)


def table_tag(first_secret, app, table):
    """What a server knows of a table's name: from the secret of epoch 0, for ever."""
    return mac(derive(first_secret, "tag-key", short(app)), table.encode())[:16]


def parse_id(text, length):
    """An id as text: lower-case hexadecimal, and nothing else."""
    need(len(text) == 2 * length and all(c in "0123456789abcdef" for c in text), "not an id")
    return bytes.fromhex(text)
