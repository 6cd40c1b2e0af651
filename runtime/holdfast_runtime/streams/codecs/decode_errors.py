"""Why: what becomes of records that can't be decoded, as the stream's `onDecodeError` says: stop, skip, or dead letter.

A pure function; whoever calls it counts, writes and stops. Must not lose a record in silence: each is counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast_runtime.streams.codecs.codec import BadRecord

Mode = Literal["Fail", "Skip", "DeadLetter"]
FIRST_BYTES = 80
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
DEAD_LETTER_SCHEMA = pa.schema(
    [
        ("reason", pa.string()),
        ("stream", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("headers", HEADERS),
        ("step", pa.string()),
        ("column", pa.string()),
    ]
)
"""Columns of a dead letter: why, where it stood, and the record as it was; step and column where a step made it."""


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
    """The records of one stream partition that one `decode` was given, and those it found bad."""

    stream: str
    partition: int
    offsets: pa.Int64Array
    keys: pa.BinaryArray
    values: pa.BinaryArray
    timestamps: pa.TimestampArray
    bad: Sequence[BadRecord]
    headers: pa.ListArray | None = None
    """Of each record; None: none has any."""


@dataclass(frozen=True, slots=True)
class BadRecordsOutcome:
    """How many records are left out, and the dead letters to write for them (no rows when they are skipped)."""

    count: int
    letters: pa.RecordBatch


def on_bad(batch: BadBatch, mode: Mode) -> BadRecordsOutcome:
    """What to do with the bad records of a batch; raises `DecodeError` for the first when the stream says `Fail`."""
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
    at = pa.array([record.index for record in bad], pa.int64())
    columns = [
        pa.array([record.reason for record in bad], pa.string()),
        pa.array([batch.stream] * len(bad), pa.string()),
        pa.array([batch.partition] * len(bad), pa.int32()),
        batch.offsets.take(at),
        batch.keys.take(at),
        batch.values.take(at),
        batch.timestamps.take(at).cast(pa.timestamp("us", tz="UTC")),
        pa.nulls(len(bad), HEADERS) if batch.headers is None else batch.headers.take(at),
        pa.nulls(len(bad), pa.string()),
        pa.nulls(len(bad), pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=DEAD_LETTER_SCHEMA)
