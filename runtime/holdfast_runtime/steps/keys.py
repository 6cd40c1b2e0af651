"""Why: the rows of a batch, those of one key beside each other, without a step of Python per row.

Keys come in the order in which they appear first, the rows of a key in their own order. Must not look at values: two
rows have one key if the bytes of their keys are equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.streams.keys import key_bytes

_NONE = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """Rows in groups of one key each."""

    keys: list[bytes | None]
    """Of each group, as a stream's records have them; None: null."""
    rows: pa.RecordBatch
    """All rows, group by group."""
    ends: list[int]
    """Behind the last row of each group."""
    times: pa.Int64Array
    """The event times of these rows."""
    latest: pa.Int64Array
    """The latest event time in each group, null where none of its rows has one."""
    order: npt.NDArray[np.intp] | None = None
    """Where each row stood before; None: rows are where they were."""


def key_groups(timed: TimedRows, by: Sequence[str]) -> KeyGroups:
    """Group rows by these columns; there must be at least one row."""
    encoded = pc.dictionary_encode(key_bytes(timed.rows, by), null_encoding="encode")
    codes = encoded.indices.to_numpy()
    rows, times, order = timed.rows, timed.times, None
    if np.any(codes[1:] < codes[:-1]):
        order = np.argsort(codes, kind="stable")
        codes, taken = codes[order], pa.array(order)
        rows, times = rows.take(taken), times.take(taken)
    ends = np.append(np.flatnonzero(np.diff(codes)) + 1, len(codes))
    latest = np.maximum.reduceat(times.fill_null(_NONE).to_numpy(), np.append(0, ends[:-1]))
    return KeyGroups(
        encoded.dictionary.to_pylist(),
        rows,
        ends.tolist(),
        times,
        pa.array(latest, pa.int64(), mask=latest == _NONE),
        order,
    )
