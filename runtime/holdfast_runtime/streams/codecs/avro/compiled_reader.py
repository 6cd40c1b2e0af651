"""The compiled reader of Avro records (avro_records.c): what is good, and which records are not.

Without a compiled library there is none, and the judge reads the same rows. Must not give reasons.
"""

import ctypes
import functools
from ctypes import c_int64, c_void_p
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from holdfast.planning.types.avro.program import AvroProgram, Cell
from holdfast_runtime.columns.loops import address, compiled
from holdfast_runtime.streams.codecs.avro.avro_judge import RANGES
from holdfast_runtime.streams.codecs.avro.compiled_program import (
    BINARY,
    BOOLEAN,
    DECIMAL,
    FREE,
    LIST,
    LOOPS_VERSION,
    MAP,
    NOTHING,
    STRUCT,
    TEXT,
    CompiledProgram,
    buffer_of,
    kind_of,
)
from holdfast_runtime.streams.codecs.codec import RECORDS, Indices
from holdfast_runtime.streams.records import BatchTooLargeError

LIBRARY = Path(__file__).with_name("avro_records.so")
_READ = (c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_void_p)
_TOO_LARGE = 2
_END_BYTES = 4
_ENDED = (TEXT, BINARY, LIST, MAP)


class _Cell(ctypes.Structure):
    """A cell in avro_records.c."""

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


class UndoubtedRows(NamedTuple):
    """What was read of some records."""

    rows: pa.RecordBatch
    """One row for each record that is not doubtful, in order."""
    doubtful: Indices
    """The records left to the judge, ascending."""


class CompiledReader:
    """Reads records of one schema."""

    def __init__(self, program: AvroProgram, schema: pa.Schema, library: ctypes.CDLL) -> None:
        self._schema, self._library = schema, library
        self._cells, self._types = program.cells, _types(pa.struct(list(schema)))
        self._program = CompiledProgram(program)
        cells = (self._cell(cell, kind) for cell, kind in zip(program.cells, self._types, strict=True))
        self._empty = (_Cell * len(program.cells))(*cells)

    @classmethod
    def of(cls, program: AvroProgram, schema: pa.Schema) -> "CompiledReader | None":
        """Return the reader of a program, or None if nothing is compiled."""
        loops = library()
        return cls(program, schema, loops) if loops else None

    def read(self, values: pa.BinaryArray, frame_bytes: int) -> UndoubtedRows:
        """Return the rows of what is good behind the frames of these records, which are so long."""
        _, ends, content = values.buffers()
        cells = type(self._empty).from_buffer_copy(self._empty)
        doubtful, outcome = np.empty(len(values), np.int32), np.zeros(2, np.int64)
        self._library.holdfast_read_avro(
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
        buffers = [self._buffers(cell) for cell in cells]
        doubts, fault = outcome.tolist()
        if fault == _TOO_LARGE:
            raise BatchTooLargeError.of(RECORDS, sum(cell.content_size for cell in cells))
        if fault:
            message = f"no memory for {RECORDS}"
            raise MemoryError(message)
        rows = pa.RecordBatch.from_struct_array(self._array(0, cells, buffers))
        return UndoubtedRows(rows, doubtful[:doubts].astype(np.int64))

    def _cell(self, cell: Cell, kind: pa.DataType) -> _Cell:
        held = kind_of(cell)
        width = 0 if held in (NOTHING, BOOLEAN, STRUCT) else _END_BYTES if held in _ENDED else kind.bit_width // 8
        least, most = RANGES.get(cell.type.word, (0, 0))
        return _Cell(
            kind=held,
            width=width,
            least=least,
            most=most,
            precision=cell.type.digits[0] if held == DECIMAL else 0,
            inner=self._program.numbers(cell.inner),
            inner_count=len(cell.inner),
        )

    def _buffers(self, cell: _Cell) -> list[pa.Buffer | None]:
        free, bitmap = self._library.holdfast_free_memory, -(-cell.rows // 8)
        values = bitmap if cell.kind == BOOLEAN else (cell.rows + (cell.kind in _ENDED)) * cell.width
        return [
            buffer_of(cell.valid, bitmap, free),
            buffer_of(cell.values, values, free),
            buffer_of(cell.content, cell.content_size, free),
        ]

    def _array(self, number: int, cells: "ctypes.Array[_Cell]", buffers: list[list[pa.Buffer | None]]) -> pa.Array:
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


def _types(kind: pa.DataType) -> list[pa.DataType]:
    """Return the type of each cell: the row first, each part behind what it is in."""
    if pa.types.is_map(kind):
        inner = [kind.key_type, kind.item_type]
    else:
        inner = [kind.field(index).type for index in range(kind.num_fields)]
    return [kind, *(part for inside in inner for part in _types(inside))]


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return what is compiled, or None if there is none of this version."""
    return compiled(LIBRARY, LOOPS_VERSION, {"holdfast_read_avro": _READ, **FREE})
