"""The clock of a task: its event time after the records of a batch, and when to wake it.

    records -> `advance_clock`: watermarks of steps -> the steps run -> `clock_messages`: what follows their rows

Applies the core's bookkeeping of control messages to one batch. Pure: must not read clocks, streams or stores; what to
store is returned.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.control.bookkeeping import Bookkeeping
from holdfast.control.messages import (
    EARLIEST,
    ControlMessage,
    EndOfStreamMessage,
    MessageNumber,
    WatermarkMessage,
)
from holdfast.control.producers import Delivery
from holdfast.control.runs import WriterRun
from holdfast.control.sending import ControlSender, SenderProgress
from holdfast.control.watermark import Upstream, Watermarks, held_back_by, input_watermark
from holdfast.tasks.partitions import StreamPartition
from holdfast.times import event_moment
from holdfast_runtime.slot.clock.clock_marks import read_marks
from holdfast_runtime.slot.clock.clock_messages import PendingMessages, lowest_mark, relay_of, written_messages
from holdfast_runtime.slot.program import ClockPlan, ClockSource, Delays
from holdfast_runtime.state.errors import parsing_state


@dataclass(frozen=True, slots=True)
class ClockInput:
    """What a task has read in a batch, as far as event time is concerned."""

    attempt: int
    turn: int
    now: int
    first: bool
    """Whether it is the attempt's first batch: control messages were not heard before it."""
    deliveries: Sequence[Delivery]
    latest: Mapping[StreamPartition, int]
    """Partition -> its latest event time, where rows had any."""
    ended: Sequence[StreamPartition]
    rows: int

    def horizon(self, max_ahead: int | None) -> int | None:
        """Return the latest event time to be believed; None: any."""
        return None if max_ahead is None else self.now + max_ahead


