"""The compiled writer of lines of CSV (csv_lines.c): one record for each row, in one pass over all columns.

Numbers that C has no short text for come to it as texts of pyarrow's kernels: FLOAT always, DOUBLE if a batch has one
of many digits. Without a compiled library there is none, and the plain writer writes the same bytes. Must
not give reasons.
"""

import ctypes
import functools
from pathlib import Path

import pyarrow as pa

from holdfast_runtime.columns.loops import compiled
from holdfast_runtime.streams.codecs.compiled_cells import FREE
from holdfast_runtime.streams.codecs.compiled_rows import WRITE, LoopWriter
from holdfast_runtime.streams.codecs.csv.compiled_program import LOOPS_VERSION, CompiledLine, line_cells
from holdfast_runtime.streams.codecs.csv.csv_format import CsvFormat
from holdfast_runtime.streams.codecs.csv.plain_writer import field_texts

LIBRARY = Path(__file__).with_name("csv_lines.so")


class CompiledLineWriter:
    """Writes rows of some columns."""

    def __init__(self, schema: pa.Schema, written: CsvFormat, loops: ctypes.CDLL) -> None:
        kinds = zip(schema.names, schema.types, strict=True)
        floating = {name: kind for name, kind in kinds if pa.types.is_floating(kind)}
        self._ways = [
            _WithTexts(
                schema, written, frozenset(name for name, kind in floating.items() if kind != pa.float64()), loops
            ),
            _WithTexts(schema, written, frozenset(floating), loops),
        ]

    @classmethod
    def of(cls, schema: pa.Schema, written: CsvFormat) -> "CompiledLineWriter | None":
        """Return the writer of these columns, or None if there are none, or nothing is compiled."""
        loops = library()
        return None if loops is None or not schema.names else cls(schema, written, loops)

    def write(self, rows: pa.RecordBatch, frame: bytes) -> pa.BinaryArray | int:
        """Return one record per row, or the first row that can't be written."""
        first, last = (way.write for way in self._ways)
        records = first(rows, frame)
        return last(rows, frame) if isinstance(records, int) else records


class _WithTexts:
    """Writes rows of which some columns are made into texts before."""

    def __init__(self, schema: pa.Schema, written: CsvFormat, made: frozenset[str], loops: ctypes.CDLL) -> None:
        self._made = made
        self._schema = pa.schema([pa.field(f.name, pa.string() if f.name in made else f.type) for f in schema])
        line = CompiledLine(schema, written, made)
        self._writer = LoopWriter(loops, loops.holdfast_write_csv, line, line_cells(self._schema))

    def write(self, rows: pa.RecordBatch, frame: bytes) -> pa.BinaryArray | int:
        """Return one record per row, or the first row that can't be written."""
        if self._made:
            named = zip(rows.schema.names, rows.columns, strict=True)
            columns = [field_texts(column, name) if name in self._made else column for name, column in named]
            rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return self._writer.write(rows, frame)


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return what is compiled, or None if there is none of this version."""
    return compiled(LIBRARY, LOOPS_VERSION, {"holdfast_write_csv": WRITE, **FREE})
