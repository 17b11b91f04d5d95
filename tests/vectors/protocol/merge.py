"""How states of a row merge, and the columns that they come to."""

import copy

from . import cbor
from .cbor import UNDEFINED
from .rows import Base, Cell, Hanging, Row, value_key


def merge(a, b):
    """The state that holds what two states of one row hold."""
    row = Row(max(a.version, b.version))
    row.life = max((life for life in (a.life, b.life) if life), default=None)
    both = [cleared for cleared in (a.cleared, b.cleared) if cleared]
    row.cleared = max(both, key=lambda cleared: (cleared[0], _inverted(cleared[1])), default=None)
    for path in {*a.cells, *b.cells}:
        ours, theirs = a.cells.get(path, Cell()), b.cells.get(path, Cell())
        row.cells[path] = Cell(
            _greater(ours.base, theirs.base, lambda base: base.stamp, _merge_bases),
            _greater(ours.hanging, theirs.hanging, lambda hanging: hanging.on, _merge_hanging),
        )
    row.drop_older()
    return row


def _inverted(stamp):
    return bytes(255 - byte for byte in stamp)


def _greater(ours, theirs, key, same):
    if ours is None or theirs is None:
        return ours or theirs
    if key(ours) == key(theirs):
        return same(ours, theirs)
    return max(ours, theirs, key=key)


def _greater_encoding(ours, theirs):
    return max(ours, theirs, key=_encoding)


def _encoding(value):
    """A value that was removed is the least."""
    return b"" if value is UNDEFINED else cbor.encode(value)


def _merge_bases(ours, theirs):
    value = _greater_encoding(ours.value, theirs.value)
    return Base(ours.stamp, min(ours.replaced, theirs.replaced), value)


def _merge_hanging(ours, theirs):
    merged = Hanging(ours.on, dict(ours.increments), dict(ours.dots))
    for who, increment in theirs.increments.items():
        merged.increments[who] = max(merged.increments.get(who, increment), increment, key=_later)
    for key, (value, added, removed) in theirs.dots.items():
        if key in merged.dots:
            our_value, our_added, our_removed = merged.dots[key]
            removed = removed | our_removed
            added = (added | our_added) - removed
            value = _greater_encoding(our_value, value)
        merged.dots[key] = [value, added, removed]
    return merged


def _later(increment):
    """By count, then by sum; for one value, floats above integers and 0.0 above -0.0."""
    count, sum = increment
    positive = isinstance(sum, float) and not str(sum).startswith("-")
    return count, sum, isinstance(sum, float), positive


def columns(row):
    """The columns as an app sees them, or None where the row is not shown."""
    if not row.life or not row.life[1]:
        return None
    shown = {}
    for path in row.paths():
        _apply(row, path, row.cells[path], shown)
    return shown


def _apply(row, path, cell, shown):
    if cell.base:
        value, stamp = cell.base.value, cell.base.stamp
    else:
        value, stamp = _find(shown, path), row.floor(path)
    hanging = cell.hanging if cell.hanging and cell.hanging.on == stamp else None
    if not cell.base and not hanging:
        return
    # A copy, as writes below will change it.
    value = copy.deepcopy(_with_hanging(value, hanging) if hanging else value)
    _set(shown, path, value)


def _with_hanging(value, hanging):
    if hanging.dots and (value is UNDEFINED or isinstance(value, list)):
        return _items([] if value is UNDEFINED else value, hanging)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if hanging.increments and (value is UNDEFINED or number):
        return _total(0 if value is UNDEFINED else value, hanging)
    return value


def _items(base, hanging):
    kept = []
    for item in base:
        dot = hanging.dots.get(value_key(item))
        if not dot or hanging.on not in dot[2]:
            kept.append(item)
    shown = {value_key(item) for item in kept}
    added = [
        (min(added), key, value)
        for key, (value, added, _) in hanging.dots.items() if added and key not in shown
    ]
    return kept + [value for _, _, value in sorted(added, key=lambda item: item[:2])]


def _total(start, hanging):
    largest = 1.7976931348623157e308
    total = start
    for who in sorted(hanging.increments):
        term = hanging.increments[who][1]
        exact = isinstance(total, int) and isinstance(term, int)
        if exact and -2**127 <= total + term < 2**127:
            total += term
        else:
            total = max(-largest, min(largest, float(total) + float(term)))
    if isinstance(total, int) and not -2**63 <= total < 2**64:
        return float(total)
    return total


def _find(shown, path):
    value = shown
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return UNDEFINED
        value = value[key]
    return value


def _set(shown, path, value):
    for key in path[:-1]:
        if not isinstance(shown.get(key), dict):
            if value is UNDEFINED:
                return
            shown[key] = {}
        shown = shown[key]
    if value is UNDEFINED:
        shown.pop(path[-1], None)
    else:
        shown[path[-1]] = value
