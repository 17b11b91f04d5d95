"""The device chain, and epoch secrets in transit."""

import dataclasses

from primitives import sealing
from protocol import chain as chains
from protocol.chain import KINDS, Chain, Device, Entry
from protocol.devices import COMPUTER, PAPER, DeviceKeys, DevicePublic
from protocol.encodings import NeedsNewer, label, long, u64
from protocol.epochs import KeyRing, commit_of, earlier_hash, seal_key
from protocol.suite import derive

from .forge import Forger, listed, new_epoch
from .report import unhex


def entries_of(vector, field="entries"):
    return [bytes.fromhex(entry) for entry in vector[field]]


def check_chain(report):
    vector = report.vector("chain")
    account, stored = unhex(vector, "account", "keyring")
    encoded = [unhex(entry, "entry") for entry in vector["entries"]]
    chain = Chain.fold(account, encoded)
    for number, (entry, known) in enumerate(zip(encoded, vector["entries"])):
        read = Entry.read(entry)
        report.same("kind of %d" % number, KINDS[read.kind], known["kind"])
        report.same("hash of %d" % number, read.hash().hex(), known["hash"])
        report.same("index of %d" % number, read.index, number)
    ring = KeyRing.read(stored)
    report.same("devices", len(chain.devices), len(vector["devices"]))
    for known in vector["devices"]:
        id = unhex(known, "id")
        device = chain.devices[id]
        report.same("active", device.is_active(), known["active"])
        kind = {COMPUTER: "computer", PAPER: "paper"}[device.public.kind]
        report.same("kind", kind, known["kind"])
        if "name" in known:
            opens = lambda sealed: chains.open_name(ring, account, id, sealed)
            report.same("name", opens(device.name), known["name"])
            report.flips("sealed name", device.name, opens)
            report.refuses("name of another device", chains.open_name, ring, account, bytes(16), device.name)
    report.same("newest epoch", chain.newest_epoch(), vector["newest_epoch"])
    for epoch in range(chain.newest_epoch() + 1):
        report.same("commit of epoch %d" % epoch, commit_of(ring.secret(epoch)), chain.epochs[epoch].commit)
    before = Chain()
    for number, entry in enumerate(encoded):
        opens = before.extended if number else lambda entry: Chain.fold(account, [entry])
        report.flips("entry %d" % number, entry, opens, every=23)
        before = before.extended(entry)
    report.refuses("another account's id", Chain.fold, bytes(16), encoded)
    report.refuses("no entries", Chain.fold, account, [])
    report.refuses("an entry left out", Chain.fold, account, encoded[:2] + encoded[3:])
    report.refuses("an entry twice", Chain.fold, account, encoded[:3] + encoded[2:])
    report.refuses("two entries swapped", Chain.fold, account, [encoded[0], encoded[2], encoded[1]])
    report.same("a shorter chain", chains.relation(chain, Chain.fold(account, encoded[:4])), "rollback")
    report.same("a longer chain", chains.relation(Chain.fold(account, encoded[:4]), chain), "extension")
    report.same("the same chain", chains.relation(chain, chain), "same")


