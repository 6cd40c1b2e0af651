"""Why: how far event time has come in a task, what it still has to tell the streams it writes, and when to look again.

Joins the core's bookkeeping of control messages to what a batch brought, as one step from batch to batch, stored with
the task's state:

    moved      before the steps run: the watermarks they see
    outgoing   behind them, when it is known which timers have not fired: what is said to others, what is stored

Must not read clocks, streams or stores: what is known comes in, what to store comes out.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.control.bookkeeping import Bookkeeping, ControlInputs
from holdfast.control.held_back import held_back_by
from holdfast.control.messages import EndOfStreamMessage, Position, WatermarkMessage, encode
from holdfast.control.producers import Delivery, Producers
from holdfast.control.relay import Relay, aggregating_partition, relays
from holdfast.control.sending import ControlSender, Emission, SenderProgress
from holdfast.control.upstream import Upstream, input_watermark
from holdfast.moments import event_moment
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.state.errors import parsing_state

MARKS = ".marks"
"""The state table of what steps have seen of event time, and of what was told to streams."""
_EARLIEST = -(2**63) + 1


@dataclass(frozen=True, slots=True)
class ClockSource:
    """A stream a task reads, as far as event time is concerned."""

    lateness: int | None = None
    """How far behind its newest record one may be; None: its records say nothing of event time."""
    idle_after: int | None = None
    producers: Producers | None = None
    """Who writes control messages into it; None: nobody does."""
    max_ahead: int | None = None
    """How far ahead of the batch clock event time may be to be believed; None: as far as it likes."""


@dataclass(frozen=True, slots=True)
class ClockTarget:
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
    sources: Mapping[str, ClockSource]
    steps: Mapping[str, frozenset[str]]
    """Step that asks for the watermark -> the streams whose rows reach it."""
    told: Mapping[str, ClockTarget]
    behind: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Step, or stream that is told -> the steps with timers whose rows reach it in this task."""
    max_ahead: int | None = None
    """The largest of all sources of the app."""

    @property
    def inputs(self) -> ControlInputs:
        """The same for the bookkeeping."""
        producers = {name: source.producers for name, source in self.sources.items() if source.producers is not None}
        return ControlInputs(self.partitions, producers)


@dataclass(frozen=True, slots=True)
class ClockInput:
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

    def horizon(self, max_ahead: int | None) -> int | None:
        """The latest event time to be believed."""
        return None if max_ahead is None else self.now + max_ahead


