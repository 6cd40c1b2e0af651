"""State values as MessagePack: each value is read back with the type it was written with.

Extensions cover the types of Python's standard library that rows and arithmetic produce. Reading never runs code,
whatever the bytes hold, and other programs can read them too. Whatever would come back as something else (a subclass, a
bytearray, a numpy scalar) is refused when it is written. Must not know keys, steps or tables.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgpack

_MOMENT, _DATE, _TIME, _SPAN, _DECIMAL, _TUPLE, _SET, _FROZEN, _INTEGER, _UUID = range(1, 11)
_DEEPEST = 50
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - wall clocks are counted from a wall clock
_MICROSECOND = timedelta(microseconds=1)

_SIMPLE = frozenset(
    {type(None), bool, int, float, str, bytes, datetime, date, time, timedelta, Decimal, UUID},
)
_HOLDING = frozenset({dict, list, tuple, set, frozenset})
_ZONED = frozenset({datetime, time})
_PLAIN = _SIMPLE - _ZONED
_ALL = _SIMPLE | _HOLDING
_CAN = "None, bool, int, float, str, bytes, datetime, date, time, timedelta, Decimal, UUID, list, tuple, set and dict"


class ValueUnsupportedError(TypeError):
    """A value that would not come back as it is."""


@dataclass(frozen=True, slots=True)
class UnsupportedValue:
    """A value that can't be stored, and why."""

    path: str
    """Its path in the state, e.g. `seen[3]`."""
    why: str


def pack(value: Any) -> bytes:
    """Return the bytes of a supported value; equal values in equal order give equal bytes."""
    return _PACKER.pack(value)  # type: ignore[no-any-return]


def unpack(content: bytes) -> Any:
    """Return what was packed; raise `ValueError` for anything else."""
    return msgpack.unpackb(
        content, ext_hook=_extension, strict_map_key=False, unicode_errors="surrogatepass", use_list=True
    )


def supported(values: dict[Any, Any]) -> bool:
    """Whether everything can be packed. Asked for every state of a batch, so usual ones need no Python loop."""
    kinds = set(map(type, values.values()))
    if kinds <= _SIMPLE and _SIMPLE.issuperset(map(type, values)):
        return not (kinds & _ZONED) or not _bad_zone(values.values())
    return next(_faults(dict(values), "", 0), None) is None


def all_plain(states: Sequence[dict[Any, Any]]) -> bool:
    """Whether no value in these holds others or has a zone, so that all can be packed; asked once for a batch."""
    kinds = set(map(type, chain.from_iterable(map(dict.values, states))))
    return kinds.union(map(type, chain.from_iterable(states))) <= _PLAIN


def same_values(values: dict[Any, Any], before: dict[Any, Any]) -> bool:
    """Whether these are the same immutable objects as before, which is cheaper to find out than packing them."""
    if len(values) != len(before):
        return False
    for (name, value), (name_before, value_before) in zip(values.items(), before.items(), strict=True):
        if value is not value_before or name is not name_before or type(value) not in _SIMPLE:
            return False
    return True


def unsupported(values: dict[Any, Any]) -> UnsupportedValue | None:
    """Return the first value that can't be packed, or None."""
    return next(_faults(dict(values), "", 0), None)


def _faults(value: Any, path: str, depth: int) -> Iterator[UnsupportedValue]:
    kind = type(value)
    if kind not in _ALL:
        name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        yield UnsupportedValue(path, f"is of type {name}; state may hold {_CAN}")
    elif kind in _ZONED and not _known_zone(value.tzinfo):
        yield UnsupportedValue(path, f"has the time zone {value.tzinfo!r}; use datetime.timezone or zoneinfo.ZoneInfo")
    elif kind not in _HOLDING:
        return
    elif depth > _DEEPEST:
        yield UnsupportedValue(path, f"is nested deeper than {_DEEPEST}, or contains itself")
    elif kind is dict:
        for key, inner in value.items():
            yield from _faults(key, f"{path} key {key!r}".strip(), depth + 1)
            yield from _faults(inner, f"{path}[{key!r}]" if path else str(key), depth + 1)
    elif not _PLAIN.issuperset(map(type, value)):
        for index, inner in enumerate(value):
            yield from _faults(inner, f"{path}[{index}]", depth + 1)


