"""The records of dead letters, put back at the end of their streams.

A record is taken from its stream, where all of it is as it was: the letter may be cut, and that of a step has a row and
no record. It goes into its partition, where its key belongs. The app may run, as with any other producer. The effect is
one append, or a few transactions, for each partition. Must not decide which records are put back.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.planning.plan import PlannedStream
from holdfast.spec.streams import System
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.driver.put_back import PutBackObstacle, PutBackPlan, PutBackRecord, PutBackStream
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.open_streams import OpenStreams
from holdfast_runtime.inspection.streams import StoredStream
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.log.put_back import put_back
from holdfast_runtime.streams.records import OffsetRange, offset_spans

if TYPE_CHECKING:
    from holdfast_runtime.streams.kafka.system import KafkaCluster
    from holdfast_runtime.streams.kafka.topic_put_back import TopicPutBack

_READ = ("input", "sideInput")
_SPAN = 10_000
"""The widest range of a topic that is fetched, and written, at once."""


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
        cluster = opened.cluster(system)
        with opened_put_back(cluster.settings, local_app.app.name, cluster.replication) as topics:
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
