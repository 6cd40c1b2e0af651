"""Why: how a key's state, the time of its last touch and its timers lie in one row, so that one read gets all.

A list in MessagePack: state, touched or 0, event-time timers, processing-time timers; what is empty at the end is left
out. `holdfast state` reads it too. Must not know tables.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, NamedTuple

from holdfast_runtime.state.errors import parsing_state
from holdfast_runtime.steps.key_state import Timers
from holdfast_runtime.steps.state_values import pack, unpack

_NULL, _THERE = b"\x00", b"\x01"
_LIST = Struct(">BI")
_LIST_CODE = 0xDD


class KeyRow(NamedTuple):
    """What is kept of a key."""

    values: dict[Any, Any]
    touched: int
    """When the function was last called for it, rounded up; 0: it has no ttl."""
    timers: Timers | None


def row_key(key: bytes | None) -> bytes:
    """A key in a table: null is a key like others, and no key is empty there."""
    return _NULL if key is None else _THERE + key


def key_of(row: bytes) -> bytes | None:
    """What `row_key` was given."""
    return None if row[:1] == _NULL else row[1:]


def write_row(values: dict[Any, Any], touched: int, timers: Timers | None) -> bytes:
    """The row of a key."""
    if timers is None:
        return pack([values, touched] if touched else [values])
    # In order of names, or timers set in another order would look changed.
    return pack([values, touched, *(dict(sorted(named.items())) if len(named) > 1 else named for named in timers)])


def read_rows(contents: Sequence[bytes | None]) -> list[KeyRow | None]:
    """What `write_row` was given, many at once."""
    there = [content for content in contents if content is not None]
    with parsing_state("the state of some keys"):
        # Beside each other behind the head of a list they are one value: one call reads all of them.
        found = unpack(_LIST.pack(_LIST_CODE, len(there)) + b"".join(there))
        new = tuple.__new__  # half the time of KeyRow(...)
        rows = [new(KeyRow, (one[0], 0, None)) if len(one) == 1 else _row(*one) for one in found]
    if len(rows) == len(contents):
        return rows  # type: ignore[return-value] # a list of rows is one of rows or None
    rest = iter(rows)
    return [None if content is None else next(rest) for content in contents]


def _row(values: dict[Any, Any], touched: int, *timers: dict[str, int]) -> KeyRow:
    return KeyRow(values, touched, (timers[0], timers[1]) if timers else None)
