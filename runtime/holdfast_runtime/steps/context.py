"""What a step gets from its slot besides rows: the times of the batch, and the tables of the task.

Times are those of the batch, so that a replay sees the same. Tables are protocols, so that steps can be tried without
a disk. Must not read any clock, and must not know the store behind the tables.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

_EARLIEST, _LATEST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class StepClock:
    """One batch's times for one step, in milliseconds since 1970."""

    now: int
    """Processing time: the batch clock, by which timers and ttl are measured."""
    watermark: int | None
    """Of event time, after the rows of this batch: timers fire by it; None: none yet."""
    ended: bool = False
    """No row will come any more: all event time has passed."""
    before: int | None = None
    """The watermark before this batch: what rows were promised not to be earlier than."""
    horizon: int | None = None
    """The latest event time that is believed; None: any is."""
    skew: int = 0
    """How far the batch clock is ahead of the host's."""

    @property
    def wall(self) -> int:
        """Processing time as the host's clock has it."""
        return self.now - self.skew

    def late(self, times: pa.Int64Array) -> pa.BooleanArray:
        """Which rows with these event times are late: behind the watermark, or farther ahead than is believed."""
        behind = pc.less(times, _EARLIEST if self.before is None else self.before)
        ahead = pc.greater(times, _LATEST if self.horizon is None else self.horizon)
        return pc.or_(behind, ahead).fill_null(False)  # noqa: FBT003 - Arrow's own


class KeyValueTable(Protocol):
    """One table: keys to values, as bytes, in order of keys."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys, None where there is none."""

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write these values; None deletes."""

    def forget(self) -> None:
        """Take back what this batch has written."""

    def scan(self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Rows in key order, from `start` to before `stop`, as they were when it was called."""


class TaskTables(Protocol):
    """The tables of one task."""

    def table(self, name: str) -> KeyValueTable:
        """A table by name; one nothing was written to is empty."""
