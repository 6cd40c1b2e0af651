"""The writer of rows as records of one Avro schema, each behind its frame.

What is compiled writes a whole batch, and leaves it to the plain writer if a row is not written. Must not know schemas.
"""

import pyarrow as pa

from holdfast.planning.types.avro.program import AvroProgram
from holdfast_runtime.streams.codecs.avro.compiled_writer import CompiledWriter
from holdfast_runtime.streams.codecs.avro.plain_writer import written_rows


class RecordWriter:
    """Writes rows by a program."""

    def __init__(self, program: AvroProgram, frame: bytes) -> None:
        self._program, self._frame = program, frame
        self._compiled = CompiledWriter.of(program)

    def write(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one record per row; raise `EncodeError` for the first value that its field can't hold."""
        written = self._compiled.write(rows, self._frame) if self._compiled else 0
        if not isinstance(written, int):
            return written
        written_rows(self._program, rows.slice(written, 1))  # which mostly raises
        records = written_rows(self._program, rows)
        return pa.array([self._frame + record for record in records], pa.binary())
