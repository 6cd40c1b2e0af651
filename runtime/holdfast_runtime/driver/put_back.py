"""The records of dead letters, put back at the end of their streams once what made them fail is corrected.

The record is taken from its stream, where all of it is as it was: the letter may be cut, and that of a step has a row
and no record. It goes into its partition, where its key belongs. The app may run, as with any other producer. What to
put back is decided by a pure function; the effect is one append for each partition.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from holdfast.planning.plan import PlannedStream
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.inspection.dead_letters import DeadLetter
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.streams import StoredStream
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.log.put_back import put_back
from holdfast_runtime.streams.records import OffsetBounds

_READ = ("input", "sideInput")


class PutBackObstacle(Enum):
    """Why a letter is left out; the value says it to people."""

    NO_RECORD = "a step made the row, and the letter names no record that it was read from"
    NOT_AN_INPUT = "it is no stream that the app reads from outside"
    IN_KAFKA = "records are put back in the embedded log only: read them with a console consumer and produce them again"
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
    created: int = 0
    bounds: Mapping[int, OffsetBounds] = field(default_factory=dict)


_NOT_AN_INPUT = PutBackStream("", PutBackObstacle.NOT_AN_INPUT)


@dataclass(frozen=True, slots=True)
class PutBackPlan:
    """The records that are put back, and the letters that are left out."""

    records: Mapping[StreamPartition, Mapping[int, int]]
    """Partition -> offset -> for which time it is put back."""
    left_out: Mapping[tuple[PutBackObstacle, str], int]
    """Why, and of which stream, topic or step -> how many letters."""
    of_steps: int
    """Of how many records a step failed, so that other steps may have had them."""

    @property
    def count(self) -> int:
        """How many records are put back."""
        return sum(map(len, self.records.values()))


def decide_put_back(letters: Iterable[DeadLetter], streams: Mapping[str, PutBackStream], *, again: bool) -> PutBackPlan:
    """Return which records of these letters are put back; `again`: also those that were before."""
    records: dict[StreamPartition, dict[int, int]] = {}
    left_out: Counter[tuple[PutBackObstacle, str]] = Counter()
    of_steps = 0
    for letter in letters:
        obstacle = _obstacle(letter, streams, records, again=again)
        if obstacle is not None:
            left_out[obstacle, _source(letter, streams, obstacle)] += 1
        elif letter.origin.record is not None:
            partition, offset = letter.origin.record
            records.setdefault(partition, {})[offset] = letter.put_back + 1
            of_steps += letter.origin.step is not None
    return PutBackPlan(records, left_out, of_steps)


def _obstacle(
    letter: DeadLetter,
    streams: Mapping[str, PutBackStream],
    chosen: Mapping[StreamPartition, Mapping[int, int]],
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
    if letter.written < stream.created:
        return PutBackObstacle.CREATED_AGAIN
    bounds = stream.bounds.get(partition.partition)
    if bounds is None or not bounds.oldest <= offset < bounds.end:
        return PutBackObstacle.GONE
    if letter.put_back and not again:
        return PutBackObstacle.DONE
    return PutBackObstacle.SAME_RECORD if offset in chosen.get(partition, {}) else None


def _source(letter: DeadLetter, streams: Mapping[str, PutBackStream], obstacle: PutBackObstacle) -> str:
    origin = letter.origin
    if obstacle is PutBackObstacle.NO_RECORD or origin.stream is None:
        return f"step {origin.step}" if origin.step else str(letter.partition)
    if obstacle is PutBackObstacle.IN_KAFKA:
        return f"topic {streams[origin.stream].topic}"
    return f"stream {origin.stream}"


def put_back_streams(local_app: LocalApp) -> dict[str, PutBackStream]:
    """Return the streams that the app reads from outside."""
    return {
        stream.name: _put_back_stream(local_app, stream) for stream in local_app.plan.streams if stream.role in _READ
    }


def _put_back_stream(local_app: LocalApp, planned: PlannedStream) -> PutBackStream:
    declared, kind = local_app.declared(planned.name), local_app.kind(planned.name)
    if kind == "kafka":
        return PutBackStream(planned.topic, PutBackObstacle.IN_KAFKA)
    if kind != "log":
        return PutBackStream(planned.topic, PutBackObstacle.GENERATED)
    if declared is not None and declared.bounded:
        return PutBackStream(planned.topic, PutBackObstacle.BOUNDED)
    stored = StoredStream.of(local_app, planned.name)
    bounds = {partition.partition: partition_bounds for partition, partition_bounds in stored.bounds().items()}
    return PutBackStream(planned.topic, None, stored.log.meta(planned.topic).created if bounds else 0, bounds)


def put_back_records(local_app: LocalApp, plan: PutBackPlan) -> int:
    """Write the records of a plan again; return how many, without those that another process has put back since."""
    log, written = EmbeddedLog(local_app.directory), 0
    for (stream, number), times in sorted(plan.records.items()):
        written += put_back(log, StreamPartition(local_app.plan.stream(stream).topic, number), times)
    return written
