"""The compiled writer of Avro records (avro_values.c): one record for each row, in one pass over all columns.

Without a compiled library there is none, and the plain writer writes the same bytes. Must not give reasons.
"""

import ctypes
import functools
from ctypes import c_char_p, c_int64, c_void_p
from pathlib import Path

import numpy as np
import pyarrow as pa

from holdfast.planning.types.avro.program import AvroProgram
from holdfast_runtime.columns.loops import address, compiled
from holdfast_runtime.streams.codecs.arrow_types import compact
from holdfast_runtime.streams.codecs.avro.compiled_program import (
    BOOLEAN,
    FREE,
    LOOPS_VERSION,
    NOTHING,
    CompiledProgram,
    buffer_of,
    kind_of,
)
from holdfast_runtime.streams.records import BatchTooLargeError

LIBRARY = Path(__file__).with_name("avro_values.so")
_WRITE = (c_void_p, c_void_p, c_int64, c_char_p, c_int64, c_void_p, c_void_p)
_ALL_WRITTEN, _NO_MEMORY, _TOO_LARGE = -1, -2, -3
_WRITTEN_RECORDS = "the rows of a batch as Avro"


class _Cell(ctypes.Structure):
    """A cell in avro_values.c."""

    _fields_ = (
        ("kind", c_int64),
        ("width", c_int64),
        ("is_time", c_int64),
        ("inner", c_void_p),
        ("values", c_void_p),
        ("content", c_void_p),
        ("valid", c_void_p),
        ("offset", c_int64),
    )


class CompiledWriter:
    """Writes rows by a program."""

    def __init__(self, program: AvroProgram, library: ctypes.CDLL) -> None:
        self._library, self._program = library, CompiledProgram(program)
        self._kinds = [kind_of(cell) for cell in program.cells]
        self._words = [cell.type.word for cell in program.cells]
        self._inner = [self._program.numbers(cell.inner) for cell in program.cells]

    @classmethod
    def of(cls, program: AvroProgram) -> "CompiledWriter | None":
        """Return the writer of a program, or None if nothing is compiled."""
        loops = library()
        return cls(program, loops) if loops else None

    def write(self, rows: pa.RecordBatch, frame: bytes) -> pa.BinaryArray | int:
        """Return one record per row, or the first row that can't be written."""
        arrays = [None, *(part for column in rows.columns for part in _parts(column))]
        cells = (_Cell * len(arrays))(*(self._cell(number, array) for number, array in enumerate(arrays)))
        ends, outcome = np.empty(rows.num_rows + 1, np.int32), np.zeros(3, np.int64)
        self._library.holdfast_write_avro(
            self._program.nodes, cells, rows.num_rows, frame, len(frame), address(ends), address(outcome)
        )
        size, memory, row = outcome.tolist()
        content = buffer_of(memory or None, size, self._library.holdfast_free_memory)
        if row == _NO_MEMORY:
            message = f"no memory for {_WRITTEN_RECORDS}"
            raise MemoryError(message)
        if row == _TOO_LARGE:
            raise BatchTooLargeError.of(_WRITTEN_RECORDS, size)
        if row != _ALL_WRITTEN:
            return int(row)
        return pa.Array.from_buffers(
            pa.binary(), rows.num_rows, [None, pa.py_buffer(ends), content or pa.py_buffer(b"")]
        )

    def _cell(self, number: int, array: pa.Array | None) -> _Cell:
        """Return what a cell's values are read from; the whole row has none."""
        kind, inner = self._kinds[number], self._inner[number]
        if array is None or kind == NOTHING:
            return _Cell(kind=kind, inner=inner)
        valid, *buffers = array.buffers()
        flat = not array.type.num_fields
        return _Cell(
            kind=kind,
            width=array.type.bit_width // 8 if flat and len(buffers) == 1 and kind != BOOLEAN else 0,
            is_time=self._words[number] == "TIME",
            inner=inner,
            values=buffers[0].address if buffers and buffers[0] else None,
            content=buffers[1].address if flat and len(buffers) > 1 and buffers[1] else None,
            valid=valid.address if valid and array.null_count else None,
            offset=array.offset,
        )


def _parts(column: pa.Array) -> list[pa.Array]:
    """Return a column and what is inside of it, in the order of cells; rows of a part are those of the whole."""
    kind = column.type
    if pa.types.is_struct(kind):
        inner = [column.field(index) for index in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        column = compact(column)  # the keys of a slice have the offset of neither
        inner = [column.keys, column.items]
    elif pa.types.is_list(kind):
        inner = [column.values]
    else:
        inner = []
    return [column, *(part for inside in inner for part in _parts(inside))]


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return what is compiled, or None if there is none of this version."""
    return compiled(LIBRARY, LOOPS_VERSION, {"holdfast_write_avro": _WRITE, **FREE})
