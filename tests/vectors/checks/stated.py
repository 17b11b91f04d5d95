"""What devices state and sign: manifests, runs, and what counts of a device that was unlinked."""

from protocol import blob, manifest, run
from protocol.chain import Chain, Entry
from protocol.devices import table_tag
from protocol.encodings import short, u32, u64
from protocol.epochs import KeyRing

from .account import entries_of
from .forge import Forger, listed
from .report import unhex
from .sealed import known


def check_manifest(report):
    vector = report.vector("manifest")
    chain, _ = known(vector)
    encoded = unhex(vector, "manifest")
    read = manifest.verify(chain, encoded)
    report.same("hash", read.hash().hex(), vector["hash"])
    report.same("number", read.n, vector["n"])
    report.same("time", read.time_ms, vector["time_ms"])
    report.same("chain", read.chain, chain.head())
    other = (read.replica[0], b"\x22" * 8)
    lanes = {b"\1" * 16: (4, b"\xa1" * 32), b"\2" * 16: (1, b"\xa2" * 32)}
    report.same("lanes", read.lanes, lanes)
    report.same("runs", read.runs, [(b"\1" * 16, b"\xb1" * 32), (b"\1" * 16, b"\xb2" * 32)])
    report.same("seen", read.seen, {other: 3})
    report.same("apps", read.apps, ["movies", "notes"])
    report.same("wants", read.wants, [(other, b"\2" * 16, 7)])
    report.flips("manifest", encoded, lambda data: manifest.verify(chain, data))


def check_forged_manifests(report):
    """Lists that could be written in two ways, signed by their device."""
    author = Forger(1)
    genesis = author.genesis(bytes(32))
    account = Entry.read(genesis).hash()[:16]
    chain = Chain.fold(account, [genesis])
    lane = lambda tag, seq=1: tag * 16 + u64(seq) + bytes(32)
    replica = lambda byte: byte * 24

    def opens(lanes=listed(), runs=listed(), seen=listed(), apps=listed(), wants=listed(), end=b""):
        head = b"\1" + account + short("movies") + author.id + bytes(8) + u64(1) + u64(0)
        body = head + lanes + runs + seen + apps + wants + u64(0) + bytes(32)
        return manifest.verify(chain, author.sign("manifest", body) + end)

    report.same("an empty one", opens().lanes, {})
    forged = {
        "lanes that do not rise": {"lanes": listed(lane(b"\2"), lane(b"\1"))},
        "a lane twice": {"lanes": listed(lane(b"\1"), lane(b"\1", 2))},
        "a lane head numbered 0": {"lanes": listed(lane(b"\1", 0))},
        "more lanes than there are": {"lanes": u32(2) + lane(b"\1")},
        "four thousand million lanes": {"lanes": b"\xff" * 4},
        "a lane too many": {"lanes": listed(*(at.to_bytes(16, "big") + u64(1) + bytes(32) for at in range(4_001)))},
        "runs that do not rise": {"runs": listed(bytes(16) + b"\2" * 32, bytes(16) + b"\1" * 32)},
        "a replica seen twice": {"seen": listed(replica(b"\1") + u64(1), replica(b"\1") + u64(2))},
        "apps that do not rise": {"apps": listed(short("b"), short("a"))},
        "an app id that is none": {"apps": listed(short("_account"))},
        "a want twice": {"wants": listed(*2 * [replica(b"\1") + bytes(16) + u64(1)])},
        "bytes after the signature": {"end": b"\0"},
    }
    for what, fields in forged.items():
        report.refuses(what, lambda: opens(**fields))


def check_run(report):
    vector = report.vector("run")
    chain, ring = known(vector)
    encoded = unhex(vector, "statement")
    statement, cut = run.verify(chain, encoded)
    report.same("hash", statement.hash().hex(), vector["hash"])
    report.same("kind", statement.kind, run.REPLACE)
    report.same("cut", cut, None)
    author = statement.author
    covers = [(author, 1, bytes(32), 3, b"\xc1" * 32), (author, 5, b"\xc2" * 32, 9, b"\xc3" * 32)]
    report.same("covers", statement.covers, covers)
    report.same("purged", statement.purged, {author: 2})
    report.same("chain", statement.chain, chain.head())
    for number, (part, body) in enumerate(zip(vector["parts"], vector["bodies"])):
        part = bytes.fromhex(part)
        opens = lambda part: run.open_part(ring, statement, number, part)
        report.same("body of part %d" % number, opens(part).hex(), body)
        report.flips("part %d" % number, part, opens)
        report.refuses("part %d in another place" % number, run.open_part, ring, statement, 1 - number, part)
    report.refuses("a part that is not stated", run.open_part, ring, statement, 2, part)
    report.flips("statement", encoded, lambda data: run.verify(chain, data))


