"""The protocol of stream systems: offset ranges, record batches, markers, and the errors of reading them.

The embedded log, generators and Kafka all implement it. Records are fetched by exact ranges, so that a replayed batch
reads what it read before, and written together with a marker, so that a replayed batch is not written twice. The ends
of texts in a column have 32 bits, so a column of one batch holds 2 GiB. A task's rows in a batch are one Arrow batch
everywhere (functions get it whole, outputs are written whole), so more is refused, with what to do, before anything is
decided. Must not know any system.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from holdfast.errors import UserActionError, WorldChangeError
from holdfast.tasks.partitions import StreamPartition

MOST_BYTES = 2**31 - 1
"""The most bytes that one column of one batch can hold."""


class BatchTooLargeError(UserActionError):
    """Rows or records that belong together hold more bytes than one Arrow batch can."""

    @classmethod
    def of(cls, what: str, size: int) -> "BatchTooLargeError":
        """Return the error for these rows or records and their size."""
        return cls(
            f"{what}: {size} bytes at once, and a column holds at most {MOST_BYTES}. Lower "
            "runtime.trigger.maxRecordsPerPartition; a batch stays what it was planned to be, so have it planned "
            "again, too (runtime.replan, or holdfast offsets --replan)"
        )


def stacked(parts: Sequence[pa.RecordBatch], schema: pa.Schema, what: str) -> pa.RecordBatch:
    """Return all parts as one batch, in order; `what` they are, for the error."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return no_rows(schema)
    try:
        return pa.concat_batches(parts)
    except pa.ArrowInvalid as error:
        size = sum(part.nbytes for part in parts)
        if size <= MOST_BYTES:
            raise
        raise BatchTooLargeError.of(what, size) from error


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return no rows, with the columns of this schema."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


WRITTEN = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), pa.field("timestamp", pa.int64(), nullable=False)],
)
"""Records as they are written: a null value is a tombstone, a null key is no key; milliseconds since 1970."""
FETCHED = pa.schema([pa.field("offset", pa.int64(), nullable=False), *WRITTEN])
"""Records as they are fetched."""
HEADERS = pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
"""One more column, the last, of batches in which records have headers; null for a record without."""
NO_TIME = -(2**63)
"""The timestamp of a record of an intermediate stream whose row has no event time."""


class OffsetBounds(NamedTuple):
    """The existing offsets of a partition: from `oldest`, below `end`."""

    oldest: int
    end: int
    epoch: int | None = None
    """The leader epoch of the partition when it had this end, where the system has epochs."""


class OffsetRange(NamedTuple):
    """The records of a partition from `start`, below `end`."""

    partition: StreamPartition
    start: int
    end: int
    epoch: int | None = None
    """The leader epoch under which the partition had this end: records fetched ahead under another one may be gone."""

    def __str__(self) -> str:
        return f"{self.partition} [{self.start}, {self.end})"


class EpochPosition(NamedTuple):
    """The next offset to read, and the leader epoch under which the records before it were there."""

    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class LogCut:
    """What a broker says of a partition whose records before a position are not those of its leader epoch."""

    since: int
    """The first offset that may hold another record now."""
    said: str


@dataclass(frozen=True, slots=True)
class Marker:
    """A note in a partition that all records of a batch are written."""

    owner: str
    """The app and run, e.g. `ad-clicks/1`. Batches and epochs have no meaning without it."""
    task: str
    batch: int
    epoch: int
    """The attempt that writes."""
    life: str
    """The life of the checkpoint in which the batch was planned."""
    digest: str
    """The digest of the delta that holds what is written; equal content has an equal digest."""


@dataclass(frozen=True, slots=True)
class RecordLimit:
    """How large a record of a stream may be."""

    most: int
    """Bytes of key and value together."""
    setting: str
    """Its name, and where it is set."""


class StreamMissingError(WorldChangeError):
    """The stream or the partition does not exist."""


class OffsetNotWrittenError(UserActionError):
    """Records to be read were never written: the stream is not the one it was."""


