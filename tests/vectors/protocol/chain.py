"""The device chain: its entries, and folding them."""

import copy
from dataclasses import dataclass, field

from .devices import COMPUTER, DevicePublic
from .encodings import MANIFEST_HEAD_SHORTEST, NeedsNewer, Reader, Refused, label, need
from .suite import check_signature, derive, hash_of, open_sealed

GENESIS, ADD_DEVICE, REVOKE_DEVICES, ROTATE, NAME, SET_FLOOR = 1, 2, 3, 4, 5, 6
KINDS = {
    GENESIS: "genesis", ADD_DEVICE: "add_device", REVOKE_DEVICES: "revoke_devices",
    ROTATE: "rotate", NAME: "name", SET_FLOOR: "set_floor",
}
ENTRY_LIMIT, SEALED_NAME_LIMIT, DEVICE_LIMIT = 65_536, 512, 256
FORMAT, SUITE = 1, 1


@dataclass(frozen=True)
class NewEpoch:
    """What an entry says that starts an epoch."""

    number: int
    commit: bytes
    seals: int
    earlier: bytes

    @classmethod
    def read(cls, reader):
        return cls(reader.u32(), reader.take(32), reader.u32(), reader.take(32))


@dataclass(frozen=True)
class Entry:
    """An entry, read and not yet believed."""

    account: bytes
    index: int
    prev: bytes
    kind: int
    body: dict
    signer: bytes
    signed: bytes
    signature: bytes

    @classmethod
    def read(cls, data):
        with Reader(data, ENTRY_LIMIT) as reader:
            reader.format()
            account, index, prev = reader.take(16), reader.u64(), reader.take(32)
            kind = reader.kind(KINDS)
            body = _read_body(kind, reader.long(ENTRY_LIMIT))
            signer = reader.take(16)
            signed = label("entry") + data[:reader.at]
            return cls(account, index, prev, kind, body, signer, signed, reader.take(64))

    def hash(self):
        return hash_of(self.signed)


def _read_body(kind, data):
    with Reader(data) as reader:
        if kind == GENESIS:
            return {"device": DevicePublic.read(reader), "commit": reader.take(32)}
        if kind == ADD_DEVICE:
            return {"device": DevicePublic.read(reader), "co_signature": reader.take(64)}
        if kind == REVOKE_DEVICES:
            return {
                "devices": reader.rising(lambda: reader.take(16), 16),
                "cuts": reader.rising(reader.manifest_head, MANIFEST_HEAD_SHORTEST),
                "epoch": NewEpoch.read(reader),
            }
        if kind == ROTATE:
            return {"epoch": NewEpoch.read(reader)}
        if kind == NAME:
            return {"device": reader.take(16), "sealed": reader.long(SEALED_NAME_LIMIT)}
        return {"format": reader.u8(), "suite": reader.u8()}


@dataclass
class Device:
    """A device of the account. `cuts` is set once it was unlinked: (app, incarnation) to the
    (n, hash) of the last manifest that counts."""

    public: DevicePublic
    name: bytes = None
    cuts: dict = None

    def is_active(self):
        return self.cuts is None


