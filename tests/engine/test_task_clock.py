"""How event time moves through a task from batch to batch, and what the task tells the streams it writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.control.messages import EARLIEST, EndOfStreamMessage, MessageNumber, UserRecord, WatermarkMessage, decode
from holdfast.control.producers import Delivery, Producers
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.slot.clock.clock_messages import ClockResult, outgoing_messages
from holdfast_runtime.slot.clock.task_clock import ClockAdvance, ClockInput, StoredClock, advance_clock
from holdfast_runtime.slot.program import ClockPlan, ClockSource, ClockTarget

A0, A1, M0 = StreamPartition("a", 0), StreamPartition("a", 1), StreamPartition("m", 0)
PLAN = ClockPlan(
    task="t",
    partitions=(A0, A1),
    sources={"a": ClockSource(lateness=10, idle_after=1000)},
    steps={"sum": frozenset("a")},
    told={"out": ClockTarget(3, frozenset("a"), ("t", "u"))},
)


@dataclass(frozen=True)
class Batch:
    """What became of a task's event time in a batch, before the steps and behind them."""

    steps: ClockAdvance
    behind: ClockResult

    @property
    def watermarks(self) -> Mapping[str, int | None]:
        return self.steps.watermarks

    @property
    def says(self) -> Sequence[tuple[str, tuple[int, ...], bytes]]:
        return self.behind.control_messages

    @property
    def watermark(self) -> int | None:
        return self.behind.watermark


@dataclass
class Task:
    """A task that goes from batch to batch with nothing but what it stored."""

    plan: ClockPlan = PLAN
    turn: int = 0
    stored: dict[str, dict[bytes, bytes]] = field(default_factory=lambda: {"control": {}, "marks": {}})

    def batch(
        self,
        now: int,
        latest: Mapping[StreamPartition, int] | None = None,
        *,
        first: bool = False,
        deliveries: tuple[Delivery, ...] = (),
        ended: tuple[StreamPartition, ...] = (),
        unfired: Mapping[str, int] | None = None,
    ) -> "Batch":
        self.turn += 1
        brought = ClockInput(1, self.turn, now, first, deliveries, latest or {}, ended, len(latest or {}))
        at_steps = advance_clock(self.plan, StoredClock(self.stored["control"], self.stored["marks"]), brought)
        behind = outgoing_messages(self.plan, self.stored["marks"], at_steps.pending_messages, unfired or {})
        after = Batch(at_steps, behind)
        for name, changes in (("control", at_steps.control), ("marks", behind.marks)):
            for key, value in changes.items():
                if value is None:
                    self.stored[name].pop(key)
                else:
                    self.stored[name][key] = value
        return after


def messages(after: Batch) -> list[tuple[str, tuple[int, ...], object]]:
    """What a task says, without the digest of the tasks that write the stream."""
    decoded = [(stream, partitions, decode(message)) for stream, partitions, message in after.says]
    return [
        (stream, partitions, message if isinstance(message, UserRecord) else replace(message, task_digest=""))
        for stream, partitions, message in decoded
    ]


def test_no_watermark_before_every_partition_has_spoken() -> None:
    task = Task()
    after = task.batch(0, {A0: 100})
    assert (after.watermarks, after.watermark, after.says) == ({"sum": None}, None, [])
    assert "a/1: no watermark yet" in str(after.behind.held_back)


def test_the_watermark_is_the_lowest_partition_less_its_lateness() -> None:
    task = Task()
    task.batch(0, {A0: 100})
    after = task.batch(1, {A1: 70})
    assert (after.watermarks, after.steps.before) == ({"sum": 60}, {"sum": None})
    assert messages(after) == [("out", (0, 1, 2), WatermarkMessage(60, MessageNumber(2, 0), "t", 2))]


def test_an_unmoved_watermark_is_repeated_only_while_rows_come() -> None:
    task = Task()
    task.batch(0, {A0: 100, A1: 70})
    assert len(task.batch(1, {A0: 120}).says) == 1
    assert task.batch(2).says == []


def test_late_rows_do_not_take_the_watermark_back() -> None:
    task = Task()
    task.batch(0, {A0: 100, A1: 100})
    assert task.batch(1, {A0: 5, A1: 5}).watermarks == {"sum": 90}


def test_a_silent_source_partition_is_left_out_waking_its_task() -> None:
    task = Task()
    task.batch(0, {A0: 100, A1: 70})
    after = task.batch(500, {A0: 200})
    assert (after.watermarks, after.steps.wake) == ({"sum": 60}, 1000)
    assert task.batch(1000).watermarks == {"sum": 190}


