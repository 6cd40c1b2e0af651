"""What a step gets from its slot besides rows: the times of the batch, and the tables of the task.

Times are those of the batch, so that a replay sees the same. Tables are protocols, so that steps can be tested without
a disk. Must not read any clock, and must not know the store behind the tables.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.times import FARTHEST, MICROS_PER_MILLI, micros

UNKNOWN = -(2**63)
"""The mark of a row at which there is no watermark yet: no event time is earlier."""
_LATEST = 2**63 - 1
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class StepClock:
    """The times of one batch for one step, in milliseconds since 1970: what is compared with rows is `micros` of it."""

    now: int
    """Processing time: the batch clock, by which timers and ttl are measured."""
    watermark: int | None
    """Watermark after the rows of this batch; event-time timers fire by it. None if there is none yet."""
    ended: bool = False
    """Whether no more rows will come: all event time has passed."""
    before: int | None = None
    """The watermark before this batch: rows with an earlier event time are late."""
    horizon: int | None = None
    """The latest plausible event time; None if every time is accepted."""
    skew: int = 0
    """How far the batch clock is ahead of the host's clock."""
    marked: bool = False
    """Whether the marks of rows say where the step's watermark stands at them."""

    @property
    def wall(self) -> int:
        """Processing time by the host's clock."""
        return self.now - self.skew

    def late(self, times: pa.Int64Array, rows: pa.Int64Array | None = None) -> pa.BooleanArray:
        """Return which event times of rows are late: behind the watermark, or implausibly far ahead.

        `rows`: the marks of the rows; without, the watermark stands where it stood before the batch.
        """
        if rows is not None and self.marked:
            watermark = _micros(self.marks(rows, len(times)))
        else:
            watermark = UNKNOWN if self.before is None else micros(self.before)
        behind = pc.less(times, watermark)
        ahead = pc.greater(times, _LATEST if self.horizon is None else micros(self.horizon))
        return pc.or_(behind, ahead).fill_null(False)  # noqa: FBT003 - Arrow's own

    def marks(self, rows: pa.Int64Array | None, count: int) -> pa.Int64Array:
        """Return where the step's watermark stands at each of so many rows, by the marks of the rows."""
        least = UNKNOWN if self.before is None else self.before
        if rows is None or not self.marked:
            return pa.repeat(pa.scalar(least, pa.int64()), count)
        # Timers of earlier steps that have not fired hold the step back, but not the marks of its rows.
        most = UNKNOWN if self.watermark is None else max(self.watermark, least)
        return pc.min_element_wise(pc.max_element_wise(rows, least), most)


def _micros(marks: pa.Int64Array) -> pa.Int64Array:
    """Return watermarks as they are compared with event times of rows, as `micros` does for one."""
    farthest = FARTHEST // MICROS_PER_MILLI
    return pa.array(np.clip(marks.to_numpy(), -farthest, farthest) * MICROS_PER_MILLI)


class KeyValueTable(Protocol):
    """One table: keys to values, as bytes, ordered by key."""

    @property
    def name(self) -> str:
        """The name of the table."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys, None for missing ones."""

    def view_many(self, keys: Sequence[bytes], view: Callable[[Sequence[Any]], _T]) -> _T:
        """Return what `view` makes of the values of these keys, which are there and end with the call."""

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write these values; None deletes."""

    def purge(self, keys: Sequence[bytes]) -> None:
        """Delete keys for good: going back a batch does not bring them back."""

    def forget(self) -> None:
        """Discard what this batch has written."""

    def scan(self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Return the rows in key order, from `start` to before `stop`, as they were when it was called."""


class TaskTables(Protocol):
    """The tables of one task."""

    def table(self, name: str) -> KeyValueTable:
        """Return a table by name; one that was never written to is empty."""
