"""The writer of rows as records of one schema, each behind its frame.

What is compiled writes a whole batch, and leaves it to the plain writer if a row is not written. Must not know formats.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


class CompiledRows(Protocol):
    """Writes rows by what is compiled."""

    def write(self, rows: pa.RecordBatch, frame: bytes, /) -> pa.BinaryArray | int:
        """Return one record per row, each behind the frame, or the first row that can't be written."""


@dataclass(frozen=True, slots=True)
class RecordWriter:
    """Writes rows of one schema."""

    frame: bytes
    plain: Callable[[pa.RecordBatch], list[bytes]]
    """The plain writer, which raises `EncodeError` for the first value that its field can't hold."""
    compiled: CompiledRows | None

    def write(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one record per row; raise `EncodeError` for the first value that its field can't hold."""
        written = self.compiled.write(rows, self.frame) if self.compiled else 0
        if not isinstance(written, int):
            return written
        self.plain(rows.slice(written, 1))  # which mostly raises
        return pa.array([self.frame + record for record in self.plain(rows)], pa.binary())