def _bad_zone(values: Iterable[Any]) -> bool:
    return any(type(value) in _ZONED and not _known_zone(value.tzinfo) for value in values)


def _known_zone(zone: tzinfo | None) -> bool:
    return zone is None or type(zone) is timezone or (type(zone) is ZoneInfo and zone.key is not None)


def _plain(value: Any) -> Any:
    """Convert what MessagePack has no form for."""
    writer = _WRITERS.get(type(value))
    if writer is None:
        message = f"{type(value).__name__} can't be kept in state"
        raise ValueUnsupportedError(message)
    code, write = writer
    return msgpack.ExtType(code, write(value))


def _extension(code: int, content: bytes) -> Any:
    reader = _READERS.get(code)
    if reader is None:
        message = f"extension {code} is not one of this release"
        raise ValueError(message)
    return reader(content)


def _zone(value: datetime | time) -> int | str | None:
    zone = value.tzinfo
    if type(zone) is ZoneInfo:
        return zone.key
    offset = None if zone is None else zone.utcoffset(None)
    return None if offset is None else offset // _MICROSECOND


def _zone_of(stored: int | str | None) -> tzinfo | None:
    if stored is None:
        return None
    if isinstance(stored, str):
        return ZoneInfo(stored)
    return UTC if stored == 0 else timezone(stored * _MICROSECOND)


def _inner(value: Any) -> bytes:
    """Pack with a new packer: the shared one is busy while it asks for an extension."""
    return msgpack.packb(value, default=_plain, strict_types=True, unicode_errors="surrogatepass")  # type: ignore[no-any-return]


def _write_moment(value: datetime) -> bytes:
    return _inner([(value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND, value.fold, _zone(value)])


def _read_moment(content: bytes) -> Any:
    wall, fold, zone = unpack(content)
    return (_EPOCH + wall * _MICROSECOND).replace(fold=fold, tzinfo=_zone_of(zone))


def _write_time(value: time) -> bytes:
    return _inner([value.hour, value.minute, value.second, value.microsecond, value.fold, _zone(value)])


def _read_time(content: bytes) -> time:
    hour, minute, second, microsecond, fold, zone = unpack(content)
    return time(hour, minute, second, microsecond, _zone_of(zone), fold=fold)


def _write_set(value: Iterable[Any]) -> bytes:
    # Sets have no order: without sorting, an unchanged one would look changed.
    return b"".join(sorted(map(_inner, value)))


def _read_items(content: bytes) -> Any:
    unpacker = msgpack.Unpacker(
        ext_hook=_extension, strict_map_key=False, unicode_errors="surrogatepass", max_buffer_size=0
    )
    unpacker.feed(content)
    return unpacker


_WRITERS: dict[type, tuple[int, Callable[[Any], bytes]]] = {
    datetime: (_MOMENT, _write_moment),
    date: (_DATE, lambda value: _inner(value.toordinal())),
    time: (_TIME, _write_time),
    timedelta: (_SPAN, lambda value: _inner([value.days, value.seconds, value.microseconds])),
    Decimal: (_DECIMAL, lambda value: str(value).encode()),
    tuple: (_TUPLE, lambda value: _inner(list(value))),
    set: (_SET, _write_set),
    frozenset: (_FROZEN, _write_set),
    # Integers beyond MessagePack's 64 bits.
    int: (_INTEGER, lambda value: value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)),
    UUID: (_UUID, lambda value: value.bytes),
}
_READERS: dict[int, Callable[[bytes], Any]] = {
    _MOMENT: _read_moment,
    _DATE: lambda content: date.fromordinal(unpack(content)),
    _TIME: _read_time,
    _SPAN: lambda content: timedelta(*unpack(content)),
    _DECIMAL: lambda content: Decimal(content.decode()),
    _TUPLE: lambda content: tuple(unpack(content)),
    _SET: lambda content: set(_read_items(content)),
    _FROZEN: lambda content: frozenset(_read_items(content)),
    _INTEGER: lambda content: int.from_bytes(content, "big", signed=True),
    _UUID: lambda content: UUID(bytes=content),
}
# Made once: making one costs more than packing a small state. It can't be used recursively: see `_inner`.
_PACKER = msgpack.Packer(default=_plain, strict_types=True, unicode_errors="surrogatepass")
