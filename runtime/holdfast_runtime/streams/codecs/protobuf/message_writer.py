"""The writer of rows as Protobuf messages, each behind its frame.

What is compiled writes a whole batch, and leaves it to the plain writer if a row is not written. Must not know schemas.
"""

import pyarrow as pa

from holdfast.planning.types.protobuf.program import ProtobufProgram
from holdfast_runtime.streams.codecs.protobuf.compiled_writer import CompiledMessageWriter
from holdfast_runtime.streams.codecs.protobuf.plain_writer import written_messages


class MessageWriter:
    """Writes rows by a program."""

    def __init__(self, program: ProtobufProgram, frame: bytes) -> None:
        self._program, self._frame = program, frame
        self._compiled = CompiledMessageWriter.of(program)

    def write(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one record per row; raise `EncodeError` for the first value that its field can't hold."""
        written = self._compiled.write(rows, self._frame) if self._compiled else 0
        if not isinstance(written, int):
            return written
        written_messages(self._program, rows.slice(written, 1))  # which mostly raises
        messages = written_messages(self._program, rows)
        return pa.array([self._frame + message for message in messages], pa.binary())
