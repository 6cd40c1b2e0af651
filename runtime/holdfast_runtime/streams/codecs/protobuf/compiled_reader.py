"""The compiled reader of Protobuf messages (protobuf_records.c): what is good, and which records are not.

Without a compiled library there is none, and the judge reads the same rows. Must not give reasons.
"""

import ctypes
import functools
from pathlib import Path

import pyarrow as pa

from holdfast.planning.types.protobuf.program import ProtobufProgram
from holdfast_runtime.columns.loops import compiled
from holdfast_runtime.streams.codecs.compiled_cells import FREE, READ, CellColumns, LoopReader
from holdfast_runtime.streams.codecs.protobuf.compiled_program import LOOPS_VERSION, CompiledMessage, is_small

LIBRARY = Path(__file__).with_name("protobuf_records.so")


class CompiledMessageReader(LoopReader):
    """Reads records of one message."""

    @classmethod
    def of(cls, program: ProtobufProgram, schema: pa.Schema) -> "CompiledMessageReader | None":
        """Return the reader of a program, or None if nothing is compiled that can follow it."""
        loops = library()
        if loops is None or not is_small(program):
            return None
        return cls(loops, loops.holdfast_read_protobuf, CompiledMessage(program), CellColumns(program.cells, schema))


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return what is compiled, or None if there is none of this version."""
    return compiled(LIBRARY, LOOPS_VERSION, {"holdfast_read_protobuf": READ, **FREE})
