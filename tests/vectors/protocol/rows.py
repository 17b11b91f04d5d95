"""Rows: the body of a blob or part, and the state of a row."""

from dataclasses import dataclass, field

from . import cbor
from .cbor import UNDEFINED
from .encodings import NeedsNewer, need

ZERO = bytes(16)
STAMP_LIMIT = (1 << 47 << 16).to_bytes(8, "big") + bytes(8)
BODY_LIMIT, BODY_LIMIT_SINGLE = 262_144, 327_680
TABLE_LIMIT, ROW_ID_LIMIT = 255, 512


@dataclass
class Base:
    """The last write of a path."""

    stamp: bytes
    replaced: bytes
    value: object


@dataclass
class Hanging:
    """Increments and dots on a base: {incarnation: (count, sum)}, {key: [value, added, removed]}."""

    on: bytes
    increments: dict
    dots: dict


@dataclass
class Cell:
    """What was written at a path."""

    base: Base = None
    hanging: Hanging = None


@dataclass
class Row:
    """The state of a row; a delta is one too."""

    version: bytes = ZERO
    life: tuple = None
    cleared: tuple = None
    cells: dict = field(default_factory=dict)

    def floor(self, path):
        """The stamp below which nothing at a path counts."""
        floor = self.cleared[0] if self.cleared else ZERO
        for length in range(1, len(path)):
            above = self.cells.get(path[:length])
            if above and above.base:
                floor = max(floor, above.base.stamp)
        return floor

    def paths(self):
        """The paths written, outer ones before what is below them."""
        return sorted(self.cells, key=_path_order)

    def parts(self):
        """How many bases and sets of what hangs on them there are."""
        cells = self.cells.values()
        return sum((cell.base is not None) + (cell.hanging is not None) for cell in cells)

    def drop_older(self):
        """Drops what does not count any more; outer paths first."""
        for path in self.paths():
            cell, floor = self.cells[path], self.floor(path)
            if cell.base and cell.base.stamp < floor:
                cell.base = None
            if cell.base:
                floor = cell.base.stamp
            if cell.hanging and cell.hanging.on < floor:
                cell.hanging = None
            if not cell.base and not cell.hanging:
                del self.cells[path]


def _path_order(path):
    return tuple(key.encode() for key in path)


def read_body(data):
    """(table, [(row id, row)]) of an unpacked body."""
    need(len(data) <= BODY_LIMIT_SINGLE, "a body larger than its limit")
    fields = cbor.decode(data)
    need(isinstance(fields, list) and fields and _is_number(fields[0]), "not a body")
    if fields[0] != 1:
        raise NeedsNewer("a body of format %d" % fields[0])
    need(len(fields) == 3 and _is_name(fields[1], TABLE_LIMIT), "not a body")
    need(isinstance(fields[2], list) and fields[2], "a body without rows")
    need(len(fields[2]) == 1 or len(data) <= BODY_LIMIT, "a body larger than its limit")
    rows = []
    for pair in fields[2]:
        need(isinstance(pair, list) and len(pair) == 2, "an id and a row")
        need(_is_name(pair[0], ROW_ID_LIMIT), "not a row id")
        rows.append((pair[0], read_row(pair[1])))
    ids = [id.encode() for id, _ in rows]
    need(all(a < b for a, b in zip(ids, ids[1:])), "row ids that do not rise")
    need(all(row != Row() for _, row in rows), "a row that says nothing")
    return fields[1], rows


def _is_name(text, limit):
    return isinstance(text, str) and 1 <= len(text.encode()) <= limit and "\0" not in text


def _is_number(item):
    return isinstance(item, int) and not isinstance(item, bool) and item >= 0


def read_row(fields):
    """The state of a row, of its decoded CBOR."""
    need(isinstance(fields, list) and len(fields) == 5, "a row is an array of five")
    stamps, version, life, cleared, cells = fields
    need(isinstance(stamps, list), "a list of stamps")
    for stamp in stamps:
        need(isinstance(stamp, bytes) and len(stamp) == 16, "not a stamp")
        need(ZERO < stamp < STAMP_LIMIT, "a stamp at no time, or at or past 2^47 ms")
    need(all(a < b for a, b in zip(stamps, stamps[1:])), "stamps that do not rise")
    places = _Places(stamps)
    row = Row(version=places.any(version))
    if life is not None:
        need(isinstance(life, list) and len(life) == 2 and isinstance(life[1], bool), "not a life")
        row.life = places.written(life[0]), life[1]
    if cleared is not None:
        need(isinstance(cleared, list) and len(cleared) == 2, "not a clearing")
        row.cleared = places.replacing(cleared[0], cleared[1])
    need(isinstance(cells, list), "a list of cells")
    last = None
    for cell in cells:
        path, read = _read_cell(cell, places)
        order = _path_order(path)
        need(last is None or last < order, "cells that do not rise")
        row.cells[path], last = read, order
    need(places.used == set(range(1, len(stamps) + 1)), "a stamp that nothing names")
    parts = row.parts()
    row.drop_older()
    need(row.parts() == parts, "a cell that does not count")
    return row


