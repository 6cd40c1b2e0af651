"""The dead letters of an app on this host, read from the streams that take them, in the embedded log or in Kafka.

They are read in parts, as there may be many. A record of such a stream that is no dead letter, because somebody else
wrote it, is shown as one that says so: it must not hide the others. Must not change anything.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.spec.kept_streams import StreamNames
from holdfast.spec.streams import Stream
from holdfast.suggest import did_you_mean
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.open_streams import OpenStreams, ReadableStream
from holdfast_runtime.inspection.schema_values import reading_codec
from holdfast_runtime.inspection.streams import PartitionRecords, StoredStream
from holdfast_runtime.streams.codecs import DEAD_LETTER_SCHEMA, Codec

_AT_ONCE = 10_000
_NOT_A_LETTER = "this record is no dead letter"


@dataclass(frozen=True, slots=True)
class LetterOrigin:
    """What a dead letter is about; None: not known, or it does not apply."""

    stream: str | None = None
    partition: int | None = None
    offset: int | None = None
    step: str | None = None
    column: str | None = None

    @property
    def record(self) -> tuple[StreamPartition, int] | None:
        """The partition and offset of the record, if the letter says where it was read."""
        if self.stream is None or self.partition is None or self.offset is None:
            return None
        return StreamPartition(self.stream, self.partition), self.offset


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter and its position in the stream that took it."""

    partition: StreamPartition
    offset: int
    written: int
    """Milliseconds since 1970."""
    reason: str
    origin: LetterOrigin
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    """Of the record, if it could not be decoded: microseconds since 1970."""
    headers: tuple[tuple[str, bytes | None], ...] = ()
    put_back: int = 0
    """How often the record was put back into its stream."""


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which dead letters are meant."""

    source: str | None = None
    """The stream or the step that they come from, or the stream that took them."""
    reason: str | None = None
    """A part of the reason."""
    offset: int | None = None
    """In the stream that took them."""

    def takes(self, letter: DeadLetter) -> bool:
        """Whether this letter is meant."""
        return (
            (self.source is None or self._is_source(letter))
            and (self.reason is None or self.reason in letter.reason)
            and (self.offset is None or self.offset == letter.offset)
        )

    def _is_source(self, letter: DeadLetter) -> bool:
        # A join writes its own name and the side: matched.left.
        step = letter.origin.step or ""
        return self.source in (letter.origin.stream, step, letter.partition.stream) or step.startswith(
            f"{self.source}."
        )


def dead_letters(local_app: LocalApp, letter_filter: LetterFilter) -> Iterator[DeadLetter]:
    """Yield dead letters, stream by stream; raise `UsageError` if no stream takes any, or the source is unknown."""
    spec = local_app.app.spec
    taking = [stream for stream in spec.streams if stream.name in spec.dead_letters]
    if not taking:
        message = (
            f"{local_app.app.name} has no stream for dead letters: set onDecodeError of a stream, or onError or late "
            "of a step, to DeadLetter, and deadLetter to a stream"
        )
        raise UserActionError(message, code="UsageError")
    names = [*(stream.name for stream in local_app.plan.streams), *(step.name for step in spec.steps)]
    if letter_filter.source not in (None, *names):
        suggestion = did_you_mean(str(letter_filter.source), names)
        message = f"{local_app.app.name} has no stream and no step {letter_filter.source}{suggestion}"
        raise UserActionError(message, code="UsageError")
    return _filtered(local_app, taking, letter_filter)


def _filtered(local_app: LocalApp, taking: list[Stream], letter_filter: LetterFilter) -> Iterator[DeadLetter]:
    with OpenStreams(local_app) as streams:
        reader = _LetterReader(StreamNames.of(local_app.app.spec).called, _put_back(local_app, streams))
        for stream in taking:
            codec = reading_codec(local_app, stream.name, DEAD_LETTER_SCHEMA)
            for part in _parts(streams.stream(stream.name)):
                partition = StreamPartition(stream.name, part.offsets.partition.partition)
                yield from filter(letter_filter.takes, reader.letters(partition, part.records, codec))


def _parts(stream: ReadableStream) -> Iterator[PartitionRecords]:
    """Yield the records that a stream has now, a part of each partition at a time."""
    ends = {partition: bounds.end for partition, bounds in stream.bounds().items()}
    positions: dict[StreamPartition, int] = {}
    unread = True
    while unread:
        unread = False
        for part in stream.records(positions, ends, _AT_ONCE):
            unread, positions[part.offsets.partition] = True, part.offsets.end
            yield part


def _put_back(local_app: LocalApp, opened: OpenStreams) -> dict[StreamPartition, Mapping[int, int]]:
    """Return how often records of the app's streams were put back."""
    times: dict[StreamPartition, Mapping[int, int]] = {}
    of_topics: dict[str, Mapping[StreamPartition, Mapping[int, int]]] = {}
    for stream in local_app.plan.streams:
        system, kind = local_app.system(stream.name), local_app.kind(stream.name)
        if kind == "log":
            by_partition = StoredStream.of(local_app, stream.name).times_put_back()
            times |= {StreamPartition(stream.name, number): counts for number, counts in by_partition.items()}
        elif system is not None and kind == "kafka":
            # Imported here: an app without Kafka does not need its client.
            from holdfast_runtime.streams.kafka.topic_put_back import times_put_back  # noqa: PLC0415

            if system.name not in of_topics:
                of_topics[system.name] = times_put_back(opened.cluster(system).settings, local_app.app.name)
            times |= {
                StreamPartition(stream.name, partition.partition): counts
                for partition, counts in of_topics[system.name].items()
                if partition.stream == stream.topic
            }
    return times


@dataclass(frozen=True, slots=True)
class _LetterReader:
    """Makes dead letters of records."""

    called: Mapping[str, str]
    """What streams that were renamed are called now."""
    put_back: Mapping[StreamPartition, Mapping[int, int]]

    def letters(self, partition: StreamPartition, records: pa.RecordBatch, codec: Codec) -> Iterator[DeadLetter]:
        decoded = codec.decode(records.column("value"))
        reasons = {record.index: f"{_NOT_A_LETTER}: {record.reason}" for record in decoded.bad}
        rows = dict(zip(decoded.good.tolist(), _plain_rows(decoded.rows), strict=True))
        for index, record in enumerate(records.to_pylist()):
            row, position = rows.get(index), (partition, record["offset"], record["timestamp"])
            if row is not None and row["reason"] is not None:
                yield self._letter(position, row)
            else:
                reason = reasons.get(index, _NOT_A_LETTER)
                yield DeadLetter(*position, reason, LetterOrigin(), record["key"], record["value"])

    def _letter(self, position: tuple[StreamPartition, int, int], row: Mapping[str, Any]) -> DeadLetter:
        stream = row["stream"]
        stream = self.called.get(stream, stream)
        origin = LetterOrigin(stream, row["partition"], row["offset"], row["step"], row["column"])
        times = 0 if origin.record is None else self.put_back.get(origin.record[0], {}).get(origin.record[1], 0)
        headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
        return DeadLetter(*position, row["reason"], origin, row["key"], row["value"], row["timestamp"], headers, times)


def _plain_rows(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as dicts; times as numbers, as a record may have one that Python has no date for."""
    column = rows.schema.get_field_index("timestamp")
    return rows.set_column(column, "timestamp", rows.column(column).cast(pa.int64())).to_pylist()  # type: ignore[no-any-return]