def check_folding(report):
    """Entries that are signed by a device of the account and break a rule."""
    owner, other, third, stranger = (Forger(byte) for byte in (1, 2, 3, 4))
    paper = Forger(5, PAPER)
    genesis = owner.genesis(bytes(32))
    account = Entry.read(genesis).hash()[:16]
    one = Chain.fold(account, [genesis])
    two = one.extended(owner.add(one, other))
    report.same("a device added", len(two.active()), 2)
    head = one.head()
    beginnings = {
        "a genesis of a paper key": paper.genesis(bytes(32)),
        "a genesis at index 1": owner.entry(bytes(16), 1, bytes(32), 1, owner.public() + bytes(32)),
        "a genesis with an account": owner.entry(account, 0, bytes(32), 1, owner.public() + bytes(32)),
        "a genesis with a prev": owner.entry(bytes(16), 0, head[1], 1, owner.public() + bytes(32)),
        "a genesis signed by another": stranger.entry(bytes(16), 0, bytes(32), 1, owner.public() + bytes(32)),
        "a genesis that names another signer": owner.entry(
            bytes(16), 0, bytes(32), 1, owner.public() + bytes(32), signer=stranger.id
        ),
        "a rotation first": owner.entry(bytes(16), 0, bytes(32), 4, new_epoch(1, 0)),
    }
    for what, entry in beginnings.items():
        report.refuses(what, Chain().extended, entry)
    rotate = new_epoch(1, 0)
    cut = b"\6movies" + other.id + bytes(8) + u64(1) + bytes(32)
    rival = cut[:-1] + b"\1"
    foreign = b"\6movies" + owner.id + bytes(8) + u64(1) + bytes(32)
    small = b"\1" + bytes(31)
    forged = {
        "a second genesis": owner.after(one, 1, owner.public() + bytes(32)),
        "an index too far": owner.entry(account, 2, head[1], 4, rotate),
        "another prev": owner.entry(account, 1, bytes(32), 4, rotate),
        "another account": owner.entry(bytes(16), 1, head[1], 4, rotate),
        "a stranger signs": stranger.after(one, 4, rotate),
        "a device twice": owner.add(one, owner),
        "no co-signature": owner.add(one, stranger, bytes(64)),
        "a co-signature for another index": owner.add(one, stranger, stranger.co_signature(account, 2)),
        "a co-signature for another account": owner.add(one, stranger, stranger.co_signature(bytes(16), 1)),
        "a co-signature of the signer": owner.add(one, stranger, owner.co_signature(account, 1)),
        "a key of small order": owner.after(one, 2, b"\1" + small + stranger.keys.public.wrapping + bytes(64)),
        "a signing key twice": owner.add(one, Forger(1, wrapping=6)),
        "a wrapping key twice": owner.add(one, Forger(6, wrapping=1)),
        "an unknown kind of device": owner.after(one, 2, b"\3" + stranger.public()[1:] + bytes(64)),
        "an epoch left out": owner.after(one, 4, new_epoch(2, 0)),
        "an epoch again": owner.after(one, 4, new_epoch(0, 0)),
        "an epoch that seals itself": owner.after(one, 4, new_epoch(1, 1)),
        "a body with more in it": owner.after(one, 4, rotate + b"\0"),
        "a name of a stranger": owner.after(one, 5, stranger.id + long(b"")),
        "a name too long": owner.after(one, 5, owner.id + long(bytes(513))),
        "a floor that falls": owner.after(one, 6, b"\0\1"),
    }
    for what, entry in forged.items():
        report.refuses(what, one.extended, entry)
    unlinked = {
        "nobody unlinked": owner.after(two, 3, listed() + listed() + rotate),
        "the signer unlinked": other.after(two, 3, listed(other.id) + listed() + rotate),
        "a stranger unlinked": owner.after(two, 3, listed(stranger.id) + listed() + rotate),
        "a device unlinked twice": owner.after(two, 3, listed(other.id, other.id) + listed() + rotate),
        "a cut of another device": owner.after(two, 3, listed(other.id) + listed(foreign) + rotate),
        "two cuts of one replica": owner.after(two, 3, listed(other.id) + listed(cut, rival) + rotate),
        "cuts that do not rise": owner.after(two, 3, listed(other.id) + listed(rival, cut) + rotate),
    }
    for what, entry in unlinked.items():
        report.refuses(what, two.extended, entry)
    without = two.extended(owner.after(two, 3, listed(other.id) + listed(cut) + rotate))
    report.same("the cut", without.devices[other.id].cuts, {("movies", bytes(8)): (1, bytes(32))})
    report.refuses("an unlinked device signs", without.extended, other.after(without, 4, new_epoch(2, 1)))
    report.refuses("an unlinked device comes back", without.extended, owner.add(without, other))
    report.refuses("an unlinked device is named", without.extended, owner.after(without, 5, other.id + long(b"")))
    report.refuses("a device unlinked again", without.extended,
                   owner.after(without, 3, listed(other.id) + listed() + new_epoch(2, 1)))
    crowd = {bytes([at]) * 16: Device(DevicePublic(COMPUTER, bytes([at]) * 32, bytes([at]) * 1216))
             for at in range(255)}
    full = dataclasses.replace(two, devices={**two.devices, **dict(list(crowd.items())[:253])})
    report.same("255 devices and one more", len(full.extended(owner.add(full, third)).active()), 256)
    full = dataclasses.replace(two, devices={**two.devices, **dict(list(crowd.items())[:254])})
    report.refuses("a device too many", full.extended, owner.add(full, third))
    newer = {
        "a format of later": owner.entry(account, 1, head[1], 4, rotate, format=2),
        "a kind of later": owner.after(one, 7, b""),
        "a floor of later": owner.after(one, 6, b"\2\1"),
        "a suite of later": owner.after(one, 6, b"\1\2"),
    }
    for what, entry in newer.items():
        try:
            one.extended(entry)
            report.fail(what, "was taken")
        except NeedsNewer:
            report.refuses(what, one.extended, entry)
    fork = one.extended(owner.add(one, third))
    report.same("a fork", chains.relation(two, fork), "fork")


