"""The cells that compiled readers fill (record_cells.h): laid out for a row, and made into arrays afterwards.

Memory that a loop has left becomes buffers without a copy. Must not know formats.
"""

import ctypes
from collections.abc import Callable
from ctypes import c_char_p, c_int32, c_int64, c_void_p
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from holdfast.planning.types.avro.program import Cell
from holdfast.planning.types.spark_types import is_text
from holdfast_runtime.columns.loops import address
from holdfast_runtime.streams.codecs.arrow_types import RANGES
from holdfast_runtime.streams.codecs.codec import RECORDS, Indices
from holdfast_runtime.streams.records import BatchTooLargeError

NOTHING, BOOLEAN, WHOLE, FLOAT, DOUBLE, DECIMAL, TEXT, BINARY, STRUCT, LIST, MAP = range(11)
"""What a cell holds."""
_KINDS = {
    "VOID": NOTHING,
    "BOOLEAN": BOOLEAN,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "DECIMAL": DECIMAL,
    "BINARY": BINARY,
    "STRUCT": STRUCT,
    "ARRAY": LIST,
    "MAP": MAP,
}
FREE = {"holdfast_free_memory": (c_void_p,)}
"""What each library has beside its own functions."""
_TOO_LARGE = 2
_END_BYTES = 4
_ENDED = (TEXT, BINARY, LIST, MAP)


class UndoubtedRows(NamedTuple):
    """What was read of some records."""

    rows: pa.RecordBatch
    """One row for each record that is not doubtful, in order."""
    doubtful: Indices
    """The records left to the judge, ascending."""


class ReadCell(ctypes.Structure):
    """A cell in record_cells.h."""

    _fields_ = (
        ("kind", c_int64),
        ("width", c_int64),
        ("least", c_int64),
        ("most", c_int64),
        ("precision", c_int64),
        ("inner", c_void_p),
        ("inner_count", c_int64),
        ("rows", c_int64),
        ("room", c_int64),
        ("nulls", c_int64),
        ("valid", c_void_p),
        ("values", c_void_p),
        ("content", c_void_p),
        ("content_size", c_int64),
        ("content_room", c_int64),
    )


class LoopText(ctypes.Structure):
    """A text in cell_kinds.h."""

    _fields_ = (("start", c_char_p), ("size", c_int64))


class Pointed:
    """What a program in C points to, which lives as long as this does."""

    def __init__(self) -> None:
        self._objects: list[Any] = []

    def keep(self, *objects: Any) -> None:
        """Let these live."""
        self._objects += objects

    def numbers(self, numbers: tuple[int, ...]) -> int:
        """Return the address of these numbers."""
        array = (c_int32 * len(numbers))(*numbers)
        self.keep(array)
        return ctypes.addressof(array)

    def texts(self, texts: tuple[str, ...]) -> int:
        """Return the address of these texts."""
        contents = [text.encode() for text in texts]
        array = (LoopText * len(contents))(*(LoopText(content, len(content)) for content in contents))
        self.keep(contents, array)
        return ctypes.addressof(array)


class LoopProgram(Pointed):
    """The nodes of a program in C, and what they point to."""

    nodes: "ctypes.Array[Any]"


