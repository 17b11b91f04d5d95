"""Blobs: header, sealed body, signature."""

from dataclasses import dataclass

from primitives import zstd

from .encodings import FORMAT, NeedsNewer, Reader, Refused, label, need
from .epochs import seal_key
from .suite import check_signature, hash_of, open_sealed, unpad

BLOB_LIMIT, BODY_LIMIT = 409_600, 327_680


@dataclass(frozen=True)
class Header:
    """Where a blob stands."""

    account: bytes
    app: str
    replica: tuple
    tag: bytes
    seq: int
    prev: bytes
    epoch: int
    encoded: bytes

    @classmethod
    def read(cls, reader):
        start = reader.at
        reader.format()
        account, app, replica = reader.take(16), reader.app(), reader.replica()
        tag, seq, prev, epoch = reader.take(16), reader.u64(), reader.take(32), reader.u32()
        need(seq > 0, "a blob is numbered 0")
        need(seq > 1 or prev == bytes(32), "the first blob of a lane names one before it")
        return cls(account, app, replica, tag, seq, prev, epoch, reader.data[start:reader.at])


@dataclass(frozen=True)
class Verified:
    """A header that counts, and the cut up to which it does if its author was unlinked."""

    header: Header
    body_hash: bytes
    hash: bytes
    cut: tuple


def verify(chain, header, body_hash, signature):
    """Checks a signed header."""
    key, cut = chain.author(header.account, header.app, header.replica)
    need(header.epoch in chain.epochs, "an epoch that is not in the chain")
    chain.check_floor(FORMAT)
    signed = label("blob") + header.encoded + body_hash
    check_signature(key, signed, signature)
    return Verified(header, body_hash, hash_of(signed), cut)


def verify_signed_header(chain, data):
    """A header with body hash and signature, without its body."""
    with Reader(data) as reader:
        return verify(chain, Header.read(reader), reader.take(32), reader.take(64))


def verify_blob(chain, data):
    """A whole blob: what it proves, and its sealed body."""
    with Reader(data, BLOB_LIMIT) as reader:
        header = Header.read(reader)
        need(reader.left() >= 24 + 16 + 64, "too short for a sealed body")
        sealed = reader.take(reader.left() - 64)
        return verify(chain, header, hash_of(sealed), reader.take(64)), sealed


def open_body(ring, header, sealed):
    """The body that was sealed, still packed."""
    key = seal_key(ring.secret(header.epoch), header.app)
    return unpad(open_sealed(key, header.encoded, sealed))


def unpack(packed):
    """The body out of its first byte and the rest."""
    need(packed, "an empty body")
    way, rest = packed[0], packed[1:]
    if way == 0:
        need(len(rest) <= BODY_LIMIT, "a body larger than its limit")
        return rest
    if way == 1:
        body = zstd.decompress(rest, BODY_LIMIT)
        if body is None:
            raise Refused("a frame that does not unpack")
        return body
    raise NeedsNewer("a body packed in way %d" % way)


def counts(verified, cut_manifest):
    """Whether a blob of an unlinked device counts, given the manifest that the cut names."""
    if verified.cut is None:
        return True
    head = cut_manifest.lanes.get(verified.header.tag, (0, bytes(32)))
    if verified.header.seq == head[0]:
        return verified.hash == head[1]
    return verified.header.seq < head[0]
