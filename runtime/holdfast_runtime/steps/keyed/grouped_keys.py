"""Keys of `process` rows: a batch grouped by key, and column values read back from a key's bytes.

Grouping puts the rows of one key next to each other without Python code per row. Keys come in the order in which they
first appear, the rows of a key in their own order. Grouping must not look at values: two rows have the same key if
their key bytes are equal. Reading back is the inverse of `key_bytes` for every type a key may have: a timer knows only
these bytes, and the function needs values. Must not be used where rows are available.
"""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.streams.record_keys import key_bytes

_NONE = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """Rows in groups of one key each."""

    keys: list[bytes | None]
    """The key of each group, as in stream records; None for null."""
    rows: pa.RecordBatch
    """All rows, group by group."""
    ends: list[int]
    """The index behind the last row of each group."""
    times: pa.Int64Array
    """The event times of these rows."""
    latest: list[int | None]
    """The latest event time in each group, None if none of its rows has one."""
    order: npt.NDArray[np.intp] | None = None
    """The original index of each row; None if no row moved."""
    marks: pa.Int64Array | None = None
    """The marks of these rows, if they have any."""

    def latest_of(self, start: int, end: int) -> int | None:
        """Return the latest event time among these rows; None if none has one."""
        latest: int | None = pc.max(self.times.slice(start, end - start)).as_py()
        return latest

    def first_index(self, index: int) -> int:
        """Return the original index of the row at this index."""
        return index if self.order is None else int(self.order[index])


def key_groups(timed: TimedRows, by: Sequence[str]) -> KeyGroups:
    """Group rows by these columns; there must be at least one row."""
    encoded = pc.dictionary_encode(key_bytes(timed.rows, by), null_encoding="encode")
    codes = encoded.indices.to_numpy()
    rows, times, marks, order = timed.rows, timed.times, timed.marks, None
    if np.any(codes[1:] < codes[:-1]):
        order = np.argsort(codes, kind="stable")
        codes, indices = codes[order], pa.array(order)
        rows, times = rows.take(indices), times.take(indices)
        marks = None if marks is None else marks.take(indices)
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    latest = np.maximum.reduceat(times.fill_null(_NONE).to_numpy(), starts)
    return KeyGroups(
        encoded.dictionary.to_pylist(),
        rows,
        [*starts[1:].tolist(), len(codes)],
        times,
        pa.array(latest, pa.int64(), mask=latest == _NONE).to_pylist(),
        order,
        marks,
    )


_Read = Callable[[Any], Any]


class KeyReader:
    """Reads keys that are made of these columns."""

    def __init__(self, schema: pa.Schema, by: Sequence[str]) -> None:
        kinds = [schema.field(name).type for name in by]
        self._alone = len(kinds) == 1
        self._reads = [_reader(kind) for kind in kinds]
        self._text = self._alone and _is_text(kinds[0])
        self._binary = self._alone and _is_binary(kinds[0])

    def values(self, key: bytes | None) -> tuple[Any, ...]:
        """Return one value per column."""
        if key is None:
            return (None,)
        if self._text:
            return (key.decode(),)
        if self._binary:
            return (key,)
        parsed = json.loads(key)
        return tuple(read(value) for read, value in zip(self._reads, [parsed] if self._alone else parsed, strict=True))


def _reader(kind: pa.DataType) -> _Read:  # noqa: PLR0911 - one per family of types
    """Return the inverse of the JSON that `streams.keys` writes."""
    if pa.types.is_dictionary(kind):
        return _reader(kind.value_type)
    if pa.types.is_timestamp(kind):
        return _or_none(datetime.fromisoformat)
    if pa.types.is_date(kind):
        return _or_none(date.fromisoformat)
    if pa.types.is_decimal(kind):
        return _or_none(Decimal)
    if _is_binary(kind):
        return _or_none(base64.b64decode)
    if pa.types.is_struct(kind):
        inner = {kind.field(i).name: _reader(kind.field(i).type) for i in range(kind.num_fields)}
        return _or_none(lambda value: {name: read(value[name]) for name, read in inner.items()})
    if pa.types.is_map(kind):
        of_key, of_item = _reader(kind.key_type), _reader(kind.item_type)
        return _or_none(lambda value: [(of_key(key), of_item(item)) for key, item in value])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        read_element = _reader(kind.value_type)
        return _or_none(lambda value: [read_element(element) for element in value])
    return lambda value: value


def _or_none(read: _Read) -> _Read:
    return lambda value: None if value is None else read(value)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or (pa.types.is_dictionary(kind) and _is_text(kind.value_type))
    )


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or (pa.types.is_dictionary(kind) and _is_binary(kind.value_type))
    )
