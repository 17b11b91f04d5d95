"""The server's calls and the stream of changes."""

import base64
import re

from . import cbor
from .encodings import need

# CBOR messages: the fields of each array, in order. A text is a kind of value, a list holds so
# many of what is in it, a name stands for another array; a question mark allows null.
MARK = [("n", "u64"), ("hash", "bytes32")]
CHAIN_HEAD = [("index", "u64"), ("hash", "bytes32")]
LANE = [("device", "bytes16"), ("incarnation", "bytes8")]
MESSAGES = {
    "push": [("blobs", ["bytes"]), ("manifest", "bytes")],
    "pushed": [
        ("generation", "bytes8"), ("position", "u64?"), ("head", "u64"), ("already", "bool"),
        ("manifest", "mark?"), ("chain", "chain_head"),
    ],
    "pulled": [
        ("generation", "bytes8"), ("start", "bytes8"), ("reset", "reset?"), ("entries", ["entry"]),
        ("cursor", "bytes"), ("position", "u64"), ("part", "u64"), ("has_more", "bool"),
        ("head", "u64"), ("manifest_heads", ["manifest_head"]), ("manifests", ["bytes"]),
        ("anchors", ["anchor"]), ("chain", "chain_head"), ("epoch", "u64"), ("now_ms", "u64"),
    ],
    "headers": [("generation", "bytes8"), ("headers", ["bytes"]), ("has_more", "bool")],
    "manifests": [("manifests", ["bytes"])],
    "compact": [
        ("generation", "bytes8"), ("statement", "bytes"), ("manifest", "bytes"),
        ("replaced", ["replaced"]),
    ],
    "mark": MARK,
    "chain_head": CHAIN_HEAD,
    "reset": [("common", "u64")],
    "entry": [("position", "u64"), ("received_ms", "u64"), ("item", "item")],
    "manifest_head": LANE + MARK,
    "anchor": LANE + [("tag", "bytes16"), ("seq", "u64"), ("hash", "bytes32")],
    "replaced": [("position", "u64"), ("hash", "bytes32")],
}
ITEMS = {0: ("blob", ["bytes"]), 1: ("run", ["bytes"]), 2: ("part", ["u64", "bytes"]), 3: ("damaged", [])}
CURSOR_LIMIT = 128


def read(name, data):
    """A message as {field: value}."""
    message = _value(cbor.decode(data), name)
    if "cursor" in message:
        check_cursor(message["cursor"])
    return message


def _value(item, kind):
    if isinstance(kind, list):
        need(isinstance(item, list), "not a list")
        return [_value(one, kind[0]) for one in item]
    if kind.endswith("?"):
        return None if item is None else _value(item, kind[:-1])
    if kind == "item":
        need(isinstance(item, list) and len(item) == 2 and item[0] in ITEMS, "not an item")
        name, kinds = ITEMS[item[0]]
        need(isinstance(item[1], list) and len(item[1]) >= len(kinds), "an item's fields")
        return name, [_value(one, kind) for one, kind in zip(item[1], kinds)]
    if kind in MESSAGES:
        fields = MESSAGES[kind]
        # New fields are appended: they are passed over.
        need(isinstance(item, list) and len(item) >= len(fields), "a message's fields")
        return {name: _value(one, kind) for (name, kind), one in zip(fields, item)}
    if kind == "bool":
        need(isinstance(item, bool), "not a bool")
    elif kind == "u64":
        need(isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 2**64, "not a number")
    else:
        need(isinstance(item, bytes) and kind in ("bytes", "bytes%d" % len(item)), "not such bytes")
    return item


def check_cursor(cursor):
    need(len(cursor) <= CURSOR_LIMIT, "a cursor longer than its limit")


def follows_anchor(anchor, seq, prev):
    """Whether the first blob that passes `since` is the one after a lane's anchor."""
    return seq == anchor["seq"] + 1 and prev == anchor["hash"]


def known_manifest(device, incarnation, n):
    """One record of the query `manifests`."""
    return device + incarnation + n.to_bytes(8, "big")


