"""The compiled writer of Protobuf messages (protobuf_values.c): one record for each row, in one pass over all columns.

Without a compiled library there is none, and the plain writer writes the same bytes. Must not give reasons.
"""

import ctypes
import functools
from ctypes import c_char_p, c_int64, c_void_p
from pathlib import Path

import pyarrow as pa

from holdfast.planning.types.protobuf.program import ProtobufProgram
from holdfast_runtime.columns.loops import compiled
from holdfast_runtime.streams.codecs.compiled_cells import FREE
from holdfast_runtime.streams.codecs.compiled_rows import RowCells, WrittenRecords
from holdfast_runtime.streams.codecs.protobuf.compiled_program import LOOPS_VERSION, CompiledMessage, is_small

LIBRARY = Path(__file__).with_name("protobuf_values.so")
_WRITE = (c_void_p, c_void_p, c_int64, c_char_p, c_int64, c_void_p, c_void_p)


class CompiledMessageWriter:
    """Writes rows by a program."""

    def __init__(self, program: ProtobufProgram, library: ctypes.CDLL) -> None:
        self._library, self._program = library, CompiledMessage(program)
        self._cells = RowCells(program.cells)

    @classmethod
    def of(cls, program: ProtobufProgram) -> "CompiledMessageWriter | None":
        """Return the writer of a program, or None if nothing is compiled that can follow it."""
        loops = library()
        return cls(program, loops) if loops and is_small(program) else None

    def write(self, rows: pa.RecordBatch, frame: bytes) -> pa.BinaryArray | int:
        """Return one record per row, or the first row that can't be written."""
        read, room = self._cells.of(rows), WrittenRecords.room(rows.num_rows)
        self._library.holdfast_write_protobuf(
            self._program.nodes, read.cells, rows.num_rows, frame, len(frame), *room.addresses
        )
        return room.records(self._library)


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return what is compiled, or None if there is none of this version."""
    return compiled(LIBRARY, LOOPS_VERSION, {"holdfast_write_protobuf": _WRITE, **FREE})
