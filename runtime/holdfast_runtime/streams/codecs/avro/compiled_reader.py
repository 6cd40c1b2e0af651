"""The compiled reader of Avro records (avro_records.c): what is good, and which records are not.

Without a compiled library there is none, and the judge reads the same rows. Must not give reasons.
"""

import ctypes
import functools
from ctypes import c_int64, c_void_p
from pathlib import Path

import numpy as np
import pyarrow as pa

from holdfast.planning.types.avro.program import AvroProgram
from holdfast_runtime.columns.loops import address, compiled
from holdfast_runtime.streams.codecs.avro.compiled_program import LOOPS_VERSION, CompiledProgram
from holdfast_runtime.streams.codecs.compiled_cells import FREE, CellColumns, UndoubtedRows

LIBRARY = Path(__file__).with_name("avro_records.so")
_READ = (c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_void_p)
_END_BYTES = 4


class CompiledReader:
    """Reads records of one schema."""

    def __init__(self, program: AvroProgram, schema: pa.Schema, library: ctypes.CDLL) -> None:
        self._library, self._program = library, CompiledProgram(program)
        self._columns = CellColumns(program.cells, schema)

    @classmethod
    def of(cls, program: AvroProgram, schema: pa.Schema) -> "CompiledReader | None":
        """Return the reader of a program, or None if nothing is compiled."""
        loops = library()
        return cls(program, schema, loops) if loops else None

    def read(self, values: pa.BinaryArray, frame_bytes: int) -> UndoubtedRows:
        """Return the rows of what is good behind the frames of these records, which are so long."""
        _, ends, content = values.buffers()
        cells = self._columns.empty()
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
        doubts, fault = outcome.tolist()
        rows = self._columns.filled(cells, fault, self._library)
        return UndoubtedRows(rows, doubtful[:doubts].astype(np.int64))


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return what is compiled, or None if there is none of this version."""
    return compiled(LIBRARY, LOOPS_VERSION, {"holdfast_read_avro": _READ, **FREE})
