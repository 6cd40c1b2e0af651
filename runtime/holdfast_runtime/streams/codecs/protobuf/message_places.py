"""The second part of the frame around Protobuf records of a registry: which message of its schema each is.

Behind the id stand how many numbers follow, and these: where the message stands in the schema, as that may have
several, inside of each other; the first one is a single zero byte. Records are sorted by their first bytes, a batch at
once. Must not know schemas.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast_runtime.streams.codecs.codec import Indices
from holdfast_runtime.streams.codecs.protobuf.wire import read_varint, varint
from holdfast_runtime.streams.codecs.record_reader import UnreadableError
from holdfast_runtime.streams.codecs.schema_ids import FRAME_BYTES

MOST_LEVELS = 32
_MOST_PLACES = 64
"""That are looked for in a whole batch; beyond them records are looked at one by one."""
_MOST_BYTES = 5 * (MOST_LEVELS + 1)


@dataclass(frozen=True, slots=True)
class PlacedRecords:
    """Records of one message."""

    indices: Indices
    place: tuple[int, ...] | str
    """Where the message stands, or why that can't be read."""
    frame_bytes: int


def place_bytes(place: tuple[int, ...]) -> bytes:
    """Return how a place is written."""
    return b"\0" if place == (0,) else b"".join(varint(number << 1) for number in (len(place), *place))


def placed_records(values: pa.BinaryArray) -> list[PlacedRecords]:
    """Return these records, which all have an id, by the place of their message."""
    count = len(values)
    _, ends, content = values.buffers()
    bounds = np.frombuffer(ends, np.int32)[values.offset : values.offset + count + 1]
    content_bytes = np.frombuffer(content, np.uint8)
    starts, stops = bounds[:-1] + FRAME_BYTES, bounds[1:]
    heads = np.minimum(stops, starts + _MOST_BYTES)

    def place_of(record: int) -> tuple[tuple[int, ...] | str, bytes]:
        raw = content_bytes[starts[record] : heads[record]].tobytes()
        place, size = _place(raw)
        return place, raw[:size]

    placed: list[PlacedRecords] = []
    left = np.arange(count)
    while len(left) and len(placed) < _MOST_PLACES:
        first = left[0]
        place, raw = place_of(first)
        same = stops[left] - starts[left] >= len(raw)
        for at, byte in enumerate(raw):
            same &= content_bytes[np.where(same, starts[left] + at, starts[first])] == byte
        if isinstance(place, str):
            same[1:] = False  # others have reasons of their own
        placed.append(PlacedRecords(left[same], place, FRAME_BYTES + len(raw)))
        left = left[~same]
    groups = defaultdict[tuple[tuple[int, ...] | str, int], list[int]](list)
    for record in left.tolist():
        place, raw = place_of(record)
        groups[place, len(raw)].append(record)
    placed += [PlacedRecords(np.array(group), place, FRAME_BYTES + size) for (place, size), group in groups.items()]
    return placed


def _place(raw: bytes) -> tuple[tuple[int, ...] | str, int]:
    """Read a place; return how many bytes it has, too."""
    what = "the place of its message"
    try:
        count, at = _number(raw, 0, what)
        if not count:
            return (0,), at
        if not 0 < count <= MOST_LEVELS:
            return f"{what} has {count} numbers; is it a record of Protobuf?", at
        numbers = []
        for _ in range(count):
            number, at = _number(raw, at, what)
            numbers.append(number)
        return tuple(numbers), at
    except UnreadableError as error:
        return f"{error}; records of Protobuf have it behind the id of their schema", 0


def _number(raw: bytes, at: int, what: str) -> tuple[int, int]:
    number, at = read_varint(raw, at, what, 32)
    return number >> 1 ^ -(number & 1), at