@dataclass(frozen=True, slots=True)
class StoredClock:
    """What the task's state says."""

    control: Mapping[bytes, bytes] = field(default_factory=dict)
    marks: Mapping[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PendingMessages:
    """What is to be said behind the rows of a batch, before it is known which timers have not fired."""

    turn: int
    horizon: int | None
    views: Mapping[str, SenderProgress]
    """Stream -> how far the task has come for it."""
    watermarks: Mapping[str, int | None]
    """By step."""
    sources: int | None
    """The lowest watermark of what is read: that of a task without steps or streams that ask."""
    held_back: str | None
    all_ended: bool
    relayed: Mapping[str, ControlSender] = field(default_factory=dict)
    relays: Sequence[tuple[str, tuple[int, ...], bytes]] = ()
    """What the task says for others."""


@dataclass(frozen=True, slots=True)
class ClockAdvance:
    """Where the task stands with the rows of the batch."""

    watermarks: Mapping[str, int | None]
    """By step."""
    before: Mapping[str, int | None]
    ended: Mapping[str, bool]
    """Whether nothing more comes to a step."""
    horizon: int | None
    """The latest event time that is believed."""
    disbelieved: Sequence[str]
    """Control messages that said more, in a sentence each."""
    control: Mapping[bytes, bytes | None]
    wake: int | None
    telling: PendingMessages


@dataclass(frozen=True, slots=True)
class ClockResult:
    """Where the task stands behind the batch."""

    says: Sequence[tuple[str, tuple[int, ...], bytes]]
    """Control messages: stream, partitions, message."""
    marks: Mapping[bytes, bytes | None]
    watermark: int | None
    held_back: str | None
    all_ended: bool


def advance_clock(plan: ClockPlan, stored: StoredClock, brought: ClockInput) -> ClockAdvance:
    """One batch of a task's event time, up to the steps."""
    now, horizon = brought.now, brought.horizon(plan.max_ahead)
    heard, disbelieved = _believed(plan, brought)
    book = _known(plan, stored, brought).batch([*heard, *_own(plan, brought)], now)
    ends = {partition: end.ended for partition, end in book.ends.partitions.items()}
    with parsing_state(f"the watermarks of task {plan.task}"):
        before = read_marks(stored.marks).believed(horizon)
    watermarks: dict[str, int | None] = {}
    ended: dict[str, bool] = {}
    for step, streams in plan.steps.items():
        reached = list(_upstream(plan, book, ends, streams, now))
        watermarks[step] = input_watermark(reached, before.watermarks.get(step))
        ended[step] = bool(reached) and all(one.ended for one in reached)
    views: dict[str, SenderProgress] = {}
    relayed: dict[str, ControlSender] = {}
    relays_say: list[tuple[str, tuple[int, ...], bytes]] = []
    for stream, told in plan.told.items():
        reached = list(_upstream(plan, book, ends, told.sources, now))
        mark = input_watermark(reached, before.watermarks.get(f">{stream}"))
        views[stream] = SenderProgress(
            mark, bool(reached) and all(one.ended for one in reached), alive=brought.rows > 0
        )
        if (relay := relay_of(plan, before, stream, told)) is not None:
            again, emissions = relay.follow(book, told.partitions, brought.turn)
            relayed[f"relay {stream}"] = again.sender
            relays_say += written_messages(stream, emissions)
    held = held_back_by(book.watermarks, now, _timed(plan))
    return ClockAdvance(
        watermarks=watermarks,
        before={step: before.watermarks.get(step) for step in plan.steps},
        ended=ended,
        horizon=horizon,
        disbelieved=disbelieved,
        control=_changed(stored.control, book),
        wake=_wake(plan, book, ends, now),
        telling=PendingMessages(
            turn=brought.turn,
            horizon=horizon,
            views=views,
            watermarks=watermarks,
            sources=lowest_mark(_source_marks(plan, book)),
            held_back=None if held is None else held.sentence(now),
            all_ended=book.ends.all_ended,
            relayed=relayed,
            relays=relays_say,
        ),
    )


def outgoing_messages(
    plan: ClockPlan, stored: Mapping[bytes, bytes], telling: PendingMessages, unfired: Mapping[str, int]
) -> ClockResult:
    """What follows the rows of a batch. `stored`: the marks before it; `unfired`: see `held`."""
    before = read_marks(stored).believed(telling.horizon)
    watermarks = {
        step: held(plan, step, mark, before.watermarks.get(step), unfired) for step, mark in telling.watermarks.items()
    }
    says: list[tuple[str, tuple[int, ...], bytes]] = []
    senders = dict(telling.relayed)
    for stream, view in telling.views.items():
        told = plan.told[stream]
        mark = held(plan, stream, view.watermark, before.watermarks.get(f">{stream}"), unfired)
        watermarks[f">{stream}"] = mark
        ended = view.ended and not waits(plan, stream, unfired)
        sender = before.senders.get(stream) or ControlSender(stream, plan.task, len(told.producers))
        sender = replace(sender, task_count=len(told.producers))
        reached_there = replace(view, watermark=mark, ended=ended)
        senders[stream], emissions = sender.follow(reached_there, _listeners(stream, told), telling.turn)
        says += written_messages(stream, emissions)
    marks = list(watermarks.values())
    return ClockResult(
        says=[*says, *telling.relays],
        marks=_marks_changed(before, ClockMarks(watermarks, senders), stored),
        watermark=lowest_mark(marks) if marks else telling.sources,
        held_back=_unfired_said(unfired) or telling.held_back,
        all_ended=telling.all_ended and not unfired,
    )


def waits(plan: ClockPlan, reader: str, unfired: Mapping[str, int]) -> bool:
    """Whether timers whose rows reach a step or stream are still to fire."""
    return not plan.behind.get(reader, frozenset()).isdisjoint(unfired)


def held(plan: ClockPlan, reader: str, mark: int | None, before: int | None, unfired: Mapping[str, int]) -> int | None:
    """The watermark for a step or a stream, where timers of steps in front of it are due that have not fired.

    `unfired`: step -> the time of its first such timer. What it writes will be of that time, and would be late if event
    time had passed it.
    """
    times = [time for step, time in unfired.items() if step in plan.behind.get(reader, frozenset())]
    if mark is None or not times:
        return mark
    reached = min(mark, *times)
    return reached if before is None else max(reached, before)


def _unfired_said(unfired: Mapping[str, int]) -> str | None:
    if not unfired:
        return None
    step = min(unfired, key=lambda one: unfired[one])
    return (
        f"step {step}: more timers are due than fire in one batch, those from {event_moment(unfired[step])} on fire in "
        "the next ones"
    )


def _believed(plan: ClockPlan, brought: ClockInput) -> tuple[list[Delivery], list[str]]:
    """The control messages that can be true, and what is to be said of others."""
    heard, said = list[Delivery](), list[str]()
    for one in brought.deliveries:
        horizon = brought.horizon(plan.sources[one.partition.stream].max_ahead)
        if horizon is None or not isinstance(one.message, WatermarkMessage) or one.message.timestamp <= horizon:
            heard.append(one)
        else:
            whose = one.message.task or "its source or relay"
            said.append(f"{one.partition}: a watermark of {event_moment(one.message.timestamp)} from {whose}")
    return heard, said


def _known(plan: ClockPlan, stored: StoredClock, brought: ClockInput) -> Bookkeeping:
    if not stored.control:
        return Bookkeeping.started(plan.inputs, brought.now)
    limits = {
        name: limit for name, one in plan.sources.items() if (limit := brought.horizon(one.max_ahead)) is not None
    }
    with parsing_state(f"the bookkeeping of control messages of task {plan.task}"):
        known = Bookkeeping.restored(stored.control, plan.inputs, brought.now).believed(limits, brought.now)
    return known.resumed(brought.now) if brought.first else known


def _changed(stored: Mapping[bytes, bytes], book: Bookkeeping) -> dict[bytes, bytes | None]:
    """What to write, held against what is stored and not against what was known.

    A partition that is new in this attempt is known before it is stored, and would be new again in the next batch, with
    what its stream has reached by then.
    """
    wanted = book.entries()
    gone = dict.fromkeys(stored.keys() - wanted.keys())
    return {**gone, **{key: value for key, value in wanted.items() if stored.get(key) != value}}


def _own(plan: ClockPlan, brought: ClockInput) -> Iterable[Delivery]:
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


def _listeners(stream: str, told: ClockTarget) -> Iterable[int]:
    if relays(len(told.producers), told.partitions):
        return [aggregating_partition(stream, told.partitions).partition]
    return range(told.partitions)


def relay_of(plan: ClockPlan, before: "ClockMarks", stream: str, told: ClockTarget) -> Relay | None:
    """The relay of a stream's messages, where this task is the one that sums its producers up."""
    if not relays(len(told.producers), told.partitions):
        return None
    partition = aggregating_partition(stream, told.partitions)
    if partition not in plan.partitions:
        return None
    relay = Relay.at(partition)
    sender = before.senders.get(f"relay {stream}")
    return relay if sender is None else replace(relay, sender=sender)


def written_messages(stream: str, emissions: Iterable[Emission]) -> Iterable[tuple[str, tuple[int, ...], bytes]]:
    """Messages as they are written: stream, partitions, bytes."""
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


def lowest_mark(marks: Sequence[int | None]) -> int | None:
    """The lowest of some marks; None while one of them is unknown."""
    known = [mark for mark in marks if mark is not None]
    return min(known) if known and len(known) == len(marks) else None


@dataclass(frozen=True, slots=True)
class ClockMarks:
    """What a task knows of times: its steps' watermarks, and what it told each stream."""

    watermarks: Mapping[str, int | None]
    senders: Mapping[str, ControlSender]

    def believed(self, horizon: int | None) -> "ClockMarks":
        """The same without event times that can't be true: a task that was led to tell one tells anew."""
        if horizon is None:
            return self

        def true(mark: int | None) -> bool:
            return mark is None or mark <= horizon

        return ClockMarks(
            {name: mark if true(mark) else None for name, mark in self.watermarks.items()},
            {
                name: one if true(one.watermark) else replace(one, watermark=None, told=frozenset())
                for name, one in self.senders.items()
            },
        )


_KEY = b"marks"


def read_marks(stored: Mapping[bytes, bytes]) -> ClockMarks:
    """The marks that the last batch stored."""
    if _KEY not in stored:
        return ClockMarks({}, {})
    tree = json.loads(stored[_KEY])
    senders = {
        name: ControlSender(one[0], one[1], one[2], one[3], one[4], frozenset(one[5]))
        for name, one in tree["senders"].items()
    }
    return ClockMarks(tree["watermarks"], senders)


def _marks_changed(before: ClockMarks, after: ClockMarks, stored: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
    senders = {
        name: [one.stream, one.task, one.task_count, one.watermark, one.ended, sorted(one.told)]
        for name, one in {**before.senders, **after.senders}.items()
    }
    text = json.dumps({"watermarks": {**before.watermarks, **after.watermarks}, "senders": senders}).encode()
    return {} if stored.get(_KEY) == text else {_KEY: text}
