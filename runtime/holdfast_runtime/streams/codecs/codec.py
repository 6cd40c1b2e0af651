"""The protocol of every codec: decoded batches, bad records, encoding; and the handling of bad records.

The batch loop need not know formats. A bad record is returned with its index and a reason, and the stream's
`onDecodeError` decides: stop, skip, or dead letter. That decision is a pure function; the caller counts, writes and
stops. Must not contain rules of a single format, and must not lose a record silently: each is counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast_runtime.streams.records import HEADERS

Indices = npt.NDArray[np.int64]


class EncodeError(UserActionError):
    """A row holds a value that its stream's format can't express."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that can't be decoded: its index in the batch, and a reason that names the faulty field, if any."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """A decoded batch of record values. Each record is in `good`, `bad` or `nulls`."""

    rows: pa.RecordBatch
    """The rows of all good records, in the order of the records."""
    good: Indices
    """The index of each row's record, ascending."""
    bad: tuple[BadRecord, ...]
    """The records that can't be read, by index."""
    nulls: Indices
    """The records with a null value: a delete for a table; a step skips and counts them."""


class Codec(Protocol):
    """Converts bytes to rows and back, a batch at a time."""

    @property
    def schema(self) -> pa.Schema:
        """The columns it reads and writes."""

    def decode(self, values: pa.BinaryArray) -> DecodedBatch:
        """Return the rows of these record values. Never raises because of a record's content."""

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one record value per row; raise `EncodeError` if a value can't be expressed."""


def present(values: pa.BinaryArray) -> tuple[pa.BinaryArray, Indices, Indices]:
    """Return the non-null values, their indices, and the indices of the null ones."""
    if not values.null_count:
        return values, np.arange(len(values)), np.arange(0)
    is_present = values.is_valid().to_numpy(zero_copy_only=False)
    return values.drop_null(), np.flatnonzero(is_present).astype(np.int64), np.flatnonzero(~is_present).astype(np.int64)


RECORDS = "the decoded records of a batch"
"""What they are called if they are too large."""


def require_schema(rows: pa.RecordBatch, schema: pa.Schema) -> None:
    """Refuse rows with other columns: written under these names, they would be misread."""
    if not rows.schema.equals(schema):
        message = f"the rows to write have the columns ({listed(rows.schema)}), the stream has ({listed(schema)})"
        raise EncodeError(message)


def listed(schema: pa.Schema) -> str:
    """Return the columns as text for messages."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)


Mode = Literal["Fail", "Skip", "DeadLetter"]
FIRST_BYTES = 80
DEAD_LETTER_SCHEMA = pa.schema(
    [
        ("reason", pa.string()),
        ("stream", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        HEADERS,
        ("step", pa.string()),
        ("column", pa.string()),
    ]
)
"""Columns of a dead letter: the reason, its origin, and the original record; step and column if a step made it."""


class DecodeError(UserActionError):
    """A record can't be decoded and its stream says `onDecodeError: Fail`."""

    def __init__(self, stream: str, partition: int, offset: int, reason: str, value: bytes) -> None:
        self.stream, self.partition, self.offset, self.reason = stream, partition, offset, reason
        more = f" and {len(value) - FIRST_BYTES} more bytes" if len(value) > FIRST_BYTES else ""
        super().__init__(
            f"the record at offset {offset} of {stream}/{partition} can't be decoded: {reason}. It starts with "
            f"{value[:FIRST_BYTES]!r}{more}. Correct the producer or the stream's format and schema, or set "
            f"onDecodeError of {stream} to Skip or DeadLetter to go on without such records"
        )


@dataclass(frozen=True, slots=True)
class BadBatch:
    """The records of one stream partition that were decoded together, and the bad ones among them."""

    stream: str
    partition: int
    offsets: pa.Int64Array
    keys: pa.BinaryArray
    values: pa.BinaryArray
    timestamps: pa.TimestampArray
    bad: Sequence[BadRecord]
    headers: pa.ListArray | None = None
    """The headers of each record; None if no record has any."""


@dataclass(frozen=True, slots=True)
class BadRecordsOutcome:
    """How many records are left out, and the dead letters to write for them (no rows if they are skipped)."""

    count: int
    letters: pa.RecordBatch


def on_bad(batch: BadBatch, mode: Mode) -> BadRecordsOutcome:
    """Apply the mode to the bad records of a batch; with `Fail`, raise `DecodeError` for the first."""
    match mode:
        case "Fail":
            if batch.bad:
                first = min(batch.bad, key=lambda record: record.index)
                raise DecodeError(
                    batch.stream,
                    batch.partition,
                    batch.offsets[first.index].as_py(),
                    first.reason,
                    batch.values[first.index].as_py(),
                )
            return BadRecordsOutcome(0, _letters(batch, ()))
        case "Skip":
            return BadRecordsOutcome(len(batch.bad), _letters(batch, ()))
        case "DeadLetter":
            return BadRecordsOutcome(len(batch.bad), _letters(batch, batch.bad))
        case _:
            assert_never(mode)


def _letters(batch: BadBatch, bad: Sequence[BadRecord]) -> pa.RecordBatch:
    indices = pa.array([record.index for record in bad], pa.int64())
    columns = [
        pa.array([record.reason for record in bad], pa.string()),
        pa.array([batch.stream] * len(bad), pa.string()),
        pa.array([batch.partition] * len(bad), pa.int32()),
        batch.offsets.take(indices),
        batch.keys.take(indices),
        batch.values.take(indices),
        batch.timestamps.take(indices).cast(pa.timestamp("us", tz="UTC")),
        pa.nulls(len(bad), HEADERS.type) if batch.headers is None else batch.headers.take(indices),
        pa.nulls(len(bad), pa.string()),
        pa.nulls(len(bad), pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=DEAD_LETTER_SCHEMA)