@dataclass(frozen=True, slots=True)
class StoredClock:
    """The clock tables of the task's state."""

    control: Mapping[bytes, bytes] = field(default_factory=dict)
    marks: Mapping[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClockAdvance:
    """The task's event time with the rows of the batch."""

    watermarks: Mapping[str, int | None]
    """Step -> its watermark."""
    before: Mapping[str, int | None]
    ended: Mapping[str, bool]
    """Step -> whether all streams that reach it have ended."""
    streams: Mapping[str, int | None]
    """Stream -> its watermark in this task."""
    horizon: int | None
    """The latest event time that is believed."""
    disbelieved: Sequence[str]
    """Control messages past the horizon, in one sentence each."""
    control: Mapping[bytes, bytes | None]
    wake: int | None
    pending_messages: PendingMessages
    known: Watermarks
    """The watermarks of all partitions before the batch."""


def advance_clock(plan: ClockPlan, stored: StoredClock, clock_input: ClockInput) -> ClockAdvance:
    """Advance a task's event time by one batch, up to the watermarks of its steps."""
    now, horizon = clock_input.now, clock_input.horizon(plan.max_ahead)
    run = None if plan.run is None else WriterRun(plan.run, clock_input.attempt)
    believed, disbelieved = _believed(plan, clock_input)
    book_before = _known(plan, stored, clock_input)
    book = book_before.batch([*believed, *_own(plan, clock_input, book_before.watermarks)], now)
    ends = _ends(plan, book)
    idle = _idle(plan, book, now)
    with parsing_state(f"the watermarks of task {plan.task}"):
        before = read_marks(stored.marks).believed(horizon)
    watermarks: dict[str, int | None] = {}
    ended: dict[str, bool] = {}
    for step, streams in plan.steps.items():
        upstreams = list(_upstream(plan, book, ends, streams, idle, plan.delays.get(step)))
        watermarks[step] = input_watermark(upstreams, before.watermarks.get(step))
        ended[step] = bool(upstreams) and all(upstream.ended for upstream in upstreams)
    views: dict[str, SenderProgress] = {}
    relayed: dict[str, ControlSender] = {}
    relayed_messages: list[tuple[str, tuple[int, ...], bytes]] = []
    for stream, target in plan.told.items():
        upstreams = list(_upstream(plan, book, ends, target.sources, idle, plan.delays.get(stream)))
        mark = input_watermark(upstreams, before.watermarks.get(f">{stream}"))
        running = [upstream for upstream in upstreams if not upstream.ended]
        views[stream] = SenderProgress(
            mark,
            ended=bool(upstreams) and not running,
            alive=clock_input.rows > 0,
            idle=bool(running) and all(upstream.idle for upstream in running),
        )
        if (relay := relay_of(plan, before, stream, target, run)) is not None:
            relay_after, emissions = relay.follow(book, target.partitions, clock_input.turn)
            relayed[f"relay {stream}"] = relay_after.sender
            relayed_messages += written_messages(stream, emissions)
    holdback = held_back_by(book.watermarks, now, _timed(plan), idle)
    return ClockAdvance(
        watermarks=watermarks,
        before={step: before.watermarks.get(step) for step in plan.steps},
        ended=ended,
        streams=book.watermarks.streams(),
        horizon=horizon,
        disbelieved=disbelieved,
        control=_changed(stored.control, book),
        wake=_wake(plan, book, ends, now),
        pending_messages=PendingMessages(
            turn=clock_input.turn,
            run=run,
            horizon=horizon,
            views=views,
            watermarks=watermarks,
            sources=lowest_mark(_source_marks(plan, book)),
            held_back=None if holdback is None else holdback.sentence(now),
            held_by=None if holdback is None else holdback.app,
            all_ended=book.ends.all_ended,
            relayed=relayed,
            relays=relayed_messages,
        ),
        known=book_before.watermarks,
    )


def _ends(plan: ClockPlan, book: Bookkeeping) -> dict[StreamPartition, bool]:
    """Return which partitions have ended; a step that sets times has, where all that reaches it has."""
    ends = {partition: end.ended for partition, end in book.ends.partitions.items()}
    for step, reaching in plan.set_times.items():
        inputs = [ended for partition, ended in ends.items() if partition.stream in reaching]
        ends[StreamPartition(step, 0)] = bool(inputs) and all(inputs)
    return ends


def clock_after(
    plan: ClockPlan, stored: Mapping[bytes, bytes], latest: Mapping[str, int], turn: int, now: int
) -> tuple[dict[bytes, bytes | None], bool]:
    """Return what to store behind a batch whose steps gave rows these latest times, and whether a watermark moved.

    It holds from the next batch on: what reads such rows has run already. `stored`: as the batch leaves it.
    """
    with parsing_state(f"the bookkeeping of control messages of task {plan.task}"):
        before = Bookkeeping.restored(stored, plan.inputs, now)
    partitions = {StreamPartition(step, 0): time for step, time in latest.items()}
    after = before.batch(_watermarks(plan, partitions, turn, before.watermarks), now)
    moved = any(after.watermarks.of(partition) != before.watermarks.of(partition) for partition in partitions)
    return _changed(stored, after), moved


def stopped_clock(plan: ClockPlan, stored: StoredClock, clock_input: ClockInput) -> dict[bytes, bytes | None]:
    """Return what to store of a batch in which event time stands still: silence is counted from its end on."""
    return _changed(stored.control, _known(plan, stored, clock_input).resumed(clock_input.now))


def is_believed(message: ControlMessage, horizon: int | None) -> bool:
    """Whether a message counts: a watermark beyond the horizon does not."""
    return horizon is None or not isinstance(message, WatermarkMessage) or message.timestamp <= horizon


def _believed(plan: ClockPlan, clock_input: ClockInput) -> tuple[list[Delivery], list[str]]:
    """Return the control messages that can be believed, and a sentence for each of the others."""
    believed, disbelieved = list[Delivery](), list[str]()
    for delivery in clock_input.deliveries:
        if is_believed(delivery.message, clock_input.horizon(plan.sources[delivery.partition.stream].max_ahead)):
            believed.append(delivery)
        else:
            sender = delivery.message.task or "its source or relay"
            assert isinstance(delivery.message, WatermarkMessage)  # noqa: S101 - others are believed
            disbelieved.append(
                f"{delivery.partition}: a watermark of {event_moment(delivery.message.timestamp)} from {sender}"
            )
    return believed, disbelieved


def _known(plan: ClockPlan, stored: StoredClock, clock_input: ClockInput) -> Bookkeeping:
    if not stored.control:
        return Bookkeeping.started(plan.inputs, clock_input.now)
    limits = {
        name: limit
        for name, source in plan.sources.items()
        if (limit := clock_input.horizon(source.max_ahead)) is not None
    }
    with parsing_state(f"the bookkeeping of control messages of task {plan.task}"):
        book = Bookkeeping.restored(stored.control, plan.inputs, clock_input.now).believed(limits, clock_input.now)
    return book.resumed(clock_input.now) if clock_input.first else book


def _changed(stored: Mapping[bytes, bytes], book: Bookkeeping) -> dict[bytes, bytes | None]:
    """Return the entries to write, compared with what is stored and not with what was known.

    A partition that is new in this attempt is known before it is stored. Unwritten, it would be new again in the next
    batch, with the watermark that its stream has reached by then.
    """
    entries = book.entries()
    removed = dict.fromkeys(stored.keys() - entries.keys())
    return {**removed, **{key: value for key, value in entries.items() if stored.get(key) != value}}


def _own(plan: ClockPlan, clock_input: ClockInput, watermarks: Watermarks) -> Iterable[Delivery]:
    """Yield the messages that follow from source records: watermarks from event times, and ends of bounded streams."""
    yield from _watermarks(plan, clock_input.latest, clock_input.turn, watermarks)
    for partition in clock_input.ended:
        if partition.stream in plan.sources:  # tables have no end
            yield Delivery(partition, EndOfStreamMessage(partition.stream, MessageNumber(clock_input.turn, 1)))


def _watermarks(
    plan: ClockPlan, latest: Mapping[StreamPartition, int], turn: int, watermarks: Watermarks
) -> Iterable[Delivery]:
    """Yield the watermarks that follow from these latest event times.

    A partition whose rows are older than others before them says its watermark again: it is not silent.
    """
    for partition, time in latest.items():
        lateness = plan.sources[partition.stream].lateness
        if lateness is not None:
            before = watermarks.of(partition)
            reached = max(time - lateness, EARLIEST if before is None else before)
            yield Delivery(partition, WatermarkMessage(reached, MessageNumber(turn, 0)))


def _upstream(
    plan: ClockPlan,
    book: Bookkeeping,
    ends: Mapping[StreamPartition, bool],
    streams: frozenset[str],
    idle: Collection[StreamPartition],
    delays: Delays | None,
) -> Iterable[Upstream]:
    """Yield the inputs of a step or stream; `delays`: stream -> how far behind its watermark its rows may come."""
    for partition, watermark in book.watermarks.partitions.items():
        if partition.stream not in streams:
            continue
        if not _is_timed(plan.sources[partition.stream]):
            # The stream has no event time: it holds nothing back, and ends like others.
            yield Upstream(None, ends[partition], idle=True)
            continue
        delay = (delays or {}).get(partition.stream, 0)
        if delay is None:
            # However silent it is: what it has brought comes out when it ends.
            yield Upstream(None, ends[partition], idle=False)
        else:
            yield Upstream(
                None if watermark.value is None else watermark.value - delay, ends[partition], partition in idle
            )


def _idle(plan: ClockPlan, book: Bookkeeping, now: int) -> set[StreamPartition]:
    """Return the partitions that hold nothing back: silent for too long, or told so by all who write them."""
    return {
        partition
        for partition, watermark in book.watermarks.partitions.items()
        if book.watermarks.idle(partition)
        or (
            (patience := plan.sources[partition.stream].idle_after) is not None and now - watermark.heard_at >= patience
        )
    }


def _wake(plan: ClockPlan, book: Bookkeeping, ends: Mapping[StreamPartition, bool], now: int) -> int | None:
    """Return the next time at which the silence of a source or producer would change a watermark."""
    times = []
    for partition, watermark in book.watermarks.partitions.items():
        source = plan.sources[partition.stream]
        if not ends[partition] and _is_timed(source) and (patience := source.idle_after) is not None:
            clocks = [watermark.since, watermark.heard_at, *(heard.at for heard in watermark.producers.values())]
            times += [clock + patience for clock in clocks]
    return min((time for time in times if time > now), default=None)


def _is_timed(source: ClockSource) -> bool:
    return source.lateness is not None or source.producers is not None


def _timed(plan: ClockPlan) -> list[str]:
    return [name for name, source in plan.sources.items() if _is_timed(source)]


def _source_marks(plan: ClockPlan, book: Bookkeeping) -> list[int | None]:
    timed = _timed(plan)
    return [value for stream, value in book.watermarks.streams().items() if stream in timed]
