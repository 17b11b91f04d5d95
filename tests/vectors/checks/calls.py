"""The server's calls, as far as a client writes and reads them."""


from protocol import calls, cbor

from .report import unhex

# What a field of each kind is not.
WRONG = {
    calls.NUMBER: [-1, "1", True, 1.5, None], calls.TEXT: [1, None, ["x"]], calls.BYTES: [1, "x=", "/"],
    calls.ID16: [1, "AC" * 16, "ac" * 15], calls.ID8: ["AC" * 8, "ac" * 9], calls.HASH: ["AC" * 32, "ac" * 31],
}
WORDS = ("a genesis", "a wrap", "a nonce?", "a signature", "a token key", "an entry", "a secret", "a message")


def check_cbor(report):
    vector = report.vector("calls")["cbor"]
    push = calls.read("push", unhex(vector, "push"))
    report.same("push", push, {"blobs": [b"a blob", b"another"], "manifest": b"a manifest"})
    pushed = calls.read("pushed", unhex(vector, "pushed"))
    report.same("position", pushed["position"], 70_000)
    report.same("manifest", pushed["manifest"], {"n": 9, "hash": b"\xa9" * 32})
    report.same("chain", pushed["chain"], {"index": 300, "hash": b"\xce" * 32})
    bare = calls.read("pushed", unhex(vector, "pushed_bare"))
    report.same("a bare manifest's", (bare["position"], bare["manifest"], bare["already"]), (None, None, True))
    headers = calls.read("headers", unhex(vector, "headers"))
    report.same("headers", (headers["headers"], headers["has_more"]), ([b"a signed header"], False))
    manifests = calls.read("manifests", unhex(vector, "manifests"))
    report.same("manifests", manifests, {"manifests": [b"a manifest"]})
    compact = calls.read("compact", unhex(vector, "compact"))
    report.same("replaced", compact["replaced"], [{"position": 5, "hash": b"\xb5" * 32}])
    longer = b"\x87" + unhex(vector, "pushed")[1:] + b"\x18\x2a"
    report.same("a field of later", calls.read("pushed", longer), pushed)
    for name in ("push", "pushed", "pulled", "headers", "manifests", "compact"):
        data = unhex(vector, name)
        for number, other in enumerate(_with_a_text(cbor.decode(data))):
            report.refuses("%s with a text, %d" % (name, number), calls.read, name, cbor.encode(other))
        for length in range(len(data)):
            report.refuses("%s cut to %d bytes" % (name, length), calls.read, name, data[:length])
        report.refuses(name + ", a byte longer", calls.read, name, data + b"\0")


def _with_a_text(item):
    """An item with each of its inner items replaced by a text, which no message has."""
    for at, inner in enumerate(item):
        yield item[:at] + ["text"] + item[at + 1:]
        if isinstance(inner, list):
            for other in _with_a_text(inner):
                yield item[:at] + [other] + item[at + 1:]


def check_numbers(report):
    pushed = cbor.decode(unhex(report.vector("calls")["cbor"], "pushed"))
    for number in (-1, True, 1.0, None):
        other = pushed[:2] + [number] + pushed[3:]
        report.refuses("a head of %r" % number, calls.read, "pushed", cbor.encode(other))
    for length in (0, 7, 9):
        other = [bytes(length)] + pushed[1:]
        report.refuses("a generation of %d bytes" % length, calls.read, "pushed", cbor.encode(other))
    pulled = cbor.decode(unhex(report.vector("calls")["cbor"], "pulled"))
    for item in ([4, []], [0, []], [0], ["0", [b""]]):
        other = pulled[:3] + [[[5, 5, item]]] + pulled[4:]
        report.refuses("an item %r" % item, calls.read, "pulled", cbor.encode(other))