def test_a_partition_whose_rows_are_all_older_is_not_silent() -> None:
    task = Task()
    task.batch(0, {A0: 500, A1: 70})
    for now in (600, 1200):
        assert task.batch(now, {A0: 100, A1: 65}).watermarks == {"sum": 60}
    assert task.batch(2200, {A0: 100}).watermarks == {"sum": 490}, "now the other one is silent"


def test_merged_rows_go_on_without_streams_whose_producers_idle() -> None:
    plan = ClockPlan(
        "t",
        (A0, M0),
        {"a": ClockSource(lateness=0), "m": ClockSource(producers=Producers.of(["t", "u"]))},
        {"sum": frozenset("am"), "alone": frozenset("m")},
        {},
    )
    task = Task(plan)
    idle = tuple(
        Delivery(M0, WatermarkMessage(time, MessageNumber(0, 0), name, 2, idle=True))
        for name, time in (("t", EARLIEST), ("u", 10))
    )
    after = task.batch(0, {A0: 50}, deliveries=idle[:1])
    assert after.watermarks == {"sum": None, "alone": None}
    assert "m/0: no watermark yet" in str(after.behind.held_back)
    after = task.batch(1000, {A0: 60}, deliveries=idle[1:])
    assert after.watermarks == {"sum": 60, "alone": None}
    assert "a/0: the watermark stands at" in str(after.behind.held_back)
    back = Delivery(M0, WatermarkMessage(20, MessageNumber(1, 0), "t", 2))
    assert task.batch(1500, {A0: 70}, deliveries=(back,)).watermarks == {"sum": 60, "alone": 20}


def test_a_task_says_when_all_it_reads_is_idle() -> None:
    plan = replace(
        PLAN,
        partitions=(A0, M0),
        sources={**PLAN.sources, "m": ClockSource()},
        told={"out": ClockTarget(1, frozenset("am"), ("t",)), "other": ClockTarget(1, frozenset("m"), ("t",))},
    )
    task = Task(plan)
    first = task.batch(0, {A0: 50})
    assert messages(first) == [
        ("out", (0,), WatermarkMessage(40, MessageNumber(1, 0), "t", 1)),
        ("other", (0,), WatermarkMessage(EARLIEST, MessageNumber(1, 0), "t", 1, idle=True)),
    ]
    assert first.steps.wake == 1000
    assert messages(task.batch(1000)) == [("out", (0,), WatermarkMessage(40, MessageNumber(2, 0), "t", 1, idle=True))]
    assert messages(task.batch(5000)) == []
    assert messages(task.batch(6000, {A0: 50})) == [("out", (0,), WatermarkMessage(40, MessageNumber(4, 0), "t", 1))]


def test_after_a_stop_nobody_counts_as_silent() -> None:
    task = Task()
    task.batch(0, {A0: 100, A1: 70})
    after = task.batch(90_000, {A0: 300}, first=True)
    assert after.watermarks == {"sum": 60}


def test_the_end_of_all_partitions_ends_what_follows() -> None:
    task = Task()
    assert not task.batch(0, {A0: 100}, ended=(A0,)).steps.ended["sum"]
    after = task.batch(1, {A1: 50}, ended=(A1,))
    assert (after.steps.ended, after.behind.all_ended) == ({"sum": True}, True)
    assert messages(after)[-1] == ("out", (0, 1, 2), EndOfStreamMessage("out", MessageNumber(2, 1), "t", 2))
    assert task.batch(2, ended=(A0, A1)).says == [], "what was said is not said again"


def test_an_intermediate_stream_moves_when_all_its_producers_have_spoken() -> None:
    plan = ClockPlan("t", (M0,), {"m": ClockSource(producers=Producers.of(["t", "u"]))}, {"sum": frozenset("m")}, {})
    task = Task(plan)
    deliveries = [
        Delivery(M0, WatermarkMessage(time, MessageNumber(1, 0), name, 2)) for name, time in (("t", 50), ("u", 40))
    ]
    assert task.batch(0, deliveries=(deliveries[0],)).watermarks == {"sum": None}
    assert task.batch(1, deliveries=(deliveries[1],)).watermarks == {"sum": 40}
    assert task.batch(2, deliveries=tuple(deliveries)).steps.control == {}, "a replay changes nothing"


