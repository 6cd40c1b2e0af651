"""Rows as compiled writers take them (row_cells.h), and the records that these leave.

Must not know formats.
"""

import ctypes
from collections.abc import Callable
from ctypes import c_char_p, c_int64, c_void_p
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from holdfast.planning.types.avro.program import Cell
from holdfast_runtime.columns.loops import address
from holdfast_runtime.streams.codecs.arrow_types import compact
from holdfast_runtime.streams.codecs.codec import Indices
from holdfast_runtime.streams.codecs.compiled_cells import BOOLEAN, NOTHING, LoopProgram, Pointed, buffer_of, kind_of
from holdfast_runtime.streams.records import BatchTooLargeError

_ALL_WRITTEN, _NO_MEMORY, _TOO_LARGE = -1, -2, -3
_WRITTEN_RECORDS = "the rows of a batch as records"


class RowCell(ctypes.Structure):
    """A cell in row_cells.h."""

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


class ReadRows(NamedTuple):
    """The cells of some rows, and the arrays that they point into, which must live as long."""

    cells: "ctypes.Array[RowCell]"
    arrays: list[pa.Array | None]


class RowCells:
    """What the cells of rows are read from."""

    def __init__(self, cells: tuple[Cell, ...]) -> None:
        self._pointed_to = Pointed()
        self._kinds = [kind_of(cell) for cell in cells]
        self._words = [cell.type.word for cell in cells]
        self._inner = [self._pointed_to.numbers(cell.inner) for cell in cells]

    def of(self, rows: pa.RecordBatch) -> "ReadRows":
        """Return the cells of these rows."""
        arrays = [None, *(part for column in rows.columns for part in _parts(column))]
        cells = (RowCell * len(arrays))(*(self._cell(number, array) for number, array in enumerate(arrays)))
        return ReadRows(cells, arrays)

    def _cell(self, number: int, array: pa.Array | None) -> RowCell:
        """Return what a cell's values are read from; the whole row has none."""
        kind, inner = self._kinds[number], self._inner[number]
        if array is None or kind == NOTHING:
            return RowCell(kind=kind, inner=inner)
        valid, *buffers = array.buffers()
        flat = not array.type.num_fields
        return RowCell(
            kind=kind,
            width=array.type.bit_width // 8 if flat and len(buffers) == 1 and kind != BOOLEAN else 0,
            is_time=self._words[number] == "TIME",
            inner=inner,
            values=buffers[0].address if buffers and buffers[0] else None,
            content=buffers[1].address if flat and len(buffers) > 1 and buffers[1] else None,
            valid=valid.address if valid and array.null_count else None,
            offset=array.offset,
        )


class WrittenRecords(NamedTuple):
    """Where a loop puts what it writes."""

    ends: "np.typing.NDArray[np.int32]"
    outcome: Indices

    @classmethod
    def room(cls, rows: int) -> "WrittenRecords":
        """Return room for so many rows."""
        return cls(np.empty(rows + 1, np.int32), np.zeros(3, np.int64))

    @property
    def addresses(self) -> tuple[int | None, int | None]:
        """Of both."""
        return address(self.ends), address(self.outcome)

    def records(self, library: ctypes.CDLL) -> pa.BinaryArray | int:
        """Return one record per row, or the first row that can't be written."""
        size, memory, row = self.outcome.tolist()
        content = buffer_of(memory or None, size, library.holdfast_free_memory)
        if row == _NO_MEMORY:
            message = f"no memory for {_WRITTEN_RECORDS}"
            raise MemoryError(message)
        if row == _TOO_LARGE:
            raise BatchTooLargeError.of(_WRITTEN_RECORDS, size)
        if row != _ALL_WRITTEN:
            return int(row)
        count = len(self.ends) - 1
        return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(self.ends), content or pa.py_buffer(b"")])


WRITE = (c_void_p, c_void_p, c_int64, c_char_p, c_int64, c_void_p, c_void_p)
"""The arguments of a function that writes."""


class LoopWriter:
    """Writes rows by a function of a compiled library."""

    def __init__(
        self, library: ctypes.CDLL, function: Callable[..., None], program: LoopProgram, cells: tuple[Cell, ...]
    ) -> None:
        self._library, self._function = library, function
        self._program, self._cells = program, RowCells(cells)

    def write(self, rows: pa.RecordBatch, frame: bytes) -> pa.BinaryArray | int:
        """Return one record per row, or the first row that can't be written."""
        read, room = self._cells.of(rows), WrittenRecords.room(rows.num_rows)
        self._function(self._program.nodes, read.cells, rows.num_rows, frame, len(frame), *room.addresses)
        return room.records(self._library)


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