@dataclass
class Chain:
    """A folded chain."""

    account: bytes = None
    hashes: list = field(default_factory=list)
    devices: dict = field(default_factory=dict)
    epochs: dict = field(default_factory=dict)
    floor: tuple = (FORMAT, SUITE)

    @classmethod
    def fold(cls, account, entries):
        """Folds encoded entries into the chain of a known account, or refuses all of them."""
        chain = cls()
        need(entries, "no genesis")
        for encoded in entries:
            chain = chain.extended(encoded)
        need(chain.account == account, "another account's chain")
        return chain

    def extended(self, encoded):
        """The chain with one more entry; a refusal changes nothing."""
        chain = copy.deepcopy(self)
        chain._extend(Entry.read(encoded))
        return chain

    def head(self):
        return len(self.hashes) - 1, self.hashes[-1]

    def active(self):
        return {id: device for id, device in self.devices.items() if device.is_active()}

    def newest_epoch(self):
        return max(self.epochs)

    def author(self, account, app, replica):
        """The author of a blob, manifest or run: its key, and the cut up to which it counts."""
        need(account == self.account, "another account's")
        device = self.devices.get(replica[0])
        need(device is not None, "a device that is not in the chain")
        need(device.public.kind == COMPUTER, "a paper key writes no data")
        if device.is_active():
            return device.public.signing, None
        cut = device.cuts.get((app, replica[1]))
        need(cut is not None, "of an unlinked replica without a cut")
        return device.public.signing, cut

    def check_floor(self, format):
        need(format >= self.floor[0], "below the floor")

    def _extend(self, entry):
        if not self.hashes:
            return self._begin(entry)
        index, prev = self.head()
        need(entry.account == self.account, "another account's entry")
        need(entry.index == index + 1 and entry.prev == prev, "does not follow the head")
        signer = self.active().get(entry.signer)
        need(signer is not None, "signed by no active device")
        check_signature(signer.public.signing, entry.signed, entry.signature)
        STEPS[entry.kind](self, entry)
        self.hashes.append(entry.hash())

    def _begin(self, entry):
        need(entry.kind == GENESIS, "does not begin with a genesis")
        need(entry.account == bytes(16) and entry.prev == bytes(32), "a genesis has zeros there")
        need(entry.index == 0, "a genesis has index 0")
        device = entry.body["device"]
        need(entry.signer == device.id(), "not signed by its own device")
        need(device.kind == COMPUTER, "a genesis is of a computer")
        need(device.is_usable(), "a key of small order")
        check_signature(device.signing, entry.signed, entry.signature)
        self.account = entry.hash()[:16]
        self.devices[device.id()] = Device(device)
        self.epochs[0] = NewEpoch(0, entry.body["commit"], None, None)
        self.hashes.append(entry.hash())

    def _second_genesis(self, _):
        raise Refused("a second genesis")

    def _add_device(self, entry):
        device = entry.body["device"]
        for known in self.devices.values():
            need(device.id() != known.public.id(), "a device that was there")
            need(device.signing != known.public.signing, "a signing key that was there")
            need(device.wrapping != known.public.wrapping, "a wrapping key that was there")
        need(device.is_usable(), "a key of small order")
        need(len(self.active()) < DEVICE_LIMIT, "too many devices")
        device.check_co_signature(self.account, entry.index, entry.body["co_signature"])
        self.devices[device.id()] = Device(device)

    def _revoke_devices(self, entry):
        ids, cuts = entry.body["devices"], entry.body["cuts"]
        need(ids, "unlinks nobody")
        need(entry.signer not in ids, "unlinks its signer")
        need(all(id in self.active() for id in ids), "unlinks a device that is not active")
        need(all(replica[0] in ids for _, replica, _, _ in cuts), "a cut of another device")
        places = [(app, replica) for app, replica, _, _ in cuts]
        need(len(set(places)) == len(places), "two cuts of one replica")
        self._start_epoch(entry)
        for id in ids:
            self.devices[id].cuts = {
                (app, replica[1]): (n, hash) for app, replica, n, hash in cuts if replica[0] == id
            }

    def _start_epoch(self, entry):
        new = entry.body["epoch"]
        need(new.number == self.newest_epoch() + 1, "not the next epoch")
        need(new.seals in self.epochs, "seals an epoch that is not there")
        self.epochs[new.number] = new

    def _name(self, entry):
        device = self.active().get(entry.body["device"])
        need(device is not None, "names a device that is not active")
        device.name = entry.body["sealed"]

    def _set_floor(self, entry):
        floor = entry.body["format"], entry.body["suite"]
        need(floor[0] >= self.floor[0] and floor[1] >= self.floor[1], "the floor falls")
        if floor[0] > FORMAT or floor[1] > SUITE:
            raise NeedsNewer("floor")
        self.floor = floor


STEPS = {
    GENESIS: Chain._second_genesis, ADD_DEVICE: Chain._add_device,
    REVOKE_DEVICES: Chain._revoke_devices, ROTATE: Chain._start_epoch, NAME: Chain._name,
    SET_FLOOR: Chain._set_floor,
}


def relation(chain, other):
    """How another folded chain of the account relates to the one that we know."""
    for ours, theirs in zip(chain.hashes, other.hashes):
        if ours != theirs:
            return "fork"
    if len(other.hashes) == len(chain.hashes):
        return "same"
    return "rollback" if len(other.hashes) < len(chain.hashes) else "extension"


def open_name(ring, account, device, sealed):
    """The name that somebody gave a device."""
    with Reader(sealed) as reader:
        epoch, rest = reader.u32(), reader.take(reader.left())
        key = derive(ring.secret(epoch), "name-key")
        name = open_sealed(key, label("name-data") + account + device, rest)
        return reader.text(name)
