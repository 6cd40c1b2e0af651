"""The reader of records of one schema: rows of the good ones, reasons for the bad ones.

What is compiled reads a whole batch and leaves what it doubts to the judge. Must not know formats, nor frames.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from holdfast_runtime.streams.codecs.codec import RECORDS, Indices
from holdfast_runtime.streams.codecs.compiled_cells import UndoubtedRows
from holdfast_runtime.streams.records import no_rows, stacked


class UnreadableError(Exception):
    """The record can't be read; the message is the reason."""


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """What was read of some records."""

    rows: pa.RecordBatch
    good: Indices
    """The record of each row, ascending."""
    bad: list[tuple[int, str]]
    """The other records, and why they can't be read."""

    def among(self, indices: Indices) -> "ReadRecords":
        """Return the same, if these were the records with these indices in a batch."""
        bad = [(int(indices[index]), reason) for index, reason in self.bad]
        return ReadRecords(self.rows, indices[self.good], bad)


class CompiledRecords(Protocol):
    """Reads what is undoubtedly good of some records, and says which are left."""

    def read(self, values: pa.BinaryArray, frame_bytes: int, /) -> UndoubtedRows:
        """Return the rows of what is good behind the frames of these records, which are so long."""


class RecordReader:
    """Reads records of one schema into the columns of a stream."""

    def __init__(
        self, schema: pa.Schema, judge: Callable[[bytes], tuple[Any, ...]], compiled: CompiledRecords | None
    ) -> None:
        self._schema, self._judge, self._compiled = schema, judge, compiled

    def read(self, values: pa.BinaryArray, frame_bytes: int) -> ReadRecords:
        """Return what is in these records behind their frames, which are so long."""
        if self._compiled is None:
            return self._judged(values, frame_bytes)
        undoubted = self._compiled.read(values, frame_bytes)
        doubtful = undoubted.doubtful
        good = ReadRecords(undoubted.rows, np.arange(len(values)), [])
        if not len(doubtful):
            return good
        good = ReadRecords(undoubted.rows, np.delete(good.good, doubtful), [])
        judged = self._judged(values.take(pa.array(doubtful)), frame_bytes)
        return in_order([good, judged.among(doubtful)], self._schema)

    def _judged(self, values: pa.BinaryArray, frame_bytes: int) -> ReadRecords:
        rows, good, bad = [], [], []
        for index, raw in enumerate(values.to_pylist()):
            try:
                rows.append(self._judge(raw[frame_bytes:]))
            except UnreadableError as error:
                bad.append((index, str(error)))
            else:
                good.append(index)
        return ReadRecords(judged_rows(rows, self._schema), np.array(good, np.int64), bad)


def in_order(parts: list[ReadRecords], schema: pa.Schema) -> ReadRecords:
    """Return what several readers read of the records of one batch, in the order of these."""
    bad = sorted(pair for part in parts for pair in part.bad)
    parts = [part for part in parts if len(part.good)] or parts[:1]
    good = np.concatenate([part.good for part in parts])
    rows = stacked([part.rows for part in parts], schema, RECORDS)
    if len(parts) == 1:
        return ReadRecords(rows, good, bad)
    order = np.argsort(good)
    return ReadRecords(rows.take(pa.array(order)), good[order], bad)


def judged_rows(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows as judges read them."""
    if not schema.names:
        return pa.RecordBatch.from_struct_array(pa.array(rows, pa.struct([])))
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def unread_records(reasons: list[str], schema: pa.Schema) -> ReadRecords:
    """Return records that are all bad, for these reasons."""
    return ReadRecords(no_rows(schema), np.arange(0), list(enumerate(reasons)))


def by_group(
    values: pa.BinaryArray,
    groups: Indices,
    read: Callable[[int, pa.BinaryArray], ReadRecords],
    schema: pa.Schema,
) -> ReadRecords:
    """Return records that are read group by group, e.g. by the ids of their schemas, in their order."""
    if not len(groups):
        return unread_records([], schema)
    if (groups == groups[0]).all():
        return read(int(groups[0]), values)
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order])) + 1
    parts = [
        read(int(groups[indices[0]]), values.take(pa.array(indices))).among(indices)
        for indices in np.split(order, starts)
    ]
    return in_order(parts, schema)
