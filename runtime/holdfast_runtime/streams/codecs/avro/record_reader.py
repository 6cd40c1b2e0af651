"""The reader of records of one Avro schema: rows of the good ones, reasons for the bad ones.

What is compiled reads a whole batch and leaves what it doubts to the judge. Must not know frames.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast.planning.types.avro.program import AvroProgram
from holdfast_runtime.streams.codecs.avro.avro_judge import AvroJudge, UnreadableError, judged_rows
from holdfast_runtime.streams.codecs.avro.compiled_reader import CompiledReader
from holdfast_runtime.streams.codecs.codec import RECORDS, Indices
from holdfast_runtime.streams.records import stacked


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


class RecordReader:
    """Reads records of one schema into the columns of a stream."""

    def __init__(self, program: AvroProgram, schema: pa.Schema) -> None:
        self._schema = schema
        self._judge = AvroJudge(program)
        self._compiled = CompiledReader.of(program, schema)

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
                rows.append(self._judge.read(raw[frame_bytes:]))
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
