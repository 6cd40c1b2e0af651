"""The messages behind the rows of a batch: what a task says to others of event time.

They are made when it is known which timers have not fired: rows that those timers will write must not be late, so they
hold watermarks back. Pure: must not read clocks, streams or stores; what to store is returned.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.control.messages import encode
from holdfast.control.runs import WriterRun, tasks_named
from holdfast.control.sending import ControlSender, Emission, Relay, SenderProgress, aggregating_partition
from holdfast.times import event_moment
from holdfast_runtime.slot.clock.clock_marks import ClockMarks, marks_changed, read_marks
from holdfast_runtime.slot.program import ClockPlan, ClockTarget


@dataclass(frozen=True, slots=True)
class PendingMessages:
    """What is to be sent behind the rows of a batch, before it is known which timers have not fired."""

    turn: int
    run: WriterRun | None
    """The run and attempt that messages name."""
    horizon: int | None
    views: Mapping[str, SenderProgress]
    """Stream -> the task's progress for it."""
    watermarks: Mapping[str, int | None]
    """Step -> its watermark."""
    sources: int | None
    """The lowest watermark of the inputs: the task's own if no step or stream asks for one."""
    held_back: str | None
    held_by: str | None
    """The other app that is waited for, if it is one."""
    all_ended: bool
    relayed: Mapping[str, ControlSender] = field(default_factory=dict)
    relays: Sequence[tuple[str, tuple[int, ...], bytes]] = ()
    """Messages that the task sends on behalf of other producers: stream, partitions, message."""


@dataclass(frozen=True, slots=True)
class ClockResult:
    """The task's event time after the batch, with messages to send and marks to store."""

    control_messages: Sequence[tuple[str, tuple[int, ...], bytes]]
    """Control messages: stream, partitions, message."""
    marks: Mapping[bytes, bytes | None]
    watermark: int | None
    held_back: str | None
    held_by: str | None
    """The other app that is waited for, if it is one."""
    all_ended: bool


def outgoing_messages(
    plan: ClockPlan, stored: Mapping[bytes, bytes], pending: PendingMessages, unfired: Mapping[str, int]
) -> ClockResult:
    """Return what follows the rows of a batch. `stored`: the marks before it; `unfired`: see `held`."""
    before = read_marks(stored).believed(pending.horizon)
    watermarks = {
        step: held(plan, step, mark, before.watermarks.get(step), unfired) for step, mark in pending.watermarks.items()
    }
    messages: list[tuple[str, tuple[int, ...], bytes]] = []
    senders = dict(pending.relayed)
    for stream, view in pending.views.items():
        target = plan.told[stream]
        mark = held(plan, stream, view.watermark, before.watermarks.get(f">{stream}"), unfired)
        watermarks[f">{stream}"] = mark
        rows_follow = waits(plan, stream, unfired)
        sender = before.senders.get(stream) or ControlSender(stream, plan.task, None)
        sender = sender.among(tasks_named(target.producers), pending.run)
        ended, idle = view.ended and not rows_follow, view.idle and not rows_follow
        progress = replace(view, watermark=mark, ended=ended, idle=idle)
        senders[stream], emissions = sender.follow(progress, _listeners(stream, target), pending.turn)
        messages += written_messages(stream, emissions)
    marks = list(watermarks.values())
    return ClockResult(
        control_messages=[*messages, *pending.relays],
        marks=marks_changed(before, ClockMarks(watermarks, senders), stored),
        watermark=lowest_mark(marks) if marks else pending.sources,
        held_back=_unfired_said(unfired) or pending.held_back,
        held_by=None if unfired else pending.held_by,
        all_ended=pending.all_ended and not unfired,
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
    step = min(unfired, key=lambda name: unfired[name])
    return (
        f"step {step}: more timers, windows or rows are due than one batch takes, those from "
        f"{event_moment(unfired[step])} on follow in the next ones"
    )


def _listeners(stream: str, target: ClockTarget) -> Iterable[int]:
    if target.relayed:
        return [aggregating_partition(stream, target.partitions).partition]
    return range(target.partitions)


def relay_of(
    plan: ClockPlan, before: ClockMarks, stream: str, target: ClockTarget, run: WriterRun | None
) -> Relay | None:
    """Return the relay of a stream's messages; None unless this task is the one that combines all producers."""
    if not target.relayed:
        return None
    partition = aggregating_partition(stream, target.partitions)
    if partition not in plan.partitions:
        return None
    relay = Relay.at(partition, run)
    sender = before.senders.get(f"relay {stream}")
    return relay if sender is None else replace(relay, sender=replace(sender, run=run))


def written_messages(stream: str, emissions: Iterable[Emission]) -> Iterable[tuple[str, tuple[int, ...], bytes]]:
    """Return messages in their written form: stream, partitions, bytes."""
    return [(stream, tuple(emission.partitions), encode(emission.message)) for emission in emissions]


def lowest_mark(marks: Sequence[int | None]) -> int | None:
    """Return the lowest mark; None while one of them is unknown."""
    known_marks = [mark for mark in marks if mark is not None]
    return min(known_marks) if known_marks and len(known_marks) == len(marks) else None