def check_wrap(report):
    vector = report.vector("wrap")
    account, genesis, wrap, secret = unhex(vector, "account", "genesis", "wrap", "epoch_secret")
    chain = Chain.fold(account, [genesis])
    keys = DeviceKeys.read(unhex(vector, "device_keys"))
    report.same("device id", keys.id().hex(), vector["device_id"])
    report.same("commit", chain.epochs[0].commit.hex(), vector["commit"])

    def opened(wrap, chain=chain, keys=keys):
        ring = KeyRing(chain.account)
        ring.accept_wrap(chain, keys, wrap)
        return ring.secret(0)

    report.same("secret", opened(wrap), secret)
    report.flips("wrap", wrap, opened, every=41)
    report.refuses("another device", opened, wrap, chain, DeviceKeys(COMPUTER, bytes(32), bytes(32)))
    # A server that knows the device's public key can seal a secret of its own to it.
    other = Chain(account, chain.hashes, chain.devices, {0: chains.NewEpoch(0, bytes(32), None, None)})
    report.refuses("a commit that does not fit", opened, wrap, other)
    report.refuses("a secret without a commit", KeyRing(account).insert, chain, 0, bytes(32))
    report.refuses("a secret of another account", KeyRing(bytes(16)).insert, chain, 0, secret)
    report.refuses("an epoch that is not there", KeyRing(account).insert, chain, 1, secret)


def check_earlier(report):
    vector = report.vector("earlier")
    account, sealed, secret = unhex(vector, "account", "earlier", "epoch_secret")
    chain = Chain.fold(account, entries_of(vector))
    report.same("hash", earlier_hash(sealed).hex(), vector["hash"])

    def opened(sealed):
        ring = KeyRing(account)
        ring.insert(chain, vector["epoch"], secret)
        ring.accept_earlier(chain, sealed)
        return ring.secret(vector["seals"])

    report.same("secret", opened(sealed).hex(), vector["sealed_secret"])
    report.flips("sealed earlier secret", sealed, opened)
    # Who holds the later secret can seal the earlier one again; the chain names one sealing.
    data = label("earlier-data") + account + sealed[1:9]
    key = derive(secret, "earlier-key")
    again = sealed[:9] + bytes(24) + sealing.seal_at(key, bytes(24), data, opened(sealed))
    report.refuses("the same secret, sealed again", opened, again)
    report.refuses("without the later secret", KeyRing(account).accept_earlier, chain, sealed)


def check_walk_back(report):
    vector = report.vector("walk_back")
    account, wrap, stored = unhex(vector, "account", "wrap", "keyring")
    chain = Chain.fold(account, entries_of(vector))
    ring = KeyRing(account)
    ring.accept_wrap(chain, DeviceKeys.read(unhex(vector, "device_keys")), wrap)
    for sealed in reversed(entries_of(vector, "earlier")):
        if int.from_bytes(sealed[1:5], "big") in ring.secrets:
            ring.accept_earlier(chain, sealed)
        else:
            report.refuses("a secret sealed under one that is lost", ring.accept_earlier, chain, sealed)
    report.same("epochs", sorted(ring.secrets), vector["epochs"])
    report.same("key ring", sorted(ring.secrets.items()), sorted(KeyRing.read(stored).secrets.items()))
    report.refuses("a key ring of a later format", KeyRing.read, b"\2" + stored[1:])


def check_commit(report):
    vector = report.vector("commit")
    report.same("commit", commit_of(unhex(vector, "epoch_secret")).hex(), vector["commit"])


def check_derived_keys(report):
    """Every key of an epoch is its own."""
    secret = unhex(report.vector("commit"), "epoch_secret")
    keys = [derive(secret, purpose) for purpose in ("name-key", "earlier-key", "commit")]
    keys += [seal_key(secret, app) for app in ("movies", "notes")]
    keys += [derive(secret, "tag-key", b"\6movies"), derive(secret, "tag-key", b"\5notes")]
    report.same("distinct keys", len(set(keys)), len(keys))
