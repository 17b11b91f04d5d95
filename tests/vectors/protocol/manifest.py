"""Manifests: what a replica says about an app."""

from dataclasses import dataclass

from .encodings import FORMAT, Reader, label, need
from .suite import check_signature, hash_of

LIMIT, LANES, APPS = 262_144, 4_000, 4_096


@dataclass(frozen=True)
class Manifest:
    """A manifest, read and not yet believed."""

    account: bytes
    app: str
    replica: tuple
    n: int
    time_ms: int
    lanes: dict
    runs: list
    seen: dict
    apps: list
    wants: list
    chain: tuple
    signed: bytes
    signature: bytes

    @classmethod
    def read(cls, data):
        with Reader(data, LIMIT) as reader:
            reader.format()
            account, app, replica = reader.take(16), reader.app(), reader.replica()
            n, time_ms = reader.u64(), reader.u64()
            lanes = reader.rising(
                lambda: (reader.take(16), (reader.u64(), reader.take(32))), 56,
                key=lambda lane: lane[0], most=LANES,
            )
            need(all(head[0] > 0 for _, head in lanes), "a lane head is numbered 0")
            runs = reader.rising(lambda: (reader.take(16), reader.take(32)), 48)
            seen = reader.rising(
                lambda: (reader.replica(), reader.u64()), 32, key=lambda item: item[0]
            )
            apps = reader.rising(reader.app, 2, most=APPS)
            wants = reader.rising(lambda: (reader.replica(), reader.take(16), reader.u64()), 48)
            chain = reader.chain_head()
            signed = label("manifest") + data[:reader.at]
            signature = reader.take(64)
        return cls(
            account, app, replica, n, time_ms, dict(lanes), runs, dict(seen), apps, wants, chain,
            signed, signature,
        )

    def hash(self):
        return hash_of(self.signed)


def verify(chain, data):
    """A manifest that counts."""
    manifest = Manifest.read(data)
    key, cut = chain.author(manifest.account, manifest.app, manifest.replica)
    chain.check_floor(FORMAT)
    if cut is not None:
        at_the_cut = (manifest.n, manifest.hash()) == cut
        need(manifest.n < cut[0] or at_the_cut, "beyond the cut, or not its manifest")
    check_signature(key, manifest.signed, manifest.signature)
    return manifest
