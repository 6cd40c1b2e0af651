"""The records of dead letters, put back at the end of their streams once what made them fail is corrected.

The record is taken from its stream, where all of it is as it was: the letter may be cut, and that of a step has a row
and no record. It goes into its partition, where its key belongs. The app may run, as with any other producer. What to
put back is decided by a pure function; the effect is one append, or a few transactions, for each partition.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.planning.plan import PlannedStream
from holdfast.spec.streams import System
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.inspection.dead_letters import DeadLetter
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.open_streams import OpenStreams
from holdfast_runtime.inspection.streams import StoredStream
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.log.put_back import put_back
from holdfast_runtime.streams.records import OffsetBounds, OffsetRange, offset_spans

if TYPE_CHECKING:
    from holdfast_runtime.streams.kafka.system import KafkaCluster
    from holdfast_runtime.streams.kafka.topic_put_back import TopicPutBack

_READ = ("input", "sideInput")
_SPAN = 10_000
"""The widest range of a topic that is fetched, and written, at once."""


class PutBackObstacle(Enum):
    """Why a letter is left out; the value says it to people."""

    NO_RECORD = "a step made the row, and the letter names no record that it was read from"
    NOT_AN_INPUT = "it is no stream that the app reads from outside"
    GENERATED = "a generator makes its rows, and nothing can be written to it"
    BOUNDED = "it is bounded, and a run reads nothing behind its end; a new spec.runId reads all of it again"
    CREATED_AGAIN = "it was created again since, and has other records"
    GONE = "the record is no longer there"
    DONE = "put back before; --again puts them back once more"
    SAME_RECORD = "another letter is about the same record, which is put back once"


@dataclass(frozen=True, slots=True)
class PutBackStream:
    """What decides whether records can be put back into a stream of the app."""

    topic: str
    obstacle: PutBackObstacle | None = None
    """Why none of its records can be."""
    created: int | None = 0
    """When, in milliseconds since 1970; None: its system does not say."""
    bounds: Mapping[int, OffsetBounds] = field(default_factory=dict)


_NOT_AN_INPUT = PutBackStream("", PutBackObstacle.NOT_AN_INPUT)


@dataclass(frozen=True, slots=True)
class PutBackRecord:
    """A record that is put back."""

    time: int
    """For which time."""
    key: bytes | None = None
    timestamp: int | None = None
    """What the letter says of the record, in microseconds since 1970; None: neither this nor the key."""

    def is_of(self, key: bytes | None, timestamp: int) -> bool:
        """Whether the letter is about a record with this key and timestamp, in milliseconds since 1970."""
        return self.timestamp is None or (self.key, self.timestamp) == (key, timestamp * 1000)


@dataclass(frozen=True, slots=True)
class PutBackPlan:
    """The records that are put back, and the letters that are left out."""

    records: Mapping[StreamPartition, Mapping[int, PutBackRecord]]
    """By partition and offset."""
    left_out: Mapping[tuple[PutBackObstacle, str], int]
    """Why, and of which stream, topic or step -> how many letters."""
    of_steps: int
    """Of how many records a step failed, so that other steps may have had them."""
    by_offset: int
    """How many records only their offset tells apart from those of a stream that was created again."""

    @property
    def count(self) -> int:
        """How many records are put back."""
        return sum(map(len, self.records.values()))


def decide_put_back(letters: Iterable[DeadLetter], streams: Mapping[str, PutBackStream], *, again: bool) -> PutBackPlan:
    """Return which records of these letters are put back; `again`: also those that were before."""
    records: dict[StreamPartition, dict[int, PutBackRecord]] = {}
    left_out: Counter[tuple[PutBackObstacle, str]] = Counter()
    of_steps = by_offset = 0
    for letter in letters:
        obstacle = _obstacle(letter, streams, records, again=again)
        if obstacle is not None:
            left_out[obstacle, _source(letter, obstacle)] += 1
        elif letter.origin.record is not None:
            partition, offset = letter.origin.record
            key = None if letter.timestamp is None else letter.key
            records.setdefault(partition, {})[offset] = PutBackRecord(letter.put_back + 1, key, letter.timestamp)
            of_steps += letter.origin.step is not None
            by_offset += letter.timestamp is None and streams[partition.stream].created is None
    return PutBackPlan(records, left_out, of_steps, by_offset)


def _obstacle(
    letter: DeadLetter,
    streams: Mapping[str, PutBackStream],
    chosen: Mapping[StreamPartition, Collection[int]],
    *,
    again: bool,
) -> PutBackObstacle | None:
    """Return the first that stands in the way, or None."""
    if letter.origin.record is None:
        return PutBackObstacle.NO_RECORD
    partition, offset = letter.origin.record
    stream = streams.get(partition.stream, _NOT_AN_INPUT)
    if stream.obstacle is not None:
        return stream.obstacle
    if stream.created is not None and letter.written < stream.created:
        return PutBackObstacle.CREATED_AGAIN
    bounds = stream.bounds.get(partition.partition)
    if bounds is None or not bounds.oldest <= offset < bounds.end:
        return PutBackObstacle.GONE
    if letter.put_back and not again:
        return PutBackObstacle.DONE
    return PutBackObstacle.SAME_RECORD if offset in chosen.get(partition, {}) else None


def _source(letter: DeadLetter, obstacle: PutBackObstacle) -> str:
    origin = letter.origin
    if obstacle is PutBackObstacle.NO_RECORD or origin.stream is None:
        return f"step {origin.step}" if origin.step else str(letter.partition)
    return f"stream {origin.stream}"


def put_back_streams(local_app: LocalApp) -> dict[str, PutBackStream]:
    """Return the streams that the app reads from outside."""
    with OpenStreams(local_app) as opened:
        return {
            stream.name: _put_back_stream(local_app, opened, stream)
            for stream in local_app.plan.streams
            if stream.role in _READ
        }


def _put_back_stream(local_app: LocalApp, opened: OpenStreams, planned: PlannedStream) -> PutBackStream:
    declared, kind = local_app.declared(planned.name), local_app.kind(planned.name)
    if kind == "generator":
        return PutBackStream(planned.topic, PutBackObstacle.GENERATED)
    if declared is not None and declared.bounded:
        return PutBackStream(planned.topic, PutBackObstacle.BOUNDED)
    stream = opened.stream(planned.name)
    bounds = {partition.partition: partition_bounds for partition, partition_bounds in stream.bounds().items()}
    created = stream.log.meta(planned.topic).created if isinstance(stream, StoredStream) and bounds else None
    return PutBackStream(planned.topic, None, created, bounds)


def put_back_records(local_app: LocalApp, plan: PutBackPlan) -> int:
    """Write the records of a plan again; return how many.

    Left out are those that another process has put back since, and in Kafka those that are not what letters say.
    """
    log, written = EmbeddedLog(local_app.directory), 0
    of_kafka: dict[str, dict[StreamPartition, Mapping[int, PutBackRecord]]] = {}
    for (stream, number), records in sorted(plan.records.items()):
        partition, system = StreamPartition(local_app.plan.stream(stream).topic, number), local_app.system(stream)
        if system is None or system.kafka is None:
            written += put_back(log, partition, {offset: record.time for offset, record in records.items()})
        else:
            of_kafka.setdefault(system.name, {})[partition] = records
    for system in local_app.app.spec.systems:
        if system.name in of_kafka:
            written += _put_back_in_kafka(local_app, system, of_kafka[system.name])
    return written


def _put_back_in_kafka(
    local_app: LocalApp, system: System, partitions: Mapping[StreamPartition, Mapping[int, PutBackRecord]]
) -> int:
    # Imported here: an app without Kafka does not need its client.
    from holdfast_runtime.streams.kafka.topic_put_back import opened_put_back  # noqa: PLC0415

    with OpenStreams(local_app) as opened:
        cluster, replication = opened.cluster(system), None if system.kafka is None else system.kafka.replication
        with opened_put_back(cluster.settings, local_app.app.name, replication) as topics:
            return sum(_written_again(cluster, topics, partition, records) for partition, records in partitions.items())


def _written_again(
    cluster: "KafkaCluster",
    topics: "TopicPutBack",
    partition: StreamPartition,
    records: Mapping[int, PutBackRecord],
) -> int:
    undone = {
        offset: record for offset, record in records.items() if not topics.is_done(partition, offset, record.time)
    }
    written = 0
    for offsets in offset_spans(sorted(undone), _SPAN):
        fetched = cluster.fetch(OffsetRange(partition, offsets[0], offsets[-1] + 1))
        columns = (fetched.column(name).to_pylist() for name in ("offset", "key", "timestamp"))
        rows = [
            row
            for row, (offset, key, timestamp) in enumerate(zip(*columns, strict=True))
            if offset in undone and undone[offset].is_of(key, timestamp)
        ]
        chosen = fetched.take(pa.array(rows, pa.int64()))
        times = {offset: undone[offset].time for offset in chosen.column("offset").to_pylist()}
        if times:
            topics.put_back(partition, times, chosen.drop_columns("offset"))
            written += len(times)
    return written
