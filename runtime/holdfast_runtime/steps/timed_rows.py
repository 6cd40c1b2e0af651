"""Rows with their event times and marks, which travel together through steps; and `merge`.

The mark of a row is where its own event time has moved the watermark of its partition, in the middle of a batch too.
Rows that a step makes of others have none. A merge gives the rows of all inputs one after the other, in the order of
`from`. Columns are matched by name with Spark's rules; that they fit was checked before anything ran. Must not know
other steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.records import no_rows, stacked


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """Where a run of consecutive rows was read."""

    partition: StreamPartition
    offsets: pa.Int64Array
    """The offset of each row."""


@dataclass(frozen=True, slots=True)
class TimedRows:
    """Rows, each with its event time."""

    rows: pa.RecordBatch
    times: pa.Int64Array
    """Microseconds since 1970, null where a row has none."""
    origins: tuple[RowOrigin, ...] = ()
    """Where the rows were read, in order, as long as no step has changed them; empty if no longer known."""
    marks: pa.Int64Array | None = None
    """The watermark of the partition at each row, in milliseconds, null where there is none yet; None if not known."""

    @classmethod
    def nothing(cls, schema: pa.Schema) -> "TimedRows":
        """Return no rows, with the columns of this schema."""
        return cls(no_rows(schema), pa.nulls(0, pa.int64()))

    @classmethod
    def joined(cls, parts: "Sequence[TimedRows]", schema: pa.Schema) -> "TimedRows":
        """Return the rows of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.nothing(schema)
        rows = stacked([part.rows for part in parts], schema, "the rows of a task in one batch")
        with_origins = all(part.origins or not part.count for part in parts)
        origins = tuple(origin for part in parts for origin in part.origins) if with_origins else ()
        marks = [part.marks for part in parts if part.count and part.marks is not None]
        marked = len(marks) == sum(part.count > 0 for part in parts) > 0
        times = pa.concat_arrays([part.times for part in parts])
        return cls(rows, times, origins, pa.concat_arrays(marks) if marked else None)

    def origin(self, row: int) -> tuple[StreamPartition, int] | None:
        """Return the partition and the offset of a row, or None if unknown."""
        for origin in self.origins:
            if row < len(origin.offsets):
                return origin.partition, int(origin.offsets[row].as_py())
            row -= len(origin.offsets)
        return None

    def part(self, start: int, end: int) -> "TimedRows":
        """Return the rows from `start` to before `end`."""
        origins, before = [], 0
        for origin in self.origins:
            first, last = max(start - before, 0), min(end - before, len(origin.offsets))
            if first < last:
                origins.append(RowOrigin(origin.partition, origin.offsets.slice(first, last - first)))
            before += len(origin.offsets)
        marks = None if self.marks is None else self.marks.slice(start, end - start)
        times = self.times.slice(start, end - start)
        return TimedRows(self.rows.slice(start, end - start), times, tuple(origins), marks)

    def where(self, chosen: "npt.NDArray[np.bool_]") -> "TimedRows":
        """Return the rows for which `chosen` is true."""
        origins, before = [], 0
        for origin in self.origins:
            origin_mask = pa.array(chosen[before : before + len(origin.offsets)])
            origins.append(RowOrigin(origin.partition, origin.offsets.filter(origin_mask)))
            before += len(origin.offsets)
        mask = pa.array(chosen)
        marks = None if self.marks is None else self.marks.filter(mask)
        return TimedRows(self.rows.filter(mask), self.times.filter(mask), tuple(origins), marks)

    def parted(self, aside: "npt.NDArray[np.bool_]") -> "tuple[TimedRows, TimedRows]":
        """Return the rows for which `aside` is false, and the others."""
        if not aside.any():
            return self, self.part(0, 0)
        return self.where(~aside), self.where(aside)

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.rows.num_rows)


def merge(parts: Sequence[TimedRows], schema: pa.Schema) -> TimedRows:
    """Return all rows of all parts with their columns in the order of the schema; each part has all columns."""
    aligned_parts = [TimedRows(aligned(part.rows, schema), part.times, part.origins) for part in parts if part.count]
    return TimedRows.joined(aligned_parts, schema)


def aligned(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the same rows with the column names and order of this schema."""
    if rows.schema.equals(schema):
        return rows
    columns = [rows.column(find_column(rows.schema, name)) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def find_column(schema: pa.Schema, name: str) -> int | None:
    """Return the index of a column by Spark's rules, the exact name first, then ignoring case; None if missing."""
    if name in schema.names:
        return int(schema.names.index(name))
    folded = [column.casefold() for column in schema.names]
    return folded.index(name.casefold()) if name.casefold() in folded else None