def check_forged_runs(report):
    author = Forger(1)
    genesis = author.genesis(bytes(32))
    account = Entry.read(genesis).hash()[:16]
    chain = Chain.fold(account, [genesis])
    cover = lambda start, to, prev=b"\1" * 32, by=b"\1": by * 24 + u64(start) + prev + u64(to) + bytes(32)

    def opens(kind=1, covers=listed(), purged=listed(), parts=listed(), epoch=0):
        head = b"\1" + bytes([kind]) + account + short("movies") + author.id + bytes(8) + bytes(16)
        body = head + covers + purged + parts + u32(epoch) + u64(0) + bytes(32)
        return run.verify(chain, author.sign("run", body))

    report.same("covers that touch", len(opens(covers=listed(cover(2, 3), cover(4, 5)))[0].covers), 2)
    forged = {
        "a kind of later": {"kind": 3},
        "a cover from 0": {"covers": listed(cover(0, 3, bytes(32)))},
        "a cover from 1 with a blob before it": {"covers": listed(cover(1, 3))},
        "a cover that ends before it begins": {"covers": listed(cover(4, 3))},
        "covers that overlap": {"covers": listed(cover(2, 4), cover(4, 5))},
        "covers that do not rise": {"covers": listed(cover(5, 6), cover(2, 3))},
        "a lane purged twice": {"purged": listed(*2 * [b"\1" * 24 + u64(1)])},
        "a part of 39 bytes": {"parts": listed(bytes(32) + u32(39))},
        "a part of 409,601 bytes": {"parts": listed(bytes(32) + u32(409_601))},
        "an epoch of later": {"epoch": 1},
    }
    for what, fields in forged.items():
        report.refuses(what, lambda: opens(**fields))


def check_cuts(report):
    vector = report.vector("cuts")
    account, stored = unhex(vector, "account", "keyring")
    chain = Chain.fold(account, entries_of(vector))
    ring = KeyRing.read(stored)
    at_the_cut = manifest.verify(chain, unhex(vector["manifests"][1], "bytes"))
    tag = table_tag(ring.secret(0), "movies", vector["table"])
    report.same("the cut's lanes", list(at_the_cut.lanes), [tag])
    for case in vector["manifests"]:
        if case["counts"]:
            report.holds("manifest, " + case["why"], manifest.verify(chain, unhex(case, "bytes")))
        else:
            report.refuses("manifest, " + case["why"], manifest.verify, chain, unhex(case, "bytes"))
    for case in vector["blobs"]:
        verified, sealed = blob.verify_blob(chain, unhex(case, "bytes"))
        report.same("the blob's cut", verified.cut, (at_the_cut.n, at_the_cut.hash()))
        report.same("blob, " + case["why"], blob.counts(verified, at_the_cut), case["counts"])
        report.holds("it opens", blob.open_body(ring, verified.header, sealed))
    for case in vector["runs"]:
        statement, _ = run.verify(chain, unhex(case, "bytes"))
        report.same("run, " + case["why"], run.counts(statement, at_the_cut), case["counts"])


def check_lane(report):
    """The blobs of a lane hang together by their hashes."""
    vector = report.vector("cuts")
    chain = Chain.fold(unhex(vector, "account"), entries_of(vector))
    blobs = [blob.verify_blob(chain, unhex(case, "bytes"))[0] for case in vector["blobs"]]
    report.same("the first names none", blobs[0].header.prev, bytes(32))
    for before, after in zip(blobs, blobs[1:]):
        report.same("numbers without holes", after.header.seq, before.header.seq + 1)
        report.same("names the one before", after.header.prev, before.hash)


def check_floor(report):
    """A client of format 1 refuses nothing at floor 1; the check itself is there."""
    chain = Chain(floor=(2, 1))
    report.refuses("format 1 below a floor of 2", chain.check_floor, 1)
    report.same("format 1 at a floor of 1", Chain().check_floor(1), None)
