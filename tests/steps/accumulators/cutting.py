"""An aggregate call over rows cut into batches at random, whose parts are merged in random nesting."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.planning.aggregation import AggregateCall
from holdfast_runtime.steps.accumulators.accumulator import Accumulator, RowGroups
from holdfast_runtime.steps.accumulators.functions import accumulator_for

FAILED = "failed"
"""The result of a group that has none."""
Keys = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CutRows:
    """Rows with a key and one value or several, and the way they are cut."""

    keys: list[int]
    values: list[tuple[Any, ...]]
    counted: list[bool] | None
    random: Random

    def groups(self) -> dict[int, list[tuple[Any, ...]]]:
        """Return the rows that count, by key."""
        found: dict[int, list[tuple[Any, ...]]] = {key: [] for key in sorted(self.keys)}
        for at, key in enumerate(self.keys):
            if self.counted is None or self.counted[at]:
                found[key].append(self.values[at])
        return found


def column_of(values: Sequence[Any], kind: pa.DataType, below_nulls: Any = None) -> pa.Array:
    """Return a column that is a slice of a longer one; below its nulls is a value, if not this one then one of its."""
    below = next((one for one in values if one is not None), None) if below_nulls is None else below_nulls
    filled = pa.array([below, *(below if one is None else one for one in values)], kind)
    valid = np.packbits([True, *(one is not None for one in values)], bitorder="little")
    bits = pa.py_buffer(valid) if None in values else None
    return pa.Array.from_buffers(kind, len(filled), [bits, *filled.buffers()[1:]]).slice(1)


def results_of(
    call: AggregateCall, kinds: Sequence[pa.DataType], rows: CutRows, below_nulls: Any = None
) -> dict[int, Any]:
    """Return the result of each key."""
    accumulator = accumulator_for(call, kinds)
    columns = [
        column_of([row[at] for row in rows.values], kind, below_nulls) for at, kind in enumerate(kinds)
    ]  # fmt: skip
    keys = np.array(rows.keys, np.int64)
    counted = None if rows.counted is None else np.array(rows.counted, np.bool_)
    bounds = sorted({0, len(keys), *(rows.random.randint(0, len(keys)) for _ in range(rows.random.randint(0, 4)))})
    parts = [
        _Part.gathered(accumulator, keys, columns, counted, slice(start, end))
        for start, end in zip(bounds, [*bounds[1:], len(keys)], strict=True)
    ]
    while len(parts) > 1:
        start = rows.random.randrange(len(parts) - 1)
        end = rows.random.randint(start + 2, len(parts))
        parts[start:end] = [_Part.merged(accumulator, parts[start:end])]
    found = accumulator.finish(parts[0].kept)
    assert found.values.type == accumulator.result
    values = found.values.to_pylist()
    for at in [] if found.failed is None else np.flatnonzero(found.failed).tolist():
        assert values[at] is None
        assert found.why
        values[at] = FAILED
    return dict(zip(parts[0].keys.tolist(), values, strict=True))


@dataclass(frozen=True, slots=True)
class _Part:
    """What is kept of some rows, by ascending key."""

    keys: Keys
    kept: list[pa.Array]

    @classmethod
    def gathered(
        cls, accumulator: Accumulator, keys: Keys, columns: Sequence[pa.Array], counted: Any, batch: slice
    ) -> "_Part":
        arguments = [column.slice(batch.start, batch.stop - batch.start) for column in columns]
        here = None if counted is None else counted[batch]
        return cls._grouped(accumulator, keys[batch], lambda groups: accumulator.gather(arguments, here, groups))

    @classmethod
    def merged(cls, accumulator: Accumulator, parts: "Sequence[_Part]") -> "_Part":
        # The first part comes twice and is cut off again, so that columns have an offset.
        offset = len(parts[0].keys)
        columns = zip(*(part.kept for part in [parts[0], *parts]), strict=True)
        kept = [pa.concat_arrays(column).slice(offset) for column in columns]
        keys = np.concatenate([part.keys for part in parts])
        return cls._grouped(accumulator, keys, lambda groups: accumulator.merge(kept, groups))

    @classmethod
    def _grouped(cls, accumulator: Accumulator, keys: Keys, work: Callable[[RowGroups], list[pa.Array]]) -> "_Part":
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(keys)])
        kept = work(RowGroups(order, starts))
        assert tuple(column.type for column in kept) == accumulator.kept
        assert all(len(column) == len(starts) for column in kept)
        return cls(ordered[starts], kept)
