"""The compiled reader of Avro records (avro_records.c): what is good, and which records are not.

Without a compiled library there is none, and the judge reads the same rows. Must not give reasons.
"""

import ctypes
import functools
from pathlib import Path

import pyarrow as pa

from holdfast.planning.types.avro.program import AvroProgram
from holdfast_runtime.columns.loops import compiled
from holdfast_runtime.streams.codecs.avro.compiled_program import LOOPS_VERSION, CompiledProgram
from holdfast_runtime.streams.codecs.compiled_cells import FREE, READ, CellColumns, LoopReader

LIBRARY = Path(__file__).with_name("avro_records.so")


class CompiledReader(LoopReader):
    """Reads records of one schema."""

    @classmethod
    def of(cls, program: AvroProgram, schema: pa.Schema) -> "CompiledReader | None":
        """Return the reader of a program, or None if nothing is compiled."""
        loops = library()
        if loops is None:
            return None
        return cls(loops, loops.holdfast_read_avro, CompiledProgram(program), CellColumns(program.cells, schema))


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return what is compiled, or None if there is none of this version."""
    return compiled(LIBRARY, LOOPS_VERSION, {"holdfast_read_avro": READ, **FREE})
