"""Why: an app's streams by their names, whatever system holds them: the one place that knows which kinds there are.

Built from the spec alone, in the driver and in every worker. Must not decide what is read or written.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.planning.plan import Plan
from holdfast.spec.app import AppSpec
from holdfast.spec.streams import System
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.codecs import arrow_schema, codec_for
from holdfast_runtime.streams.functions import load_function
from holdfast_runtime.streams.generator import GeneratedStream, Generator
from holdfast_runtime.streams.log import EmbeddedLog
from holdfast_runtime.streams.pace import Pace
from holdfast_runtime.streams.records import Bounds, Marker, Range, ReadOnlyError


class SystemNotBuiltError(UserActionError):
    """A kind of system this release can plan for but not run."""


@dataclass(frozen=True, slots=True)
class Where:
    """What of a host the systems need."""

    log: Path | None
    """The directory of the embedded log; None: there is none, as hosts are many."""
    paces: Mapping[str, Pace]
    """Generator system -> how many rows it has made by when."""
    sync: bool = False
    """Whether an append to the log waits for the disk."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A stream and who holds it."""

    topic: str
    system: EmbeddedLog | Generator


class Streams:
    """All streams of an app."""

    def __init__(self, spec: AppSpec, plan: Plan, where: Where, clock: Callable[[], int]) -> None:
        systems = {
            system.name: _built(system, spec, plan, where, clock)
            for system in spec.systems
            if any(stream.system == system.name for stream in spec.streams)
        }
        declared = {stream.name: stream for stream in spec.streams}
        self._held = {
            stream.name: _Held(
                stream.topic,
                systems[declared[stream.name].system]
                if stream.name in declared
                else _embedded_log(where, f"stream {stream.name}, which the app makes for itself,"),
            )
            for stream in plan.streams
        }

    def bounds(self, stream: str) -> dict[StreamPartition, Bounds]:
        """What there is of each partition of a stream, now."""
        held = self._held[stream]
        found = held.system.bounds(held.topic)
        return {StreamPartition(stream, one.partition): bounds for one, bounds in found.items()}

    def fetch(self, wanted: Range) -> pa.RecordBatch:
        """Exactly the records of a range, as they are stored."""
        held = self._held[wanted.partition.stream]
        return held.system.fetch(_in(held, wanted))

    def rows(self, wanted: Range) -> pa.RecordBatch | None:
        """The rows of a range where a system has rows rather than records; None: fetch and decode them."""
        held = self._held[wanted.partition.stream]
        return held.system.rows(_in(held, wanted)) if isinstance(held.system, Generator) else None

    def append_all(self, partition: StreamPartition, writes: Sequence[tuple[pa.RecordBatch, Marker]]) -> list[bool]:
        """Write the records of several tasks; False where a task's batch is there already."""
        held = self._log(partition.stream)
        return held.system.append_all(StreamPartition(held.topic, partition.partition), writes)

    def ensure(self, stream: str, partitions: int, now: int) -> None:
        """Make a stream with so many partitions if it is not there, and grow one that has fewer; never shrink one."""
        held = self._held[stream]
        if not isinstance(held.system, EmbeddedLog):
            return
        if held.system.has(held.topic) and held.system.meta(held.topic).partitions < partitions:
            held.system.grow(held.topic, partitions)
        held.system.ensure(held.topic, partitions, now=now)

    def fence(self, streams: Sequence[str], owner: str, epoch: int) -> None:
        """From now on, refuse what earlier attempts want to write to these streams."""
        for stream in streams:
            held = self._log(stream)
            held.system.fence([held.topic], owner, epoch)

    def partitions(self, stream: str) -> int | None:
        """How many partitions a stream has in its system; None: it is not there yet."""
        held = self._held[stream]
        if isinstance(held.system, EmbeddedLog):
            return held.system.meta(held.topic).partitions if held.system.has(held.topic) else None
        return len(held.system.bounds(held.topic))

    def _log(self, stream: str) -> "_Written":
        held = self._held[stream]
        if not isinstance(held.system, EmbeddedLog):
            message = f"stream {stream} can't be written: its system makes rows up; move it to a log system"
            raise ReadOnlyError(message)
        return _Written(held.topic, held.system)


@dataclass(frozen=True, slots=True)
class _Written:
    """A stream that can be written."""

    topic: str
    system: EmbeddedLog


def _in(held: _Held, wanted: Range) -> Range:
    return wanted._replace(partition=StreamPartition(held.topic, wanted.partition.partition))


def _built(
    system: System, spec: AppSpec, plan: Plan, where: Where, clock: Callable[[], int]
) -> EmbeddedLog | Generator:
    match system.kind:
        case "log":
            return _embedded_log(where, f"system {system.name}")
        case "generator":
            return _generator(system, spec, plan, where, clock)
        case "kafka":
            message = (
                f"system {system.name} is a Kafka cluster: this release plans such apps but does not run them yet; "
                "use a system `log: {}` to try the app on this machine"
            )
            raise SystemNotBuiltError(message)
        case unknown:
            assert_never(unknown)  # type: ignore[arg-type] # the spec's rules know no other kind


def _embedded_log(where: Where, what: str) -> EmbeddedLog:
    if where.log is None:
        message = f"{what} would be kept in the embedded log, which one host alone has: on a cluster it needs Kafka"
        raise SystemNotBuiltError(message)
    return EmbeddedLog(where.log, sync=where.sync)


def _generator(system: System, spec: AppSpec, plan: Plan, where: Where, clock: Callable[[], int]) -> Generator:
    assert system.generator is not None  # noqa: S101 - its kind says so
    streams = []
    for stream in spec.streams:
        if stream.system == system.name:
            planned = plan.stream(stream.name)
            codec = codec_for(stream.format, arrow_schema(planned.rows))
            count = 1 if planned.count is None else planned.count.actual
            streams.append(GeneratedStream(planned.topic, count, stream.key, codec.encode))
    path = system.generator.function
    make = load_function(path, spec.runtime.code)
    return Generator(path, make, streams, pace=where.paces[system.name], clock=clock)
