"""The streams of an app opened for people to read, whichever system holds them: the embedded log or Kafka.

Each system is connected once, when a stream of it is asked for. Must not create a stream, and must not decode records.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

from holdfast.errors import AwayError, HoldfastError
from holdfast.spec.streams import System
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.streams import Bounds, PartitionRecords, StoredStream, StreamContent
from holdfast_runtime.streams.records import StreamMissingError

if TYPE_CHECKING:
    from holdfast_runtime.streams.kafka.system import KafkaCluster


class ReadableStream(Protocol):
    """A stream whose records can be read."""

    @property
    def pause(self) -> float:
        """Seconds between looks for new records."""

    def bounds(self) -> Bounds:
        """Return the present offsets of each partition."""

    def content(self) -> StreamContent | None:
        """Return what the stream holds; None if nothing is there."""

    def records(
        self,
        since: Mapping[StreamPartition, int] | None = None,
        until: Mapping[StreamPartition, int] | None = None,
        most: int | None = None,
    ) -> Iterator[PartitionRecords]:
        """Yield the next records of each partition that has any; see `unread_ranges`."""


@dataclass(slots=True)
class OpenStreams:
    """Opens streams of an app; a context that closes its connections."""

    local_app: LocalApp
    _clusters: "dict[str, KafkaCluster]" = field(default_factory=dict)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close all connections."""
        for cluster in self._clusters.values():
            cluster.close()

    def stream(self, name: str) -> ReadableStream:
        """Return this stream; raise `UsageError` if the app has none whose records can be read."""
        planned, system = self.local_app.stream(name), self.local_app.system(name)
        if system is None or system.kafka is None:
            return StoredStream.of(self.local_app, name)
        # Imported here: an app without Kafka does not need its client.
        from holdfast_runtime.inspection.kafka_topic import KafkaTopic  # noqa: PLC0415

        return KafkaTopic(self.cluster(system), planned.topic)

    def cluster(self, system: System) -> "KafkaCluster":
        """Return a Kafka system, with the login of this host."""
        from holdfast_runtime.streams.kafka.client.settings import kafka_settings  # noqa: PLC0415
        from holdfast_runtime.streams.kafka.system import KafkaCluster  # noqa: PLC0415

        if system.name not in self._clusters:
            settings = kafka_settings(system, DataDir(self.local_app.data).secrets)
            replication = None if system.kafka is None else system.kafka.replication
            self._clusters[system.name] = KafkaCluster(settings, self.local_app.app.name, replication=replication)
        return self._clusters[system.name]


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """A stream of an app, and what it holds."""

    name: str
    role: str
    kind: str
    """Kind of its system."""
    partitions: int | None
    """As they are, or as the plan has them if the stream is not there; None: not known."""
    content: StreamContent | None
    """None if it is not there, not known, or made up by a generator."""
    unknown: str | None = None
    """Why its content is not known."""


def stream_summaries(local_app: LocalApp) -> Iterator[StreamSummary]:
    """Yield all streams of an app. A system that does not answer is not asked again, and does not hide the others."""
    away: dict[str, str] = {}
    with OpenStreams(local_app) as streams:
        for planned in local_app.plan.streams:
            system, kind = local_app.system(planned.name), local_app.kind(planned.name)
            content, unknown = None, away.get("" if system is None else system.name)
            if unknown is None and kind != "generator":
                try:
                    content = streams.stream(planned.name).content()
                except StreamMissingError:
                    pass  # as in the log: outputs are created by the first run
                except HoldfastError as error:
                    unknown = str(error)
                    if isinstance(error, AwayError) and system is not None:
                        away[system.name] = unknown
            count = None if planned.count is None else planned.count.actual
            partitions = count if content is None else content.partitions
            yield StreamSummary(planned.name, planned.role, kind, partitions, content, unknown)
