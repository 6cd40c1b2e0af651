"""The index of due timers: one row per key and instant in an ordered table.

Whatever is due is at the front, however many keys wait behind it. A row is a kind, the time in eight bytes that sort by
time, and the key; names and the rest are in the row of the key. The times of the last touch are here too, as a kind of
their own, because state expires by them. Must not know what happens when a time has come.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from holdfast_runtime.state.errors import parsing_state
from holdfast_runtime.steps.context import KeyValueTable

_BIAS = 1 << 63
_FRONT = Struct(">BQ")
_KEY_AT = _FRONT.size
LATEST = _BIAS - 1


class TimerKind(IntEnum):
    """What an instant stands for: a timer of one kind, or the last touch of a key."""

    EVENT = 0
    PROCESSING = 1
    TOUCHED = 2


@dataclass(frozen=True, slots=True, order=True)
class DueInstant:
    """An instant and its key, in the order in which they are served."""

    time: int
    key: bytes


def index_key(kind: TimerKind, time: int, key: bytes) -> bytes:
    """Return the index row of this instant."""
    return _FRONT.pack(kind, time + _BIAS) + key


def parse_index_key(row: bytes) -> tuple[TimerKind, int, bytes]:
    """Return what `index_key` was given."""
    kind, time = _FRONT.unpack_from(row)
    return TimerKind(kind), time - _BIAS, row[_KEY_AT:]


def due(index: KeyValueTable, kind: TimerKind, until: int, after: bytes = b"") -> Iterator[DueInstant]:
    """Yield the instants up to `until`, by time and key; with `after`, only those behind that index row."""
    prefix = bytes((kind,))
    stop = index_key(kind, until + 1, b"") if until < LATEST else None
    start = after + b"\x00" if after else b""
    with parsing_state("a timer"):
        for row, _ in index.scan(prefix, start, stop):
            _, time = _FRONT.unpack_from(row)
            yield DueInstant(time - _BIAS, row[_KEY_AT:])


def earliest(index: KeyValueTable, kind: TimerKind) -> int | None:
    """Return the earliest time of this kind, or None."""
    first = next(due(index, kind, LATEST), None)
    return None if first is None else first.time
