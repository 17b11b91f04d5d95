"""Epochs: commits, wraps, sealed earlier secrets, and the key ring that they fill."""

import hmac

from primitives import hpke

from .encodings import Reader, label, need, short, u32
from .suite import derive, hash_of, open_sealed


def commit_of(secret):
    """What the chain says of a secret."""
    return derive(secret, "commit")


def seal_key(secret, app):
    """The key of an app's blobs and parts in an epoch."""
    return derive(secret, "seal-key", short(app))


class KeyRing:
    """The epoch secrets of an account that a device holds."""

    def __init__(self, account, secrets=None):
        self.account, self.secrets = account, dict(secrets or {})

    @classmethod
    def read(cls, data):
        """Section "Stored secrets"."""
        with Reader(data) as reader:
            reader.format()
            account = reader.take(16)
            pairs = reader.rising(
                lambda: (reader.u32(), reader.take(32)), 36, key=lambda pair: pair[0]
            )
            return cls(account, pairs)

    def secret(self, epoch):
        need(epoch in self.secrets, "the epoch's secret is not held")
        return self.secrets[epoch]

    def insert(self, chain, epoch, secret):
        """Takes a secret, if the chain commits to it."""
        need(chain.account == self.account, "another account's chain")
        need(epoch in chain.epochs, "an epoch that is not in the chain")
        fits = hmac.compare_digest(commit_of(secret), chain.epochs[epoch].commit)
        need(fits, "a secret that the chain does not commit to")
        self.secrets[epoch] = secret

    def accept_wrap(self, chain, keys, wrap):
        """Opens a wrap to the device with these keys."""
        with Reader(wrap) as reader:
            reader.format()
            epoch, device = reader.u32(), reader.take(16)
            enc, ciphertext = reader.take(1120), reader.take(48)
        need(device == keys.id(), "a wrap to another device")
        need(epoch in chain.epochs, "an epoch that is not in the chain")
        shared = keys.wrapping.decapsulate(enc)
        place = self.account + u32(epoch) + device + chain.epochs[epoch].commit
        secret = hpke.open_base(
            hpke.X_WING, shared, label("wrap"), label("wrap") + place, ciphertext
        )
        need(secret is not None, "does not open")
        self.insert(chain, epoch, secret)

    def accept_earlier(self, chain, sealed):
        """Opens the secret of an earlier epoch with that of a later one."""
        with Reader(sealed) as reader:
            reader.format()
            epoch, seals, rest = reader.u32(), reader.u32(), reader.take(72)
        record = chain.epochs.get(epoch)
        need(record is not None, "an epoch that is not in the chain")
        # The hash holds the epochs' numbers too.
        need(record.earlier == earlier_hash(sealed), "not the sealed secret that the chain names")
        key = derive(self.secret(epoch), "earlier-key")
        data = label("earlier-data") + self.account + u32(epoch) + u32(seals)
        self.insert(chain, seals, open_sealed(key, data, rest))


def earlier_hash(sealed):
    """The hash by which an entry names a sealed earlier secret."""
    return hash_of(label("earlier-hash") + sealed)
