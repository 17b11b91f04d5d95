"""Bodies and rows."""

import itertools
import json

from protocol import blob, cbor, merge, rows

from .report import unhex


def shown(row):
    """What an app sees, or None."""
    return merge.columns(row)


def expected(case):
    """The stored JSON text; None where the row is not shown."""
    return None if case["shown"] is None else json.loads(case["shown"])


def in_order(value):
    """A JSON value with sorted members, to be compared in its types too."""
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, list) else value


def check_body(report):
    vector = report.vector("rows")
    body = unhex(vector, "body")
    table, read = rows.read_body(body)
    report.same("table", table, vector["table"])
    report.same("row ids", [id for id, _ in read], [case["id"] for case in vector["rows"]])
    for (id, row), case in zip(read, vector["rows"]):
        report.same("version of " + id, row.version.hex(), case["version"])
        report.same("columns of " + id, in_order(shown(row)), in_order(expected(case)))
    report.same("one encoding", cbor.encode(cbor.decode(body)), body)
    for length in range(len(body)):
        report.refuses("cut to %d bytes" % length, rows.read_body, body[:length])
    for case in vector["refused"]:
        report.refuses(case["why"], rows.read_body, unhex(case, "body"))


def check_packed(report):
    for case in report.vector("rows")["packed"]:
        packed = unhex(case, "packed")
        report.same("unpacked", blob.unpack(packed).hex(), case["body"])
    frame = packed[1:]
    report.same("a frame", packed[0], 1)
    report.refuses("a frame cut off", blob.unpack, packed[:-1])
    report.refuses("bytes after a frame", blob.unpack, packed + b"\0")
    report.refuses("two frames", blob.unpack, packed + frame)
    # The same frame, but without its content size and with a window of 2^25 bytes.
    report.refuses("a window of 2^25 bytes", blob.unpack, b"\1" + frame[:4] + bytes([0, 15 << 3]) + frame[7:])
    report.refuses("a body over its limit", blob.unpack, bytes(327_682))


def check_merges(report):
    for case in report.vector("rows")["merges"]:
        deltas = [rows.read_row(cbor.decode(bytes.fromhex(delta))) for delta in case["deltas"]]
        whole = rows.read_row(cbor.decode(unhex(case, "row")))
        what = case["what"]
        report.same(what + ", version", whole.version.hex(), case["version"])
        report.same(what + ", shown", in_order(shown(whole)), in_order(expected(case)))
        for order in itertools.permutations(deltas):
            merged = rows.Row()
            for delta in order:
                merged = merge.merge(merged, delta)
            report.holds(what + ", merged in another order", merged == whole)
        report.holds(what + ", merged again", merge.merge(whole, deltas[0]) == whole)


def check_states(report):
    for case in report.vector("states")["rows"]:
        row = unhex(case, "row")
        reads = lambda row: rows.read_row(cbor.decode(row))
        if case["taken"]:
            reads(row)
            report.same(case["why"], cbor.encode(cbor.decode(row)), row)
        else:
            report.refuses(case["why"], reads, row)