def test_a_stream_without_event_time_ends_but_holds_nothing_back() -> None:
    plan = replace(
        PLAN,
        partitions=(A0, M0),
        sources={"a": ClockSource(lateness=0), "m": ClockSource()},
        steps={"sum": frozenset("am")},
        told={},
    )
    task = Task(plan)
    after = task.batch(0, {A0: 7})
    assert (after.watermarks, after.steps.ended, after.watermark) == ({"sum": 7}, {"sum": False}, 7)
    assert task.batch(1, ended=(A0, M0)).steps.ended == {"sum": True}


def test_a_partition_new_in_an_attempt_is_awaited_however_silent() -> None:
    task = Task(replace(PLAN, partitions=(A0,), sources={"a": ClockSource(lateness=10)}))
    assert task.batch(0, {A0: 100}).watermarks == {"sum": 90}
    task.plan = replace(task.plan, partitions=(A0, A1))
    assert task.batch(1, {A0: 500}, first=True).watermarks == {"sum": 90}
    assert task.batch(2, {A0: 900}).watermarks == {"sum": 90}
    assert task.batch(3, {A1: 600}).watermarks == {"sum": 590}


def test_what_comes_out_depends_on_what_is_stored_alone() -> None:
    task, twin = Task(), Task()
    for now, latest in enumerate([{A0: 10}, {A1: 90}, {A0: 55, A1: 91}]):
        before = Task(PLAN, task.turn, stored={name: dict(rows) for name, rows in task.stored.items()})
        after = task.batch(now, latest)
        assert before.batch(now, latest) == after == twin.batch(now, latest)


def test_event_time_passes_no_unfired_timers_for_their_readers() -> None:
    plan = replace(
        PLAN,
        partitions=(A0,),
        steps={"remind": frozenset("a"), "sum": frozenset("a")},
        behind={"sum": frozenset({"remind"}), "out": frozenset({"remind"})},
    )
    task = Task(plan)
    task.batch(0, {A0: 100})
    after = task.batch(1, {A0: 500}, unfired={"remind": 200})
    assert messages(after) == [("out", (0, 1, 2), WatermarkMessage(200, MessageNumber(2, 0), "t", 2))]
    assert after.watermark == 200
    assert "step remind: more timers, windows or rows are due than one batch takes" in str(after.behind.held_back)
    then = task.batch(2, ended=(A0,), unfired={"remind": 50})
    assert then.steps.before == {"remind": 490, "sum": 200}, "the step itself is not held back"
    assert (then.says, then.watermark, then.behind.all_ended) == ([], 200, False), "nothing goes back, nothing ends"
    last = task.batch(3)
    assert [type(message) for _, _, message in messages(last)] == [EndOfStreamMessage]
    assert last.behind.all_ended


def test_an_impossible_stored_watermark_is_taken_back_for_the_next() -> None:
    task = Task(replace(PLAN, partitions=(A0,)))
    task.batch(0, {A0: 10**12})
    task.plan = replace(task.plan, sources={"a": ClockSource(10, 1000, max_ahead=5000)}, max_ahead=5000)
    after = task.batch(1000, first=True)
    assert (after.watermarks, after.steps.before, after.watermark) == ({"sum": None}, {"sum": None}, None)
    after = task.batch(1001, {A0: 100})
    assert (after.watermarks, after.steps.horizon) == ({"sum": 90}, 6001)
    assert messages(after) == [("out", (0, 1, 2), WatermarkMessage(90, MessageNumber(3, 0), "t", 2))]


def test_an_impossible_message_is_named_and_its_producer_heard_later() -> None:
    source = ClockSource(producers=Producers.of(["t", "u"]), max_ahead=4000)
    task = Task(ClockPlan("t", (M0,), {"m": source}, {"sum": frozenset("m")}, {}, max_ahead=4000))

    def say(turn: int, **times: int) -> Batch:
        deliveries = [Delivery(M0, WatermarkMessage(at, MessageNumber(turn, 0), name, 2)) for name, at in times.items()]
        return task.batch(1000 + turn, deliveries=tuple(deliveries))

    after = say(1, t=5002, u=40)
    assert (after.watermarks, list(after.steps.disbelieved)) == (
        {"sum": None},
        ["m/0: a watermark of 1970-01-01T00:00:05.002Z from t"],
    )
    assert say(2, t=50).watermarks == {"sum": 40}


def test_a_task_whose_due_rows_wait_is_not_idle() -> None:
    task = Task(replace(PLAN, partitions=(A0,), behind={"out": frozenset({"remind"})}))
    task.batch(0, {A0: 500})
    assert messages(task.batch(1000, unfired={"remind": 495})) == []
    assert messages(task.batch(1001)) == [
        ("out", (0, 1, 2), WatermarkMessage(490, MessageNumber(3, 0), "t", 2, idle=True))
    ]
