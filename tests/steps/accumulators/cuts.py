"""Rows of groups cut into batches, gathered, and merged in any nesting: what each group has at the end."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from holdfast_runtime.steps.accumulators.accumulator import Accumulator, RowGroups

NAN = float("nan")
STRUCT = pa.struct([("a", pa.float64()), ("b", pa.string())])
STRUCTS = pa.list_(pa.field("element", STRUCT))
LIST = pa.list_(pa.field("element", pa.int64()))
_FLOATS = (NAN, -NAN, 0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"))
_TEXTS = (
    "",
    "a",
    "a\0",
    "a\0\0",
    "ab",
    "é",
    "z",
    "\uffff",
    "\U0001f600",
    "abcdefg",
    "abcdefg\0",
    "abcdefgh",
    "x" * 130,
)
_DAY = dt.datetime(2026, 11, 22, tzinfo=dt.UTC)
VALUES: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "ints": (pa.int32(), (-(2**31), -1, 0, 1, 2**31 - 1)),
    "bigints": (pa.int64(), (-(2**63), -1, 0, 1, 2**63 - 1)),
    "booleans": (pa.bool_(), (False, True)),
    "doubles": (pa.float64(), _FLOATS),
    "floats": (pa.float32(), _FLOATS),
    "texts": (pa.string(), _TEXTS),
    "alike": (pa.string(), tuple("https://example.org/" + end for end in ("", "a", "b", "x" * 200, "x" * 200 + "y"))),
    "bytes": (pa.binary(), (b"", b"\0", b"\0\0", b"\x7f", b"\x80", b"\xff", b"\xff\0")),
    "dates": (pa.date32(), (dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31))),
    "timestamps": (pa.timestamp("us", "UTC"), (_DAY, _DAY + dt.timedelta(microseconds=1), _DAY.replace(year=1))),
    "durations": (pa.duration("us"), (dt.timedelta(-1), dt.timedelta(0), dt.timedelta(microseconds=1))),
    "decimals": (pa.decimal128(18, 2), tuple(map(Decimal, ("-1.50", "0.00", "0.01", "9999999999999999.99")))),
    "long decimals": (pa.decimal128(38, 0), tuple(Decimal(n) for n in (-(2**64), -1, 0, 1, 2**63, 2**64, 2**64 + 1))),
    "nulls": (pa.null(), (None,)),
    "structs": (STRUCT, tuple({"a": a, "b": b} for a in (None, 0.0, -0.0, NAN) for b in (None, "", "é"))),
    "lists": (LIST, ([], [None], [None, 1], [1], [1, None], [1, 2], [2])),
    "lists of texts": (pa.list_(pa.field("element", pa.string())), ([], [""], ["a"], ["a", ""], ["a\0"], [None, "b"])),
    "lists of structs": (STRUCTS, ([], [None], [{"a": None, "b": None}], [{"a": NAN, "b": "x"}])),
}  # fmt: skip

BATCHES = st.lists(st.integers(0, 12), min_size=1, max_size=6)
"""How many rows each batch has."""
FAILED = "failed"
"""The result of a group that has none."""


@dataclass(frozen=True)
class Partial:
    keys: list[int]
    states: list[pa.Array]


def array(values: Sequence[Any], kind: pa.DataType, junk: Any) -> pa.Array:
    """An array with junk below its nulls, that is a slice of a longer one."""
    padded = [junk, *values, junk]
    if pa.types.is_null(kind):
        return pa.array(padded, kind)[1:-1]
    whole = pa.array([junk if value is None else value for value in padded], kind)
    missing = pa.array([value is None for value in padded])
    if pa.types.is_struct(kind):
        masked = pa.StructArray.from_arrays([whole.field(n) for n in range(len(kind))], fields=list(kind), mask=missing)
    elif pa.types.is_list(kind):
        masked = pa.ListArray.from_arrays(whole.offsets, whole.values, type=kind, mask=missing)
    else:
        valid = pa.array([value is not None for value in padded]).buffers()[1]
        masked = pa.Array.from_buffers(kind, len(padded), [valid, *whole.buffers()[1:]])
    return masked[1:-1]


def grouped(keys: Sequence[int]) -> tuple[list[int], RowGroups]:
    order = np.argsort(np.array(keys, np.int64), kind="stable")
    distinct = sorted(set(keys))
    return distinct, RowGroups(order, np.searchsorted(np.sort(np.array(keys, np.int64)), distinct).astype(np.int64))


def gathered(
    accumulator: Accumulator, columns: Sequence[pa.Array], counted: Sequence[bool] | None, keys: Sequence[int]
) -> Partial:
    distinct, groups = grouped(keys)
    states = accumulator.gather(columns, None if counted is None else np.array(counted, np.bool_), groups)
    return checked(accumulator, Partial(distinct, states))


def merged(accumulator: Accumulator, parts: Sequence[Partial]) -> Partial:
    distinct, groups = grouped([key for part in parts for key in part.keys])
    states = []
    for columns in zip(*(part.states for part in parts), strict=True):
        before = columns[0]
        states.append(pa.concat_arrays([before, *columns])[len(before) :])
    return checked(accumulator, Partial(distinct, accumulator.merge(states, groups)))


def checked(accumulator: Accumulator, part: Partial) -> Partial:
    assert tuple(column.type for column in part.states) == accumulator.kept
    for column in part.states:
        column.validate(full=True)
        assert len(column) == len(part.keys)
    return part


def nested(accumulator: Accumulator, parts: list[Partial], data: st.DataObject | Random) -> Partial:
    """Merge neighbours until one is left."""

    def between(least: int, most: int) -> int:
        return data.randint(least, most) if isinstance(data, Random) else data.draw(st.integers(least, most))

    while len(parts) > 1:
        start = between(0, len(parts) - 2)
        end = between(start + 2, len(parts))
        parts = [*parts[:start], merged(accumulator, parts[start:end]), *parts[end:]]
    return parts[0]


def results(accumulator: Accumulator, part: Partial) -> dict[int, Any]:
    finished = accumulator.finish(part.states)
    assert finished.values.type == accumulator.result
    finished.values.validate(full=True)
    values = finished.values.to_pylist()
    for place in [] if finished.failed is None else np.flatnonzero(finished.failed).tolist():
        assert values[place] is None
        assert finished.why
        values[place] = FAILED
    return dict(zip(part.keys, values, strict=True))


@dataclass(frozen=True)
class Case:
    """Rows of some groups, and in which batches they come."""

    keys: list[int]
    columns: list[list[Any]]
    counted: list[bool] | None
    batches: list[int]

    def run(self, accumulator: Accumulator, types: Sequence[pa.DataType], junk: Sequence[Any], data: Any) -> Any:
        parts, start = [], 0
        for many in self.batches:
            span = slice(start, start + many)
            arrays = [array(c[span], kind, j) for c, kind, j in zip(self.columns, types, junk, strict=True)]
            counted = None if self.counted is None else self.counted[span]
            parts.append(gathered(accumulator, arrays, counted, self.keys[span]))
            start += many
        return results(accumulator, nested(accumulator, parts, data))

    def rows(self) -> dict[int, list[tuple[Any, ...]]]:
        """The rows that count of each group, in the order they came."""
        rows_by_key: dict[int, list[tuple[Any, ...]]] = {key: [] for key in self.keys}
        for place, row in enumerate(zip(*self.columns, strict=True)):
            if self.counted is None or self.counted[place]:
                rows_by_key[self.keys[place]].append(row)
        return rows_by_key


@st.composite
def cases(draw: st.DrawFn, *values: Sequence[Any]) -> Case:
    batches = draw(BATCHES)
    rows = sum(batches)
    keys = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    columns = [draw(st.lists(st.none() | st.sampled_from(own), min_size=rows, max_size=rows)) for own in values]
    counted = draw(st.none() | st.lists(st.booleans(), min_size=rows, max_size=rows))
    return Case(keys, columns, counted, batches)


def rank(value: Any) -> Any:
    """What Spark orders by; nulls are lowest inside of structs and arrays."""
    if isinstance(value, float):
        return (1, 0.0) if value != value else (0, value + 0.0)  # noqa: PLR0124 - NaN
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        return rank(list(value.values()))
    if isinstance(value, list):
        return [(0,) if one is None else (1, rank(one)) for one in value]
    return value


def exact(value: Any) -> Any:
    """Values that are the same to the sign of a zero; all NaN are."""
    if isinstance(value, dict):
        return {name: exact(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [exact(one) for one in value]
    return repr(value).replace("-nan", "nan") if isinstance(value, float) else value