def written_batch(
    keys: "Sequence[bytes | None] | pa.Array",
    values: "Sequence[bytes | None] | pa.Array",
    timestamps: object,
    headers: pa.Array | None = None,
) -> pa.RecordBatch:
    """Return records to write; `timestamps` is one for all, or one for each."""
    keys, values = (x if isinstance(x, pa.Array) else pa.array(x, pa.binary()) for x in (keys, values))
    times = np.full(len(keys), timestamps) if isinstance(timestamps, int) else timestamps
    records = pa.RecordBatch.from_arrays([keys, values, pa.array(times, pa.int64())], schema=WRITTEN)
    return records if headers is None else records.append_column(HEADERS, headers)


def alike(parts: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    """Return the same parts with equal columns: if records of one have headers, all get that column."""
    with_headers = [HEADERS.name in part.schema.names for part in parts]
    if all(with_headers) or not any(with_headers):
        return parts
    return [
        part if has_headers else part.append_column(HEADERS, pa.nulls(part.num_rows, HEADERS.type))
        for part, has_headers in zip(parts, with_headers, strict=True)
    ]


_FEW_ROWS, _FEW_BYTES = 256, 1 << 16


def fewer(parts: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    """Return the same records, as one batch if the parts are small: to copy them is less than to treat each alone."""
    count, most_bytes = len(parts), min(_FEW_BYTES * len(parts), MOST_BYTES)
    if count == 1 or sum(part.num_rows for part in parts) > _FEW_ROWS * count:
        return parts
    return parts if sum(part.nbytes for part in parts) > most_bytes else [pa.concat_batches(alike(parts))]


def offset_spans(offsets: Sequence[int], widest: int) -> Iterator[Sequence[int]]:
    """Yield the same ascending offsets in parts, none wider than this."""
    start = 0
    for end in range(1, len(offsets) + 1):
        if end == len(offsets) or offsets[end] - offsets[start] >= widest:
            yield offsets[start:end]
            start = end


def with_offsets(records: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """Return written records as they are fetched: offsets count up from `first`."""
    offsets = pa.array(np.arange(first, first + records.num_rows, dtype=np.int64))
    return pa.RecordBatch.from_arrays([offsets, *records.columns], schema=FETCHED)


def joined(parts: Sequence[pa.RecordBatch], offset_range: OffsetRange) -> pa.RecordBatch:
    """Return all parts of a range as one batch, in order."""
    return stacked(parts, FETCHED, str(offset_range))


def check_order(offset_range: OffsetRange) -> None:
    """Refuse a range that no partition can have."""
    if offset_range.start > offset_range.end or offset_range.start < 0:
        message = f"{offset_range} is no range: it must not start below 0 or end before it starts"
        raise ValueError(message)


def check_range(offset_range: OffsetRange, bounds: OffsetBounds) -> None:
    """Refuse a range that does not exist as a whole."""
    check_order(offset_range)
    partition, start, end = offset_range.partition, offset_range.start, offset_range.end
    if start == end:
        return
    if start < bounds.oldest:
        message = (
            f"{partition}: offset {start} is wanted, but the oldest record kept is {bounds.oldest}: "
            f"{min(bounds.oldest, end) - start} of the records [{start}, {end}) are gone. Start a new run (another "
            f"spec.runId) to go on without them, and keep records longer than the app may stand still"
        )
        raise UserActionError(message, code="OffsetAgedOutError")
    if end > bounds.end:
        message = (
            f"{partition}: records up to offset {end} are wanted, but it ends at {bounds.end}: it was created again or "
            "put back to an older copy since it was read. Bring back the stream as it was, or start a new run "
            "(another spec.runId)"
        )
        raise OffsetNotWrittenError(message)


def check_partition(partition: StreamPartition, counts: Mapping[str, int]) -> None:
    """Refuse a partition that does not exist."""
    count = counts.get(partition.stream)
    if count is None or not 0 <= partition.partition < count:
        has = "there is no such stream" if count is None else f"{partition.stream} has {count} partitions, from 0"
        message = f"{partition} can't be read or written: {has}"
        raise StreamMissingError(message)