def base64url(data):
    """Bytes as text, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unbase64url(text):
    """Bytes out of the one text that stands for them."""
    need(re.fullmatch(r"[A-Za-z0-9_-]*", text) and len(text) % 4 != 1, "not base64url")
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    need(base64url(data) == text, "not the one spelling")
    return data


# JSON bodies: (request, answer), each {field: kind}; a question mark marks a field that may be
# absent.
BYTES, NUMBER, TEXT = "bytes", "number", "text"
ID16, ID8, HASH = 16, 8, 32
HEAD = {"index": NUMBER, "hash": HASH}
JSON = {
    "create_account": (
        {"genesis": BYTES, "wraps": [BYTES], "invite?": TEXT},
        {"account_id": ID16, "server_id": HASH},
    ),
    "delete_account": ({"nonce": BYTES, "signature": BYTES}, None),
    "challenge": (
        {"account_id": ID16, "device_id": ID16},
        {"server_id": HASH, "token_key": BYTES, "nonce": BYTES, "signature": BYTES, "now_ms": NUMBER},
    ),
    "token": (
        {"account_id": ID16, "device_id": ID16, "nonce": BYTES, "signature": BYTES},
        {"token": TEXT, "expires_ms": NUMBER, "now_ms": NUMBER},
    ),
    "read_chain": (None, {"entries": [BYTES], "head": HEAD}),
    "append_chain": (
        {"account_id": ID16, "entry": BYTES, "wraps": [BYTES], "earlier?": BYTES},
        {"head": HEAD},
    ),
    "keyring": (None, {"epochs": [{"epoch": NUMBER, "wrap?": BYTES, "earlier?": BYTES}]}),
    "open_mailbox": (
        None,
        {"nameplate": NUMBER, "server_id": HASH, "token_key": BYTES, "expires_ms": NUMBER},
    ),
    "put_mailbox": ({"index": NUMBER, "message": BYTES}, None),
    "read_mailbox": (None, {"messages": [BYTES], "server_id": HASH, "token_key": BYTES}),
    "apps": (
        None,
        {"generation": ID8, "apps": [{"app_id": TEXT, "head": NUMBER}], "chain": HEAD},
    ),
    "status": (
        None,
        {
            "bytes": NUMBER, "blobs": NUMBER, "quota_bytes?": NUMBER,
            "tables": [{"app_id": TEXT, "tag": ID16, "blobs": NUMBER, "bytes": NUMBER}],
            "devices": [{
                "app_id": TEXT, "device_id": ID16, "incarnation": ID8, "position": NUMBER,
                "at_ms": NUMBER,
            }],
        },
    ),
}


def check_json(value, kind):
    """Refuses a JSON value of another shape. Unknown fields of an answer would be passed over; the
    vectors have none."""
    if isinstance(kind, dict):
        need(isinstance(value, dict), "not an object")
        names = {name.rstrip("?") for name in kind}
        need(set(value) <= names, "an unknown field")
        for name, inner in kind.items():
            if name.rstrip("?") in value:
                check_json(value[name.rstrip("?")], inner)
            else:
                need(name.endswith("?"), "a field is missing")
    elif isinstance(kind, list):
        need(isinstance(value, list), "not a list")
        for item in value:
            check_json(item, kind[0])
    elif kind == NUMBER:
        need(isinstance(value, int) and not isinstance(value, bool) and value >= 0, "not a number")
    else:
        need(isinstance(value, str), "not a text")
        if kind == BYTES:
            unbase64url(value)
        elif kind != TEXT:
            need(re.fullmatch("[0-9a-f]{%d}" % (2 * kind), value), "not an id")


def read_frame(frame):
    """(event, data) of one frame, or None for a comment."""
    need(frame.endswith("\n\n"), "a frame ends with an empty line")
    lines = frame[:-2].split("\n")
    fields = dict(line.split(":", 1) for line in lines if not line.startswith(":"))
    if "data" not in fields:
        return None
    return fields["event"].removeprefix(" "), fields["data"].removeprefix(" ")
