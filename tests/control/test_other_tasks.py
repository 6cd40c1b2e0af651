"""The app that writes a stream goes on in its run with other tasks: who is waited for, and whose messages count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.bookkeeping import Bookkeeping, ControlInputs
from holdfast.control.messages import EndOfStreamMessage, MessageNumber, WatermarkMessage
from holdfast.control.producers import Delivery, Producers
from holdfast.control.runs import WriterRun, tasks_named
from holdfast.control.sending import ControlSender, SenderProgress
from holdfast.tasks.partitions import StreamPartition

BETWEEN = StreamPartition("between", 0)
RUN = WriterRun("first/1/a1", 3)
NEXT, THIRD = RUN._replace(attempt=4), RUN._replace(attempt=5)
INPUTS = ControlInputs((BETWEEN,), {"between": Producers()})


def reader(rule: Producers | None = None) -> Bookkeeping:
    return Bookkeeping.started(ControlInputs((BETWEEN,), {"between": rule or Producers()}), 0)


def mark(time: int, task: str, of: str, run: WriterRun = RUN, batch: int = 0) -> Delivery:
    """`of`: all tasks of the attempt, a letter each."""
    count, digest = tasks_named(tuple(of))
    at = MessageNumber(batch or run.attempt, 0)
    return Delivery(BETWEEN, WatermarkMessage(time, at, task, count, run, task_digest=digest))


def end(task: str, of: str, run: WriterRun = RUN, batch: int = 0) -> Delivery:
    count, digest = tasks_named(tuple(of))
    return Delivery(
        BETWEEN, EndOfStreamMessage("between", MessageNumber(batch or run.attempt, 1), task, count, run, digest)
    )


def three() -> Bookkeeping:
    return reader().batch([mark(100, "t", "tuv"), mark(110, "u", "tuv"), mark(50, "v", "tuv")], 1)


def test_a_task_gone_in_a_later_attempt_is_not_awaited() -> None:
    state = three()
    assert state.watermarks.of(BETWEEN) == 50
    state = state.batch([mark(120, "t", "tu", NEXT)], 2)
    assert state.watermarks.of(BETWEEN) == 50, "u may be behind: it has not spoken in this attempt"
    assert state.batch([mark(115, "u", "tu", NEXT)], 3).watermarks.of(BETWEEN) == 115


def test_the_end_of_fewer_tasks_ends_the_stream() -> None:
    state = three().batch([end("t", "tu", NEXT), end("u", "tu", NEXT)], 2)
    assert state.ends.all_ended
    assert state.watermarks.streams() == {"between": 50}


def test_an_ended_task_that_is_gone_replaces_no_running_one() -> None:
    state = three().batch([end("v", "tuv")], 2).batch([mark(120, "t", "tu", NEXT), end("u", "tu", NEXT)], 3)
    assert not state.ends.all_ended
    assert state.watermarks.of(BETWEEN) == 120
    assert state.batch([end("t", "tu", NEXT, 9)], 4).ends.all_ended


def test_equally_many_tasks_of_other_names_replace_those_before() -> None:
    state = three().batch([mark(200, task, "xyz", NEXT) for task in "xy"], 2)
    assert state.watermarks.of(BETWEEN) == 50, "z is still to be heard"
    state = state.batch([mark(190, "z", "xyz", NEXT)], 3)
    assert state.watermarks.of(BETWEEN) == 190
    assert state.batch([end(task, "xyz", NEXT) for task in "xyz"], 4).ends.all_ended


def test_a_message_without_digest_is_known_by_its_task_count() -> None:
    two = [Delivery(BETWEEN, WatermarkMessage(120, MessageNumber(4, 0), task, 2, NEXT)) for task in "tu"]
    assert three().batch(two, 2).watermarks.of(BETWEEN) == 120


def test_old_messages_from_other_tasks_are_ignored_after_newer_ones() -> None:
    state = three().batch([mark(120, "t", "tu", NEXT), mark(120, "u", "tu", NEXT)], 2)
    later = state.batch([mark(60, "v", "tuv"), mark(900, "t", "tuv", batch=99), end("v", "tuv"), end("u", "tuv")], 3)
    assert later == state.batch([], 3)


def test_old_messages_from_the_same_tasks_are_heard() -> None:
    state = three().batch([mark(120, "t", "tuv", NEXT), mark(60, "v", "tuv", batch=4)], 2)
    assert state.watermarks.of(BETWEEN) == 60


def test_a_task_that_is_back_is_waited_for_again() -> None:
    state = three().batch([mark(120, "t", "tu", NEXT), mark(120, "u", "tu", NEXT)], 2)
    state = state.batch([mark(130, "t", "tuv", THIRD), mark(130, "u", "tuv", THIRD)], 3)
    assert state.watermarks.of(BETWEEN) == 120
    assert state.batch([mark(125, "v", "tuv", THIRD)], 4).watermarks.of(BETWEEN) == 125


def test_messages_do_not_change_the_tasks_that_the_plan_names() -> None:
    state = reader(Producers.of("tu")).batch([mark(100, "t", "tuv"), mark(110, "u", "tuv")], 1)
    assert state.batch([mark(120, "t", "tu", NEXT)], 2).watermarks.of(BETWEEN) == 110, "u need not say it again"


@pytest.mark.parametrize("tasks", ["tu", "tuvw", "txy"])
def test_a_sender_among_other_tasks_repeats_where_it_stands(tasks: str) -> None:
    sender = ControlSender("between", "t", None).among(tasks_named(tuple("tuv")), RUN)
    sender, _ = sender.follow(SenderProgress(5, ended=True), range(2), 0)
    same, changed = (sender.among(tasks_named(tuple(names)), NEXT) for names in ("tuv", tasks))
    assert same.follow(SenderProgress(5, ended=True), range(2), 1)[1] == ()
    messages = [one.message for one in changed.follow(SenderProgress(5, ended=True), range(2), 1)[1]]
    count, digest = tasks_named(tuple(tasks))
    assert messages == [
        WatermarkMessage(5, MessageNumber(1, 0), "t", count, NEXT, task_digest=digest),
        EndOfStreamMessage("between", MessageNumber(1, 1), "t", count, NEXT, digest),
    ]


ATTEMPTS = ("tuv", "tu", "u", "uv", "tuv", "xyz")


@st.composite
def lives(draw: st.DrawFn) -> list[Delivery]:
    """What attempts with other tasks each say: each task where it stands at first, then further watermarks and ends."""
    history, stands, ended, batch = [], dict.fromkeys("tuvxyz", 0), set[str](), 0
    for attempt, tasks in enumerate(draw(st.lists(st.sampled_from(ATTEMPTS), min_size=1, max_size=4))):
        run, batch = RUN._replace(attempt=attempt), batch + 1
        history += [
            end(task, tasks, run, batch) if task in ended else mark(stands[task], task, tasks, run, batch)
            for task in draw(st.permutations(tasks))
        ]
        for task in draw(st.lists(st.sampled_from(tasks), max_size=5)):
            batch += 1
            if task in ended:
                continue
            if draw(st.integers(0, 5)) == 0:
                ended.add(task)
                history.append(end(task, tasks, run, batch))
            else:
                stands[task] += draw(st.integers(1, 9))
                history.append(mark(stands[task], task, tasks, run, batch))
        if len(ended & set(tasks)) == len(tasks):
            break
    return history


@given(lives(), st.data())
def test_a_reader_follows_the_last_attempt_wherever_batches_are_cut(
    history: list[Delivery], data: st.DataObject
) -> None:
    whole, parts, now = reader().batch(history, 1), reader(), 1
    for delivery in history:
        parts = parts.batch([delivery], 1)
        if data.draw(st.booleans()):
            stored = {key: value for key, value in parts.entries().items() if value is not None}
            parts = Bookkeeping.restored(stored, INPUTS, now)
    assert parts.ends == whole.ends
    assert whole.ends.all_ended or parts.watermarks.of(BETWEEN) == whole.watermarks.of(BETWEEN)
    last, stands, over = history[-1].message, dict[str, int](), set[str]()
    for _, message in history:
        if message.run != last.run:
            continue
        if isinstance(message, WatermarkMessage):
            stands[str(message.task)] = message.timestamp
        else:
            over.add(str(message.task))
    running = [stands[task] for task in stands if task not in over]
    assert whole.ends.all_ended == (len(over) == last.task_count)
    assert running == [] or (whole.watermarks.of(BETWEEN) or 0) >= min(running)
