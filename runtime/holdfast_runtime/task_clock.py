"""Why: how far event time has come in a task, what it still has to tell the streams it writes, and when to look again.

Joins the core's bookkeeping of control messages to what a batch brought, as one step from batch to batch, stored with
the task's state. Must not read clocks, streams or stores: what is known comes in, what to store comes out.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.control.bookkeeping import Bookkeeping, Inputs
from holdfast.control.held_back import held_back_by
from holdfast.control.messages import EndOfStreamMessage, Position, WatermarkMessage, encode
from holdfast.control.producers import Delivery, Producers
from holdfast.control.relay import Relay, aggregating_partition, relays
from holdfast.control.sending import Emission, Sender, View
from holdfast.control.upstream import Upstream, input_watermark
from holdfast.tasks.partitions import StreamPartition

MARKS = ".marks"
"""The state table of what steps have seen of event time, and of what was told to streams."""
_EARLIEST = -(2**63) + 1


@dataclass(frozen=True, slots=True)
class Source:
    """A stream a task reads, as far as event time is concerned."""

    lateness: int | None = None
    """How far behind its newest record one may be; None: its records say nothing of event time."""
    idle_after: int | None = None
    producers: Producers | None = None
    """Who writes control messages into it; None: nobody does."""


@dataclass(frozen=True, slots=True)
class Told:
    """A stream that is told how far the task has come."""

    partitions: int
    sources: frozenset[str]
    """The streams whose rows go there."""
    producers: tuple[str, ...]
    """The tasks that write it."""


@dataclass(frozen=True, slots=True)
class ClockPlan:
    """What is the same in every batch of a task."""

    task: str
    partitions: tuple[StreamPartition, ...]
    sources: Mapping[str, Source]
    steps: Mapping[str, frozenset[str]]
    """Step that asks for the watermark -> the streams whose rows reach it."""
    told: Mapping[str, Told]

    @property
    def inputs(self) -> Inputs:
        """The same for the bookkeeping."""
        producers = {name: source.producers for name, source in self.sources.items() if source.producers is not None}
        return Inputs(self.partitions, producers)


@dataclass(frozen=True, slots=True)
class Brought:
    """What a batch brought to a task."""

    turn: int
    now: int
    first: bool
    """The attempt's first batch: nobody listened before it."""
    deliveries: Sequence[Delivery]
    latest: Mapping[StreamPartition, int]
    """The latest event time in each partition of a source that brought any."""
    ended: Sequence[StreamPartition]
    rows: int


