"""What an epoch secret gives: keys, tags, padded and sealed bodies, blobs."""

from primitives import sealing
from protocol import blob, run
from protocol.chain import Chain, Entry
from protocol.devices import table_tag
from protocol.encodings import label, short, u32, u64
from protocol.epochs import KeyRing, seal_key
from protocol.suite import hash_of, open_sealed, padme, unpad

from .forge import Forger
from .report import unhex


def known(vector):
    """The account of a vector with one device and one epoch."""
    account, genesis, secret = unhex(vector, "account", "genesis", "epoch_secret")
    chain = Chain.fold(account, [genesis])
    ring = KeyRing(account)
    ring.insert(chain, 0, secret)
    return chain, ring


def check_sealing_key(report):
    vector = report.vector("sealing_key")
    chain, ring = known(vector)
    app, epoch = vector["app"], vector["epoch"]
    report.same("key", seal_key(ring.secret(epoch), app).hex(), vector["sealing_key"])
    tag, part = unhex(vector, "tag", "sealed_part")
    opens = lambda part: run.open_part_at(ring, chain.account, app, tag, epoch, part)
    report.same("body", opens(part).hex(), vector["body"])
    report.flips("part", part, opens)
    places = {
        "in another app": (chain.account, "notes", tag, epoch),
        "in another table": (chain.account, app, bytes(16), epoch),
        "in another account": (bytes(16), app, tag, epoch),
        "in another epoch": (chain.account, app, tag, 1),
    }
    for what, place in places.items():
        report.refuses(what, run.open_part_at, ring, *place, part)


def check_tag(report):
    vector = report.vector("tag")
    _, ring = known(vector)
    for case in vector["tags"]:
        tag = table_tag(ring.secret(0), case["app"], case["table"])
        report.same("tag of %s/%s" % (case["app"], case["table"]), tag.hex(), case["tag"])
    report.same("distinct tags", len({case["tag"] for case in vector["tags"]}), len(vector["tags"]))


def check_padding(report):
    vector = report.vector("padding")
    chain, ring = known(vector)
    tag, key = unhex(vector, "tag"), seal_key(ring.secret(vector["epoch"]), vector["app"])
    data = label("run-part") + chain.account + short(vector["app"]) + tag + u32(vector["epoch"])
    for part in vector["parts"]:
        body = bytes(at % 251 for at in range(part["length"]))
        padded = open_sealed(key, data, unhex(part, "sealed"))
        report.same("body of %d bytes" % len(body), unpad(padded), body)
        report.same("its padded length", len(padded), padme(4 + len(body)))
    for length, padded in vector["padded_lengths"]:
        report.same("padded length of %d" % length, padme(4 + length), padded)
    body = bytes(range(1, 14))
    padded = u32(13) + body + bytes(padme(17) - 17)
    forged = {
        "a zero less": padded[:-1],
        "a zero more": padded + b"\0",
        "a zero that is none": padded[:-1] + b"\1",
        "a length too long": u32(19) + padded[4:],
        "a length one too short, so that a byte is no zero": u32(12) + padded[4:],
        "a length of four thousand million": b"\xff" * 4 + padded[4:],
        "no length": b"\0\0\0",
        "nothing": b"",
        "padded to a block of 64": u32(13) + body + bytes(47),
    }
    report.same("made again", unpad(padded), body)
    for what, plaintext in forged.items():
        nonce = bytes(24)
        sealed = nonce + sealing.seal_at(key, nonce, data, plaintext)
        report.refuses(what, lambda: unpad(open_sealed(key, data, sealed)))


def check_blob(report):
    vector = report.vector("blob")
    chain, ring = known(vector)
    encoded = unhex(vector, "blob")
    verified, sealed = blob.verify_blob(chain, encoded)
    header = verified.header
    report.same("header", header.encoded.hex(), vector["header"])
    for field in ("app", "seq", "epoch"):
        report.same(field, getattr(header, field), vector[field])
    report.same("tag", header.tag.hex(), vector["tag"])
    report.same("prev", header.prev.hex(), vector["prev"])
    report.same("incarnation", header.replica[1].hex(), vector["incarnation"])
    report.same("hash", verified.hash.hex(), vector["hash"])
    report.same("the table's tag", table_tag(ring.secret(0), header.app, vector["table"]), header.tag)
    report.same("body", blob.open_body(ring, header, sealed).hex(), vector["body"])
    alone = unhex(vector, "signed_header")
    report.same("signed header", blob.verify_signed_header(chain, alone), verified)

    def opens(encoded):
        verified, sealed = blob.verify_blob(chain, encoded)
        return blob.open_body(ring, verified.header, sealed)

    report.flips("blob", encoded, opens)
    report.flips("signed header", alone, lambda data: blob.verify_signed_header(chain, data))
    report.refuses("an empty body", blob.unpack, b"")
    report.refuses("a body packed in another way", blob.unpack, b"\2body")


def check_moved_blobs(report):
    """A device of the account signs whatever it likes; what it sealed opens in its place alone."""
    author, reader = Forger(1), Forger(2)
    genesis = author.genesis(bytes(32))
    account = Entry.read(genesis).hash()[:16]
    chain = Chain.fold(account, [genesis])
    ring = KeyRing(account, {0: bytes(32)})

    def header(account=account, app="movies", device=author.id, tag=bytes(16), seq=2, prev=bytes(32),
               epoch=0, format=1):
        place = bytes([format]) + account + short(app) + device + bytes(8) + tag
        return place + u64(seq) + prev + u32(epoch)

    def written(header, sealed):
        signature = author.keys.sign(label("blob") + header + hash_of(sealed))
        return header + sealed + signature

    def opens(encoded):
        verified, sealed = blob.verify_blob(chain, encoded)
        return blob.open_body(ring, verified.header, sealed)

    def seal(place, app="movies"):
        key = seal_key(bytes(32), app)
        return bytes(24) + sealing.seal_at(key, bytes(24), place, u32(4) + b"body")

    own = header()
    sealed = seal(own)
    report.same("in its place", opens(written(own, sealed)), b"body")
    moved = {
        "another account": header(account=bytes(16)), "another app": header(app="notes"),
        "another table": header(tag=b"\1" * 16), "another number": header(seq=3),
        "another blob before it": header(prev=b"\1" * 32),
        "another replica": own.replace(author.id + bytes(8), author.id + b"\1" * 8),
    }
    for what, place in moved.items():
        report.refuses("moved to " + what, opens, written(place, sealed))
    never = {
        "another account": header(account=bytes(16)), "an epoch of later": header(epoch=1),
        "another device's name": header(device=reader.id), "number 0": header(seq=0),
        "number 1 with a blob before it": header(seq=1, prev=b"\1" * 32),
        "a format of later": header(format=2), "format 0": header(format=0),
        "an app id in capitals": header(app="Movies"), "an empty app id": header(app=""),
        "an app id of 65 letters": header(app="a" * 65), "the account's channel": header(app="_account"),
    }
    for what, place in never.items():
        report.refuses("sealed in " + what, blob.verify_blob, chain, written(place, seal(place)))
    report.refuses("no sealed body", blob.verify_blob, chain, written(own, bytes(39)))
    report.refuses("a run's label", opens, own + sealed + author.keys.sign(label("run") + own + hash_of(sealed)))
    both = chain.extended(author.add(chain, Forger(3, 2)))
    paper = header(device=Forger(3, 2).id)
    signature = Forger(3, 2).keys.sign(label("blob") + paper + hash_of(sealed))
    report.refuses("a paper key's blob", blob.verify_blob, both, paper + sealed + signature)