def check_pulled(report):
    vector = report.vector("calls")["cbor"]
    pulled = calls.read("pulled", unhex(vector, "pulled"))
    items = [(entry["position"], entry["item"]) for entry in pulled["entries"]]
    report.same("entries", items, [
        (5, ("blob", [b"a blob"])), (6, ("run", [b"a statement"])), (6, ("part", [1, b"a part"])),
        (7, ("damaged", [])),
    ])
    report.same("received", pulled["entries"][0]["received_ms"], 1_800_000_000_005)
    report.same("cursor", pulled["cursor"], b"a cursor")
    report.same("where it stands", (pulled["position"], pulled["part"]), (6, 1))
    report.same("more", (pulled["has_more"], pulled["head"]), (True, 70_001))
    lane = {"device": b"\xd1" * 16, "incarnation": b"\x11" * 8}
    report.same("manifest heads", pulled["manifest_heads"], [{**lane, "n": 9, "hash": b"\xa9" * 32}])
    anchor = {**lane, "tag": b"\x7a" * 16, "seq": 41, "hash": b"\x41" * 32}
    report.same("anchors", pulled["anchors"], [anchor])
    report.holds("follows the anchor", calls.follows_anchor(anchor, 42, b"\x41" * 32))
    report.holds("a hole after the anchor", not calls.follows_anchor(anchor, 43, b"\x41" * 32))
    report.holds("another lane's past", not calls.follows_anchor(anchor, 42, bytes(32)))
    report.same("epoch, time", (pulled["epoch"], pulled["now_ms"]), (2, 1_800_000_000_123))
    reset = calls.read("pulled", unhex(vector, "pulled_reset"))
    report.same("reset", (reset["reset"], reset["entries"]), ({"common": 4}, []))
    long_cursor = dict(pulled, cursor=bytes(129))
    report.refuses("a cursor of 129 bytes", calls.check_cursor, long_cursor["cursor"])


def check_query(report):
    known = calls.known_manifest(b"\xff" * 16, bytes(8), 258)
    report.same("a known manifest", known, b"\xff" * 16 + bytes(8) + b"\0\0\0\0\0\0\1\2")
    report.same("as text", calls.base64url(b"\xfb\xff"), "-_8")
    for text in ("-_8=", "+/8", "-_9", "-", "-_8\n", "é"):
        report.refuses("base64url as %r" % text, calls.unbase64url, text)


def check_json(report):
    vector = report.vector("calls")["json"]
    texts = {calls.base64url(words.encode()) for words in WORDS}
    for name, (request, answer) in vector.items():
        shapes = calls.JSON[name]
        for what, body, shape in (("request", request, shapes[0]), ("answer", answer, shapes[1])):
            if body is None:
                report.same("%s: no %s" % (name, what), shape, None)
                continue
            calls.check_json(body, shape)
            report.holds("%s: %s" % (name, what), True)
            report.refuses("%s: %s with a field missing" % (name, what), calls.check_json,
                           {key: body[key] for key in list(body)[1:]}, shape)
            report.refuses("%s: %s with a field of its own" % (name, what), calls.check_json,
                           {**body, "more": 1}, shape)
            for field, kind in shape.items():
                for wrong in WRONG.get(kind, ["x", 1]) if not isinstance(kind, (dict, list)) else ["x", 1]:
                    report.refuses("%s: %s with %s of %r" % (name, what, field, wrong), calls.check_json,
                                   {**body, field.rstrip("?"): wrong}, shape)
            for text in _strings(body, shape):
                report.holds("%s: base64url of what it says" % name, text in texts)


def _strings(body, shape):
    """The base64url texts of a body."""
    for field, kind in shape.items():
        value = body.get(field.rstrip("?"))
        if value is None:
            continue
        if kind == calls.BYTES:
            yield value
        elif kind == [calls.BYTES]:
            yield from value
        elif isinstance(kind, list):
            for item in value:
                yield from _strings(item, kind[0])


def check_stream(report):
    report.refuses("a frame cut off", calls.read_frame, "event: changed\ndata:\n")
    frames = report.vector("calls")["stream"]
    read = [calls.read_frame(frame) for frame in frames]
    report.same("frames", read, [
        ("changed", ""), ("changed", "movies"), ("changed", "_account"), None,
        ("reauth", '{"reason":"token_expired"}'),
    ])