@dataclass(frozen=True, slots=True)
class Stored:
    """What the task's state says."""

    control: Mapping[bytes, bytes] = field(default_factory=dict)
    marks: Mapping[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Moved:
    """Where the task stands after the batch."""

    watermarks: Mapping[str, int | None]
    """By step."""
    before: Mapping[str, int | None]
    ended: Mapping[str, bool]
    """Whether nothing more comes to a step."""
    says: Sequence[tuple[str, tuple[int, ...], bytes]]
    """Control messages: stream, partitions, message."""
    control: Mapping[bytes, bytes | None]
    marks: Mapping[bytes, bytes | None]
    wake: int | None
    watermark: int | None
    held_back: str | None
    all_ended: bool


def moved(plan: ClockPlan, stored: Stored, brought: Brought) -> Moved:
    """One batch of a task's event time."""
    now = brought.now
    known = _known(plan, stored, brought)
    book = known.batch([*brought.deliveries, *_own(plan, brought)], now)
    ends = {partition: end.ended for partition, end in book.ends.partitions.items()}
    before = _read_marks(stored.marks)
    watermarks: dict[str, int | None] = {}
    ended: dict[str, bool] = {}
    for step, streams in plan.steps.items():
        reached = list(_upstream(plan, book, ends, streams, now))
        watermarks[step] = input_watermark(reached, before.watermarks.get(step))
        ended[step] = bool(reached) and all(one.ended for one in reached)
    says: list[tuple[str, tuple[int, ...], bytes]] = []
    senders: dict[str, Sender] = {}
    for stream, told in plan.told.items():
        reached = list(_upstream(plan, book, ends, told.sources, now))
        mark = input_watermark(reached, before.watermarks.get(f">{stream}"))
        watermarks[f">{stream}"] = mark
        view = View(mark, bool(reached) and all(one.ended for one in reached), alive=brought.rows > 0)
        sender = before.senders.get(stream) or Sender(stream, plan.task, len(told.producers))
        sender = replace(sender, task_count=len(told.producers))
        senders[stream], emissions = sender.follow(view, _listeners(stream, told), brought.turn)
        says += _written(stream, emissions)
        if (relay := _relay(plan, before, stream, told)) is not None:
            again, emissions = relay.follow(book, told.partitions, brought.turn)
            senders[f"relay {stream}"] = again.sender
            says += _written(stream, emissions)
    held = held_back_by(book.watermarks, now, _timed(plan))
    after = _Marks(watermarks, senders)
    marks = [watermarks[step] for step in plan.steps] + [watermarks[f">{stream}"] for stream in plan.told]
    return Moved(
        watermarks={step: watermarks[step] for step in plan.steps},
        before={step: before.watermarks.get(step) for step in plan.steps},
        ended=ended,
        says=says,
        control=_changed(stored.control, book),
        marks=_marks_changed(before, after, stored.marks),
        wake=_wake(plan, book, ends, now),
        watermark=_lowest(marks) if marks else _lowest(_source_marks(plan, book)),
        held_back=None if held is None else held.sentence(now),
        all_ended=book.ends.all_ended,
    )


def _known(plan: ClockPlan, stored: Stored, brought: Brought) -> Bookkeeping:
    if not stored.control:
        return Bookkeeping.started(plan.inputs, brought.now)
    known = Bookkeeping.restored(stored.control, plan.inputs, brought.now)
    return known.resumed(brought.now) if brought.first else known


def _changed(stored: Mapping[bytes, bytes], book: Bookkeeping) -> dict[bytes, bytes | None]:
    """What to write, held against what is stored and not against what was known.

    A partition that is new in this attempt is known before it is stored, and would be new again in the next batch, with
    what its stream has reached by then.
    """
    wanted = book.entries()
    gone = dict.fromkeys(stored.keys() - wanted.keys())
    return {**gone, **{key: value for key, value in wanted.items() if stored.get(key) != value}}


def _own(plan: ClockPlan, brought: Brought) -> Iterable[Delivery]:
    """What the records of sources say themselves."""
    for partition, latest in brought.latest.items():
        lateness = plan.sources[partition.stream].lateness
        if lateness is not None:
            time = max(latest - lateness, _EARLIEST)
            yield Delivery(partition, WatermarkMessage(time, Position(brought.turn, 0)))
    for partition in brought.ended:
        yield Delivery(partition, EndOfStreamMessage(partition.stream, Position(brought.turn, 1)))


def _upstream(
    plan: ClockPlan, book: Bookkeeping, ends: Mapping[StreamPartition, bool], streams: frozenset[str], now: int
) -> Iterable[Upstream]:
    for partition, known in book.watermarks.partitions.items():
        source = plan.sources[partition.stream]
        if partition.stream not in streams:
            continue
        if source.lateness is None and source.producers is None:
            # Nothing there speaks of event time: it holds nothing back, and ends like others.
            yield Upstream(None, ends[partition], idle=True)
            continue
        idle = source.producers is None and source.idle_after is not None and now - known.heard_at >= source.idle_after
        yield Upstream(known.value, ends[partition], idle)


def _listeners(stream: str, told: Told) -> Iterable[int]:
    if relays(len(told.producers), told.partitions):
        return [aggregating_partition(stream, told.partitions).partition]
    return range(told.partitions)


def _relay(plan: ClockPlan, before: "_Marks", stream: str, told: Told) -> Relay | None:
    if not relays(len(told.producers), told.partitions):
        return None
    partition = aggregating_partition(stream, told.partitions)
    if partition not in plan.partitions:
        return None
    relay = Relay.at(partition)
    sender = before.senders.get(f"relay {stream}")
    return relay if sender is None else replace(relay, sender=sender)


def _written(stream: str, emissions: Iterable[Emission]) -> Iterable[tuple[str, tuple[int, ...], bytes]]:
    return [(stream, tuple(one.partitions), encode(one.message)) for one in emissions]


def _wake(plan: ClockPlan, book: Bookkeeping, ends: Mapping[StreamPartition, bool], now: int) -> int | None:
    """When silence of a source or a producer would change anything."""
    times = []
    for partition, known in book.watermarks.partitions.items():
        source = plan.sources[partition.stream]
        if ends[partition]:
            continue
        if source.producers is not None and (after := source.producers.idle_after) is not None:
            times += [heard.at + after for heard in known.producers.values()] + [known.since + after]
        elif source.producers is None and source.lateness is not None and source.idle_after is not None:
            times.append(known.heard_at + source.idle_after)
    return min((time for time in times if time > now), default=None)


def _timed(plan: ClockPlan) -> list[str]:
    return [name for name, one in plan.sources.items() if one.lateness is not None or one.producers is not None]


def _source_marks(plan: ClockPlan, book: Bookkeeping) -> list[int | None]:
    timed = _timed(plan)
    return [value for stream, value in book.watermarks.streams().items() if stream in timed]


def _lowest(marks: Sequence[int | None]) -> int | None:
    known = [mark for mark in marks if mark is not None]
    return min(known) if known and len(known) == len(marks) else None


@dataclass(frozen=True, slots=True)
class _Marks:
    watermarks: Mapping[str, int | None]
    senders: Mapping[str, Sender]


_KEY = b"marks"


def _read_marks(stored: Mapping[bytes, bytes]) -> _Marks:
    if _KEY not in stored:
        return _Marks({}, {})
    tree = json.loads(stored[_KEY])
    senders = {
        name: Sender(one[0], one[1], one[2], one[3], one[4], frozenset(one[5])) for name, one in tree["senders"].items()
    }
    return _Marks(tree["watermarks"], senders)


def _marks_changed(before: _Marks, after: _Marks, stored: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
    senders = {
        name: [one.stream, one.task, one.task_count, one.watermark, one.ended, sorted(one.told)]
        for name, one in {**before.senders, **after.senders}.items()
    }
    text = json.dumps({"watermarks": {**before.watermarks, **after.watermarks}, "senders": senders}).encode()
    return {} if stored.get(_KEY) == text else {_KEY: text}