class CellColumns:
    """The cells of a row, and the columns that are in them after a loop."""

    def __init__(self, cells: tuple[Cell, ...], schema: pa.Schema) -> None:
        self._cells, self._types = cells, cell_types(pa.struct(list(schema)))
        self._pointed_to = Pointed()
        made = [self._cell(cell, kind) for cell, kind in zip(cells, self._types, strict=True)]
        self._empty = (ReadCell * len(cells))(*made)

    def empty(self) -> "ctypes.Array[ReadCell]":
        """Return cells without a row."""
        return type(self._empty).from_buffer_copy(self._empty)

    def filled(self, cells: "ctypes.Array[ReadCell]", fault: int, library: ctypes.CDLL) -> pa.RecordBatch:
        """Return the rows in these cells; raise an error if the loop has reported a fault."""
        buffers = [self._buffers(cell, library.holdfast_free_memory) for cell in cells]
        if fault == _TOO_LARGE:
            raise BatchTooLargeError.of(RECORDS, sum(cell.content_size for cell in cells))
        if fault:
            message = f"no memory for {RECORDS}"
            raise MemoryError(message)
        return pa.RecordBatch.from_struct_array(self._array(0, cells, buffers))

    def _cell(self, cell: Cell, kind: pa.DataType) -> ReadCell:
        content = kind_of(cell)
        width = 0 if content in (NOTHING, BOOLEAN, STRUCT) else _END_BYTES if content in _ENDED else kind.bit_width // 8
        least, most = RANGES.get(cell.type.word, (0, 0))
        return ReadCell(
            kind=content,
            width=width,
            least=least,
            most=most,
            precision=cell.type.digits[0] if content == DECIMAL else 0,
            inner=self._pointed_to.numbers(cell.inner),
            inner_count=len(cell.inner),
        )

    def _buffers(self, cell: ReadCell, free: Callable[[int], None]) -> list[pa.Buffer | None]:
        bitmap = -(-cell.rows // 8)
        values = bitmap if cell.kind == BOOLEAN else (cell.rows + (cell.kind in _ENDED)) * cell.width
        return [
            buffer_of(cell.valid, bitmap, free),
            buffer_of(cell.values, values, free),
            buffer_of(cell.content, cell.content_size, free),
        ]

    def _array(self, number: int, cells: "ctypes.Array[ReadCell]", buffers: list[list[pa.Buffer | None]]) -> pa.Array:
        """Return a cell and what is inside of it as an array."""
        cell, kind, (valid, values, content) = cells[number], self._types[number], buffers[number]
        if not cell.rows or cell.kind == NOTHING:
            return pa.nulls(cell.rows, kind)
        parts = [self._array(inner, cells, buffers) for inner in self._cells[number].inner]
        own_buffers = [valid if cell.nulls else None]
        if cell.kind != STRUCT:
            own_buffers.append(values)
        if cell.kind in (TEXT, BINARY):
            own_buffers.append(content or _NO_BYTES)
        if cell.kind == MAP:
            parts = [pa.StructArray.from_arrays(parts, fields=[kind.key_field, kind.item_field])]
        return pa.Array.from_buffers(kind, cell.rows, own_buffers, cell.nulls, children=parts)


_NO_BYTES = pa.py_buffer(b"")
READ = (c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_void_p)
"""The arguments of a function that reads."""


class LoopReader:
    """Reads records of one schema by a function of a compiled library."""

    def __init__(
        self, library: ctypes.CDLL, function: Callable[..., None], program: LoopProgram, columns: CellColumns
    ) -> None:
        self._library, self._function = library, function
        self._program, self._columns = program, columns

    def read(self, values: pa.BinaryArray, frame_bytes: int) -> UndoubtedRows:
        """Return the rows of what is good behind the frames of these records, which are so long."""
        _, ends, content = values.buffers()
        cells = self._columns.empty()
        doubtful, outcome = np.empty(len(values), np.int32), np.zeros(2, np.int64)
        self._function(
            ends.address + values.offset * _END_BYTES if len(values) else None,
            content.address if content else address(outcome),  # there is nothing to read
            len(values),
            frame_bytes,
            self._program.nodes,
            cells,
            len(cells),
            address(doubtful),
            address(outcome),
        )
        doubts, fault = outcome.tolist()
        rows = self._columns.filled(cells, fault, self._library)
        return UndoubtedRows(rows, doubtful[:doubts].astype(np.int64))


def cell_types(kind: pa.DataType) -> list[pa.DataType]:
    """Return the type of each cell: the row first, each part behind what it is in."""
    if pa.types.is_map(kind):
        inner = [kind.key_type, kind.item_type]
    else:
        inner = [kind.field(index).type for index in range(kind.num_fields)]
    return [kind, *(part for inside in inner for part in cell_types(inside))]


def kind_of(cell: Cell) -> int:
    """Return the kind of what a cell holds; what no number is read into is a whole number, too."""
    return TEXT if is_text(cell.type) else _KINDS.get(cell.type.word, WHOLE)


class _Memory:
    """Memory that a loop has left, freed when no buffer is made of it any more."""

    def __init__(self, start: int, free: Callable[[int], None]) -> None:
        self._start, self._free = start, free

    def __del__(self) -> None:
        self._free(self._start)


def buffer_of(memory: int | None, size: int, free: Callable[[int], None]) -> pa.Buffer | None:
    """Return memory that a loop has left as a buffer that owns it, None of none."""
    return None if memory is None else pa.foreign_buffer(memory, size, _Memory(memory, free))
