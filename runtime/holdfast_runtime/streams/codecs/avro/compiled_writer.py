"""The compiled writer of Avro records (avro_values.c): one record for each row, in one pass over all columns.

Without a compiled library there is none, and the plain writer writes the same bytes. Must not give reasons.
"""

import ctypes
import functools
from pathlib import Path

from holdfast.planning.types.avro.program import AvroProgram
from holdfast_runtime.columns.loops import compiled
from holdfast_runtime.streams.codecs.avro.compiled_program import LOOPS_VERSION, CompiledProgram
from holdfast_runtime.streams.codecs.compiled_cells import FREE
from holdfast_runtime.streams.codecs.compiled_rows import WRITE, LoopWriter

LIBRARY = Path(__file__).with_name("avro_values.so")


class CompiledWriter(LoopWriter):
    """Writes rows by a program."""

    @classmethod
    def of(cls, program: AvroProgram) -> "CompiledWriter | None":
        """Return the writer of a program, or None if nothing is compiled."""
        loops = library()
        return None if loops is None else cls(loops, loops.holdfast_write_avro, CompiledProgram(program), program.cells)


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return what is compiled, or None if there is none of this version."""
    return compiled(LIBRARY, LOOPS_VERSION, {"holdfast_write_avro": WRITE, **FREE})
