"""Why: the dicts a user's function gave, as one batch of the step's columns, or the first thing wrong with them.

Arrow alone would cut 1.5 to 1, take a number for a timestamp and leave out unknown fields without a word. Types are
asked of whole columns. Must not know which call gave which row: whoever calls finds it by the row's number.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast_runtime.streams.codecs.times import outside_years

_Accepts = Callable[[type], bool]
_LONGEST = 80


@dataclass(frozen=True, slots=True)
class RowFault:
    """What is wrong, with which row."""

    row: int
    message: str


def result_rows(found: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch | RowFault:
    """A column that a row leaves out is null."""
    if not set(map(type, found)) <= {dict}:
        fault = _not_dicts(found)
        if fault is not None:
            return fault
    names = schema.names
    unknown = set().union(*found).difference(names)
    if unknown:
        return _unknown(found, unknown, names)
    columns = []
    for name, field in zip(names, schema, strict=True):
        values = [row.get(name) for row in found]
        column = _column(values, field)
        if isinstance(column, RowFault):
            return column
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: list[Any], field: pa.Field) -> "pa.Array | RowFault":
    if not field.nullable and type(None) in set(map(type, values)):
        return RowFault(
            next(i for i, one in enumerate(values) if one is None),
            f"column {field.name} is missing or null, and it is NOT NULL",
        )
    wrong = _wrong(field.type, values, field.name)
    if wrong is not None:
        path, value = wrong
        row = next(i for i, one in enumerate(values) if _wrong(field.type, [one], field.name))
        return RowFault(row, f"column {path} is {_typed(value)}, and the step's schema says {field.type}")
    try:
        made = pa.array(values, field.type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        row = next((i for i, one in enumerate(values) if not _fits(one, field.type)), 0)
        return RowFault(row, f"column {field.name} is {_typed(values[row])}, which is no {field.type}: {error}")
    outside = outside_years(made, field.name)
    if outside is not None:
        row = next(i for i in range(len(made)) if outside_years(made.slice(i, 1), field.name))
        return RowFault(row, f"column {outside} is outside of the years 1 to 9999 in UTC: {_typed(values[row])}")
    return made


def _wrong(kind: pa.DataType, values: Sequence[Any], path: str) -> tuple[str, Any] | None:
    """The first value of a Python type that does not belong into this column, and where."""
    kinds = set(map(type, values))
    kinds.discard(type(None))
    accepts = _accepts(kind)
    bad = {one for one in kinds if not accepts(one)}
    if bad:
        return path, next(value for value in values if type(value) in bad)
    if not pa.types.is_nested(kind):
        return None
    there = [value for value in values if value is not None]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _wrong(kind.value_type, list(chain.from_iterable(there)), f"{path}[]")
    if pa.types.is_map(kind):
        pairs = [pair for value in there for pair in (value.items() if isinstance(value, dict) else value)]
        return _wrong(kind.key_type, [key for key, _ in pairs], f"{path} key") or _wrong(
            kind.item_type, [item for _, item in pairs], f"{path} value"
        )
    if pa.types.is_struct(kind):
        return _wrong_struct(kind, there, path)
    return None


def _wrong_struct(kind: pa.StructType, values: Sequence[dict[str, Any]], path: str) -> tuple[str, Any] | None:
    fields = [kind.field(i) for i in range(kind.num_fields)]
    unknown = set().union(*values).difference(field.name for field in fields)
    if unknown:
        name = min(map(str, unknown))
        return f"{path}.{name} is unknown; {path}", next(value for value in values if not unknown.isdisjoint(value))
    for field in fields:
        wrong = _wrong(field.type, [value.get(field.name) for value in values], f"{path}.{field.name}")
        if wrong is not None:
            return wrong
    return None


_FAMILIES: tuple[tuple[Callable[[pa.DataType], bool], _Accepts], ...] = (
    (pa.types.is_boolean, lambda t: issubclass(t, bool | np.bool_)),
    (pa.types.is_integer, lambda t: issubclass(t, int | np.integer) and t is not bool),
    (pa.types.is_floating, lambda t: issubclass(t, float | int | np.floating | np.integer) and t is not bool),
    (pa.types.is_decimal, lambda t: issubclass(t, Decimal | int) and t is not bool),
    (pa.types.is_string, lambda t: issubclass(t, str)),
    (pa.types.is_large_string, lambda t: issubclass(t, str)),
    (pa.types.is_binary, lambda t: issubclass(t, bytes | bytearray | memoryview)),
    (pa.types.is_large_binary, lambda t: issubclass(t, bytes | bytearray | memoryview)),
    (pa.types.is_timestamp, lambda t: issubclass(t, datetime | np.datetime64)),
    (pa.types.is_date, lambda t: issubclass(t, date) and not issubclass(t, datetime)),
    (pa.types.is_time, lambda t: issubclass(t, time)),
    (pa.types.is_duration, lambda t: issubclass(t, timedelta | np.timedelta64)),
    (pa.types.is_list, lambda t: issubclass(t, list | tuple | np.ndarray)),
    (pa.types.is_large_list, lambda t: issubclass(t, list | tuple | np.ndarray)),
    (pa.types.is_map, lambda t: issubclass(t, dict | list | tuple)),
    (pa.types.is_struct, lambda t: issubclass(t, dict)),
    (pa.types.is_null, lambda _: False),
)


def _accepts(kind: pa.DataType) -> _Accepts:
    return next((accepts for is_kind, accepts in _FAMILIES if is_kind(kind)), lambda _: True)


def _not_dicts(found: Sequence[Any]) -> RowFault | None:
    for row, one in enumerate(found):
        if not isinstance(one, dict):
            return RowFault(row, f"gave {_typed(one)}, and a row is a dict of columns")
    return None


def _unknown(found: Sequence[dict[Any, Any]], unknown: Iterable[Any], names: Sequence[str]) -> RowFault:
    gone = set(unknown)
    row = next(i for i, one in enumerate(found) if not gone.isdisjoint(one))
    name = next(column for column in found[row] if column in gone)
    return RowFault(row, f"column {name!r} is not in the step's schema ({', '.join(names)})")


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return False
    return True


def short(value: Any) -> str:
    """A value in a message."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _typed(value: Any) -> str:
    return f"{short(value)} ({type(value).__name__})"