class _Places:
    """Stamps by their place in the row's list, from 1; 0 is the zero stamp."""

    def __init__(self, stamps):
        self.stamps, self.used = stamps, set()

    def any(self, place):
        need(_is_number(place) and place <= len(self.stamps), "no such stamp")
        if place == 0:
            return ZERO
        self.used.add(place)
        return self.stamps[place - 1]

    def written(self, place):
        stamp = self.any(place)
        need(stamp != ZERO, "written at no time")
        return stamp

    def replacing(self, place, replaced_place):
        stamp, replaced = self.written(place), self.any(replaced_place)
        need(replaced < stamp, "a write replaces older ones only")
        return stamp, replaced

    def rising(self, places):
        need(isinstance(places, list), "a list of stamps")
        stamps = [self.written(place) for place in places]
        need(all(a < b for a, b in zip(stamps, stamps[1:])), "stamps that do not rise")
        return set(stamps)


def _read_cell(fields, places):
    need(isinstance(fields, list) and len(fields) in (2, 4, 5), "a cell of two, four or five")
    path = _read_path(fields[0])
    levels = cbor.DEPTH - len(path)
    need(levels >= 0, "nested too deep")
    cell = Cell()
    if len(fields) > 2:
        stamp, replaced = places.replacing(fields[1], fields[2])
        if fields[3] is not UNDEFINED:
            check_value(fields[3], levels)
        cell.base = Base(stamp, replaced, fields[3])
    if len(fields) != 4:
        cell.hanging = _read_hanging(fields[-1], places, levels)
    return path, cell


def _read_path(item):
    if isinstance(item, str):
        return (item,)
    need(isinstance(item, list) and 2 <= len(item) <= cbor.DEPTH, "not a path")
    need(all(isinstance(key, str) for key in item), "not a path")
    return tuple(item)


def check_value(item, levels):
    """Refuses what is no JSON value, or nests deeper than so many levels."""
    if item is None or isinstance(item, (bool, float, str)):
        return
    if isinstance(item, int):
        need(-2**63 <= item < 2**64, "an integer outside 64 bits")
        return
    need(isinstance(item, (list, dict)), "not a value")
    need(levels > 0, "nested too deep")
    inner = item
    if isinstance(item, dict):
        need(all(isinstance(key, str) for key in item), "not a value")
        inner = item.values()
    for value in inner:
        check_value(value, levels - 1)


def _read_hanging(fields, places, levels):
    need(isinstance(fields, list) and len(fields) == 3, "an array of three hangs on a base")
    on, increments, dots = places.any(fields[0]), fields[1], fields[2]
    need(isinstance(increments, dict) and isinstance(dots, list), "increments and dots")
    need(increments or dots, "neither increments nor dots")
    for incarnation, increment in increments.items():
        need(isinstance(incarnation, bytes) and len(incarnation) == 8, "not an incarnation")
        need(isinstance(increment, list) and len(increment) == 2, "an increment of two")
        need(_is_number(increment[0]) and increment[0] < 2**64, "not a count")
    sums = {who: (count, _read_sum(sum)) for who, (count, sum) in increments.items()}
    read, last = {}, None
    for dot in dots:
        need(isinstance(dot, list) and len(dot) == 3, "a dot of three")
        need(levels > 0, "nested too deep")
        check_value(dot[0], levels - 1)
        key, added, removed = value_key(dot[0]), places.rising(dot[1]), places.rising(dot[2])
        need(added or removed, "a dot that says nothing")
        need(not added & removed, "a dot that says two things")
        need(last is None or last < key, "dots that do not rise")
        read[key], last = [dot[0], added, removed], key
    return Hanging(on, sums, read)


def _read_sum(item):
    if isinstance(item, bytes):
        need(len(item) == 16, "not a sum")
        number = int.from_bytes(item, "big", signed=True)
        need(not -2**63 <= number < 2**63, "a sum that could be shorter")
        return number
    if isinstance(item, float):
        return item
    need(isinstance(item, int) and not isinstance(item, bool), "not a sum")
    need(-2**63 <= item < 2**63, "a sum past 64 bits is 16 bytes")
    return item


def value_key(value):
    """Sorts values: null < numbers < strings < false < true < arrays < objects."""
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (4 if value else 3,)
    if isinstance(value, (int, float)):
        return 1, value
    if isinstance(value, str):
        return 2, value.encode()
    if isinstance(value, list):
        return 5, tuple(value_key(item) for item in value)
    order = sorted(value.items(), key=lambda member: member[0].encode())
    return 6, tuple((key.encode(), value_key(item)) for key, item in order)
