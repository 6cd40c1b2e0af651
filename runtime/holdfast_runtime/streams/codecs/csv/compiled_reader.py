"""The compiled reader of lines of CSV (csv_records.c): what is good, and which records are not.

Without a compiled library there is none, and the judge reads the same rows. Must not give reasons.
"""

import ctypes
import functools
from pathlib import Path

import pyarrow as pa

from holdfast_runtime.columns.loops import compiled
from holdfast_runtime.streams.codecs.compiled_cells import FREE, READ, CellColumns, LoopReader
from holdfast_runtime.streams.codecs.csv.compiled_program import LOOPS_VERSION, CompiledLine, line_cells
from holdfast_runtime.streams.codecs.csv.csv_format import CsvFormat

LIBRARY = Path(__file__).with_name("csv_records.so")


class CompiledLineReader(LoopReader):
    """Reads lines of some columns."""

    @classmethod
    def of(cls, schema: pa.Schema, written: CsvFormat) -> "CompiledLineReader | None":
        """Return the reader of these columns, or None if there are none, or nothing is compiled."""
        loops = library()
        if loops is None or not schema.names:
            return None
        columns = CellColumns(line_cells(schema), schema)
        return cls(loops, loops.holdfast_read_csv, CompiledLine(schema, written), columns)


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return what is compiled, or None if there is none of this version."""
    return compiled(LIBRARY, LOOPS_VERSION, {"holdfast_read_csv": READ, **FREE})
