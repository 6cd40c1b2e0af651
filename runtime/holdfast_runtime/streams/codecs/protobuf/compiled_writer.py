"""The compiled writer of Protobuf messages (protobuf_values.c): one record for each row, in one pass over all columns.

Without a compiled library there is none, and the plain writer writes the same bytes. Must not give reasons.
"""

import ctypes
import functools
from pathlib import Path

from holdfast.planning.types.protobuf.program import ProtobufProgram
from holdfast_runtime.columns.loops import compiled
from holdfast_runtime.streams.codecs.compiled_cells import FREE
from holdfast_runtime.streams.codecs.compiled_rows import WRITE, LoopWriter
from holdfast_runtime.streams.codecs.protobuf.compiled_program import LOOPS_VERSION, CompiledMessage, is_small

LIBRARY = Path(__file__).with_name("protobuf_values.so")


class CompiledMessageWriter(LoopWriter):
    """Writes rows by a program."""

    @classmethod
    def of(cls, program: ProtobufProgram) -> "CompiledMessageWriter | None":
        """Return the writer of a program, or None if nothing is compiled that can follow it."""
        loops = library()
        if loops is None or not is_small(program):
            return None
        return cls(loops, loops.holdfast_write_protobuf, CompiledMessage(program), program.cells)


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return what is compiled, or None if there is none of this version."""
    return compiled(LIBRARY, LOOPS_VERSION, {"holdfast_write_protobuf": WRITE, **FREE})
