"""Why: what every codec promises, so that the batch loop need not know formats.

Must not hold the rules of any single format.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.errors import UserActionError

Indices = npt.NDArray[np.int64]


class EncodeError(UserActionError):
    """A row holds a value that its stream's format can't express."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that can't be decoded: where it stood in the batch, and why, naming the field where one is to blame."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """What a batch of record values turned into. Each record is in `good`, `bad` or `nulls`, or (arrow) has no rows."""

    rows: pa.RecordBatch
    """The rows of all good records, in the order of the records."""
    good: Indices
    """For each row the index of its record. Rises; repeats only where a record may hold several rows (arrow)."""
    bad: tuple[BadRecord, ...]
    """The records without rows because they can't be read, by index."""
    nulls: Indices
    """The records whose value is null: a delete for a table, nothing for a step, which skips and counts them."""


class Codec(Protocol):
    """Bytes to rows and back, a batch at a time."""

    @property
    def schema(self) -> pa.Schema:
        """The columns it reads and writes."""

    def decode(self, values: pa.BinaryArray) -> DecodedBatch:
        """The rows of these record values. Never raises for what a record holds."""

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """One record value per row; raises `EncodeError` where a value can't be expressed."""


def present(values: pa.BinaryArray) -> tuple[pa.BinaryArray, Indices, Indices]:
    """The values that are there, their indices, and the indices of those that are null."""
    here = values.is_valid().to_numpy(zero_copy_only=False)
    kept = values.drop_null() if values.null_count else values
    return kept, np.flatnonzero(here).astype(np.int64), np.flatnonzero(~here).astype(np.int64)


def stacked(pieces: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """One batch of all pieces, in their order."""
    if len(pieces) == 1:
        return pieces[0]
    if pieces:
        return pa.concat_batches(pieces)
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def require_schema(rows: pa.RecordBatch, schema: pa.Schema) -> None:
    """Refuse rows of other columns: written under these names they would be read as something else."""
    if not rows.schema.equals(schema):
        message = f"the rows to write have the columns ({listed(rows.schema)}), the stream has ({listed(schema)})"
        raise EncodeError(message)


def listed(schema: pa.Schema) -> str:
    """Its columns, for messages."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)
