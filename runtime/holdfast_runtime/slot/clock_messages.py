"""The control messages that a task writes behind the rows of a batch, and the stored marks of what it has sent.

They are made when it is known which timers have not fired: rows that those timers will write must not be late, so they
hold watermarks back. Pure: must not read clocks, streams or stores; what to store is returned.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.control.messages import encode
from holdfast.control.relay import Relay, aggregating_partition, relays
from holdfast.control.sending import ControlSender, Emission, SenderProgress
from holdfast.moments import event_moment
from holdfast_runtime.slot.clock_plan import ClockPlan, ClockTarget

MARKS = ".marks"
"""The state table with the watermarks of steps, and with what was sent to streams."""


@dataclass(frozen=True, slots=True)
class PendingMessages:
    """What is to be sent behind the rows of a batch, before it is known which timers have not fired."""

    turn: int
    horizon: int | None
    views: Mapping[str, SenderProgress]
    """Stream -> the task's progress for it."""
    watermarks: Mapping[str, int | None]
    """Step -> its watermark."""
    sources: int | None
    """The lowest watermark of the inputs: the task's own if no step or stream asks for one."""
    held_back: str | None
    all_ended: bool
    relayed: Mapping[str, ControlSender] = field(default_factory=dict)
    relays: Sequence[tuple[str, tuple[int, ...], bytes]] = ()
    """Messages that the task sends on behalf of other producers: stream, partitions, message."""


@dataclass(frozen=True, slots=True)
class ClockResult:
    """The task's event time after the batch, with messages to send and marks to store."""

    says: Sequence[tuple[str, tuple[int, ...], bytes]]
    """Control messages: stream, partitions, message."""
    marks: Mapping[bytes, bytes | None]
    watermark: int | None
    held_back: str | None
    all_ended: bool


def outgoing_messages(
    plan: ClockPlan, stored: Mapping[bytes, bytes], telling: PendingMessages, unfired: Mapping[str, int]
) -> ClockResult:
    """Return what follows the rows of a batch. `stored`: the marks before it; `unfired`: see `held`."""
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
    """Return whether due timers that have not fired will write rows that reach this step or stream."""
    return not plan.behind.get(reader, frozenset()).isdisjoint(unfired)


def held(plan: ClockPlan, reader: str, mark: int | None, before: int | None, unfired: Mapping[str, int]) -> int | None:
    """Return the watermark of a step or stream, held back by due timers of earlier steps that have not fired.

    `unfired`: step -> the time of its first such timer. Its rows will have that time, and would be late behind a higher
    watermark.
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


def _listeners(stream: str, told: ClockTarget) -> Iterable[int]:
    if relays(len(told.producers), told.partitions):
        return [aggregating_partition(stream, told.partitions).partition]
    return range(told.partitions)


def relay_of(plan: ClockPlan, before: "ClockMarks", stream: str, told: ClockTarget) -> Relay | None:
    """Return the relay of a stream's messages; None unless this task is the one that combines all producers."""
    if not relays(len(told.producers), told.partitions):
        return None
    partition = aggregating_partition(stream, told.partitions)
    if partition not in plan.partitions:
        return None
    relay = Relay.at(partition)
    sender = before.senders.get(f"relay {stream}")
    return relay if sender is None else replace(relay, sender=sender)


def written_messages(stream: str, emissions: Iterable[Emission]) -> Iterable[tuple[str, tuple[int, ...], bytes]]:
    """Return messages in their written form: stream, partitions, bytes."""
    return [(stream, tuple(one.partitions), encode(one.message)) for one in emissions]


def lowest_mark(marks: Sequence[int | None]) -> int | None:
    """Return the lowest mark; None while one of them is unknown."""
    known = [mark for mark in marks if mark is not None]
    return min(known) if known and len(known) == len(marks) else None


@dataclass(frozen=True, slots=True)
class ClockMarks:
    """The watermarks of a task's steps, and what it sent to each stream."""

    watermarks: Mapping[str, int | None]
    senders: Mapping[str, ControlSender]

    def believed(self, horizon: int | None) -> "ClockMarks":
        """Return the marks without event times past the horizon; what was sent with such a time is sent again."""
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
    """Return the marks that the last batch stored."""
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
