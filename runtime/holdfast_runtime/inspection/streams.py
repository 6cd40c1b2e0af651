"""The streams of an app: what those in the embedded log hold, their records, and how many partitions topics have.

Must not create a stream, and must not decode records.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from holdfast.planning.input_topics import near_inputs
from holdfast.spec.app import StreamApp
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.log.put_back import times_put_back
from holdfast_runtime.streams.records import OffsetBounds, OffsetRange

Bounds = Mapping[StreamPartition, OffsetBounds]


@dataclass(frozen=True, slots=True)
class StreamContent:
    """What a stream holds."""

    partitions: int
    oldest: int
    """The lowest offset kept."""
    end: int
    """The highest end of a partition."""
    records: int
    """The offsets from the oldest to the end of each partition: in a topic, some may have no record."""
    bytes: int | None
    """On disk; None: not known."""

    @classmethod
    def of(cls, bounds: Bounds, size: int | None) -> "StreamContent":
        """Return what a stream with these offsets, of at least one partition, holds."""
        return cls(
            len(bounds),
            min(partition_bounds.oldest for partition_bounds in bounds.values()),
            max(partition_bounds.end for partition_bounds in bounds.values()),
            sum(partition_bounds.end - partition_bounds.oldest for partition_bounds in bounds.values()),
            size,
        )


@dataclass(frozen=True, slots=True)
class PartitionRecords:
    """Records of one partition, in order."""

    offsets: OffsetRange
    since: int
    """The first offset that was asked for; records from there on that come before `offsets` are no longer kept."""
    records: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class UnreadRange:
    """Records of one partition that are to be read."""

    offsets: OffsetRange
    since: int
    """The first offset that was asked for."""


def unread_ranges(
    bounds: Bounds,
    since: Mapping[StreamPartition, int] | None = None,
    until: Mapping[StreamPartition, int] | None = None,
    most: int | None = None,
) -> list[UnreadRange]:
    """Return the next records of each partition that has any.

    `since`: partition -> the first offset; without, the oldest record. `until`: partition -> where to stop. `most`: how
    many of a partition at most; None: all that are there now.
    """
    ranges = []
    for partition, (oldest, newest, _) in sorted(bounds.items()):
        end = newest if until is None else min(newest, until.get(partition, 0))
        first = oldest if since is None else since.get(partition, oldest)
        start = max(first, oldest)
        if start < end:
            ranges.append(
                UnreadRange(OffsetRange(partition, start, end if most is None else min(end, start + most)), first)
            )
    return ranges


@dataclass(frozen=True, slots=True)
class StoredStream:
    """A stream of an embedded log, which may not exist yet: then it has no partitions."""

    pause: ClassVar = 0.05
    """Seconds between looks for new records."""
    log: EmbeddedLog
    topic: str

    @classmethod
    def of(cls, local_app: LocalApp, name: str) -> "StoredStream":
        """Return a stream of the app's plan."""
        return cls(EmbeddedLog(local_app.directory), local_app.plan.stream(name).topic)

    def bounds(self) -> Bounds:
        """Return the present offsets of each partition."""
        return self.log.bounds(self.topic) if self.log.has(self.topic) else {}

    def times_put_back(self) -> Mapping[int, Mapping[int, int]]:
        """Return how often records were put back: number of a partition -> offset -> times."""
        times = times_put_back(self.log, self.topic) if self.log.has(self.topic) else {}
        return {partition.partition: by_offset for partition, by_offset in times.items()}

    def content(self) -> StreamContent | None:
        """Return what the stream holds; None if it does not exist."""
        bounds = self.bounds()
        return StreamContent.of(bounds, self.log.size(self.topic)) if bounds else None

    def records(
        self,
        since: Mapping[StreamPartition, int] | None = None,
        until: Mapping[StreamPartition, int] | None = None,
        most: int | None = None,
    ) -> Iterator[PartitionRecords]:
        """Yield the next records of each partition that has any; see `unread_ranges`."""
        for unread in unread_ranges(self.bounds(), since, until, most):
            yield PartitionRecords(unread.offsets, unread.since, self.log.fetch(unread.offsets))


def topic_counts(app: StreamApp, data: Path) -> dict[str, int | None]:
    """Return the partition counts of the app's streams in Kafka as its run would ask, with its login and settings."""
    # Imported here: most readers of streams need no Kafka client.
    from holdfast_runtime.streams.kafka.admin.existing_topics import kafka_counts  # noqa: PLC0415

    return kafka_counts(app.spec, DataDir(data).secrets)


def near_topics(app: StreamApp, data: Path, counts: Mapping[str, int | None]) -> dict[str, tuple[str, ...]]:
    """Return stream -> topics that may be meant, for inputs in Kafka without a topic: their names are asked for."""
    from holdfast_runtime.streams.kafka.admin.existing_topics import kafka_topic_names  # noqa: PLC0415

    secrets = DataDir(data).secrets
    return near_inputs(app.spec, counts, lambda system: kafka_topic_names(system, secrets))
