"""Runs: a signed statement and sealed parts."""

from dataclasses import dataclass

from .encodings import FORMAT, Reader, label, need, short, u32
from .epochs import seal_key
from .suite import check_signature, hash_of, open_sealed, unpad

REPLACE, FILL = 1, 2
LIMIT, PART_SHORTEST, PART_LIMIT = 1_048_576, 40, 409_600


@dataclass(frozen=True)
class Statement:
    """A statement, read and not yet believed."""

    kind: int
    account: bytes
    app: str
    author: tuple
    tag: bytes
    covers: list
    purged: dict
    parts: list
    epoch: int
    chain: tuple
    signed: bytes
    signature: bytes

    @classmethod
    def read(cls, data):
        with Reader(data, LIMIT) as reader:
            reader.format()
            kind = reader.kind((REPLACE, FILL))
            account, app, author = reader.take(16), reader.app(), reader.replica()
            tag = reader.take(16)
            covers = reader.rising(
                lambda: (reader.replica(), reader.u64(), reader.take(32), reader.u64(),
                         reader.take(32)),
                104, key=lambda cover: cover[:2],
            )
            _check_covers(covers)
            purged = reader.rising(
                lambda: (reader.replica(), reader.u64()), 32, key=lambda item: item[0]
            )
            parts = reader.list(lambda: (reader.take(32), reader.u32()), 36)
            sizes = [size for _, size in parts]
            need(all(PART_SHORTEST <= size <= PART_LIMIT for size in sizes), "a part's size")
            epoch, chain = reader.u32(), reader.chain_head()
            signed = label("run") + data[:reader.at]
            signature = reader.take(64)
        return cls(
            kind, account, app, author, tag, covers, dict(purged), parts, epoch, chain, signed,
            signature,
        )

    def hash(self):
        return hash_of(self.signed)


def _check_covers(covers):
    reached = {}
    for replica, start, prev, to, _ in covers:
        need(start >= 1 and to >= start, "a cover of nothing")
        need(start > 1 or prev == bytes(32), "a cover from 1 names a blob before it")
        need(start > reached.get(replica, 0), "covers that overlap")
        reached[replica] = to


def verify(chain, data):
    """A statement whose signature fits, and the cut of its author."""
    statement = Statement.read(data)
    key, cut = chain.author(statement.account, statement.app, statement.author)
    need(statement.epoch in chain.epochs, "an epoch that is not in the chain")
    chain.check_floor(FORMAT)
    check_signature(key, statement.signed, statement.signature)
    return statement, cut


def counts(statement, newest_manifest):
    """Whether a run counts, given its author's newest accepted manifest (that of the cut, if it
    was unlinked)."""
    return (statement.tag, statement.hash()) in newest_manifest.runs


def open_part(ring, statement, number, part):
    """The body of a part, still packed."""
    need(number < len(statement.parts), "a part that is not stated")
    hash, size = statement.parts[number]
    need(len(part) == size and hash_of(part) == hash, "not the part that is stated")
    return open_part_at(ring, statement.account, statement.app, statement.tag, statement.epoch, part)


def open_part_at(ring, account, app, tag, epoch, part):
    """As open_part, at a place that is given."""
    data = label("run-part") + account + short(app) + tag + u32(epoch)
    return unpad(open_sealed(seal_key(ring.secret(epoch), app), data, part))
