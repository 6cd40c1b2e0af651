"""Positions of an app in each partition it reads, compared with what its systems hold now.

Reads the run's offset log, the embedded log and the brokers into plain values. If one system does not answer, the
others are still shown. Must not change anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.errors import AwayError, HoldfastError
from holdfast.planning.plan import PlannedStream
from holdfast.spec.kept_streams import StreamNames
from holdfast.spec.streams import System
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.checkpoint.offset_log import OffsetLogState
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.run_files import jump_file_of, logged_of, records_of
from holdfast_runtime.loop.leader_epochs import due_checks
from holdfast_runtime.loop.lost_positions import PositionTrouble, find_lost
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.records import LogCut, OffsetBounds, StreamMissingError


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    """The app's position in one partition."""

    partition: StreamPartition
    position: int | None
    """The next record to read; None: the run has not seen the partition yet and will begin at its oldest record."""
    bounds: OffsetBounds | None
    """The offsets that exist now; None: not known."""
    last: int | None = None
    """The end offset for the app, if the stream is bounded."""
    recreated: bool = False
    cut: LogCut | None = None
    """What a broker says, if the partition has other records before the position than those that were read."""

    @property
    def end(self) -> int | None:
        """Return the end of what the app can read now; None: not known."""
        if self.bounds is None or self.last is None or self.recreated:
            return None if self.bounds is None else self.bounds.end
        return min(self.bounds.end, self.last)

    @property
    def trouble(self) -> PositionTrouble | None:
        """Return why the app can't continue reading; None: it can."""
        if self.recreated:
            return PositionTrouble.RECREATED
        if self.bounds is None or self.position is None:
            return None
        if self.cut is not None:
            return PositionTrouble.REPLACED
        lost = find_lost(self.partition, self.position, self.bounds, self.last)
        return None if lost is None else lost.trouble

    @property
    def lag(self) -> int | None:
        """Return how many existing records are unread; None: not known."""
        if self.bounds is None or self.end is None:
            return None
        begin = self.bounds.oldest
        if self.position is not None and self.trouble in (None, PositionTrouble.BEYOND_END):
            begin = max(begin, self.position)
        if self.cut is not None:
            begin = max(begin, self.cut.since)
        return max(0, self.end - begin)


@dataclass(frozen=True, slots=True)
class StreamPositions:
    """The app's positions in one stream."""

    name: str
    role: str
    kind: str
    """Kind of its system."""
    control: bool
    """Whether its records include control messages of another app."""
    stands: tuple[PartitionPosition, ...]
    id: str | None = None
    """Id of its topic, if the system has ids."""
    unknown: str | None = None
    """Why the system's offsets are not known."""
    grown: bool = False
    """Whether it has grown in this run, so that some partitions wait for others."""


@dataclass(frozen=True, slots=True)
class AppPositions:
    """All positions of one run of an app."""

    app: str
    run: str
    logged: OffsetLogState
    streams: tuple[StreamPositions, ...]


_READ = ("input", "sideInput", "intermediate")


def waiting_jump(local_app: LocalApp, standing: AppPositions) -> Mapping[StreamPartition, int] | None:
    """Return the positions that were set and that no run has gone to yet; None if there are none."""
    jump = jump_file_of(local_app).read()
    if jump is None or jump.id == standing.logged.done.jump:
        return None
    return jump.under(StreamNames.of(local_app.app.spec).called).to


def positions_of(local_app: LocalApp) -> AppPositions:
    """Return the app's positions."""
    logged = logged_of(local_app)
    names = StreamNames.of(local_app.app.spec)
    done = logged.done.under(names.called)
    look = _Look(local_app, done)
    record = records_of(local_app).load(local_app.app.spec.run_id)
    grown = set() if record is None else {child.stream for child in record.called(names).child_after}
    streams = [planned for planned in local_app.plan.streams if planned.role in _READ]
    return AppPositions(
        local_app.app.name,
        local_app.app.spec.run_id,
        logged,
        tuple(_stream(local_app, planned, done, look.at(planned), grown=planned.name in grown) for planned in streams),
    )


def _stream(
    local_app: LocalApp, planned: PlannedStream, done: Offsets, topic_state: "_Found", *, grown: bool
) -> StreamPositions:
    declared = local_app.declared(planned.name)
    stored_id = done.ids.get(planned.name)
    recreated = None not in (stored_id, topic_state.id) and stored_id != topic_state.id
    existing = {StreamPartition(planned.name, number) for number in topic_state.bounds}
    partitions = sorted(existing | {partition for partition in done.positions if partition.stream == planned.name})
    stands = [
        PartitionPosition(
            partition,
            done.positions.get(partition),
            topic_state.bounds.get(partition.partition),
            done.ends.get(partition),
            recreated,
            None if recreated else topic_state.cut.get(partition.partition),
        )
        for partition in partitions
    ]
    control = declared is not None and declared.control
    kind = local_app.kind(planned.name)
    return StreamPositions(
        planned.name, planned.role, kind, control, tuple(stands), topic_state.id, topic_state.unknown, grown
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """A system's answer about a stream."""

    bounds: Mapping[int, OffsetBounds] = field(default_factory=dict)
    id: str | None = None
    unknown: str | None = None
    cut: Mapping[int, LogCut] = field(default_factory=dict)


class _Look:
    """Asks the app's systems, stream by stream; a system that does not answer is not asked again."""

    def __init__(self, local_app: LocalApp, done: Offsets) -> None:
        self._local_app, self._done = local_app, done
        self._away: dict[str, str] = {}

    def at(self, planned: PlannedStream) -> _Found:
        """Return what the stream's system holds."""
        system = self._local_app.system(planned.name)
        name = "" if system is None else system.name
        if name in self._away:
            return _Found(unknown=self._away[name])
        try:
            if system is not None and system.generator is not None:
                return _Found()
            if system is not None and system.kafka is not None:
                return self._kafka(system, planned)
            return self._embedded(planned.topic)
        except AwayError as error:
            self._away[name] = str(error)
            return _Found(unknown=str(error))
        except HoldfastError as error:
            return _Found(unknown=str(error))

    def _kafka(self, system: System, planned: PlannedStream) -> _Found:
        # Imported here: an app without Kafka does not need its client.
        from holdfast_runtime.streams.kafka.admin.bounds import TopicBounds  # noqa: PLC0415
        from holdfast_runtime.streams.kafka.client.settings import kafka_settings  # noqa: PLC0415
        from holdfast_runtime.streams.kafka.read.position_check import PositionCheck  # noqa: PLC0415

        settings, topic = kafka_settings(system, DataDir(self._local_app.data).secrets), planned.topic
        topic_bounds = TopicBounds(settings)
        bounds, id_ = topic_bounds.bounds([topic])[topic], topic_bounds.topic_id(topic)
        if self._done.ids.get(planned.name) != id_:
            return _Found(bounds, id_)
        bounds_by_partition = {
            StreamPartition(planned.name, number): partition_bounds for number, partition_bounds in bounds.items()
        }
        due = due_checks(self._done, bounds_by_partition, {})
        cut = PositionCheck(settings).cut(
            {StreamPartition(topic, partition.partition): position for partition, position in due.items()}
        )
        return _Found(bounds, id_, cut={topic_partition.partition: log_cut for topic_partition, log_cut in cut.items()})

    def _embedded(self, topic: str) -> _Found:
        log = EmbeddedLog(Path(self._local_app.directory))
        if not log.has(topic):
            message = f"there is no stream {topic} in {self._local_app.directory}"
            raise StreamMissingError(message)
        return _Found({partition.partition: bounds for partition, bounds in log.bounds(topic).items()})
