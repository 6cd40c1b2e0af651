"""The app that writes a stream is run anew, with empty state: what its readers hear of the old run and the new."""

from holdfast.control.bookkeeping import Bookkeeping, ControlInputs
from holdfast.control.messages import EndOfStreamMessage, MessageNumber, WatermarkMessage
from holdfast.control.producers import Delivery, Producers
from holdfast.control.runs import WriterRun, WriterRuns, app_of, run_name
from holdfast.control.watermark import held_back_by
from holdfast.tasks.partitions import StreamPartition

BETWEEN = StreamPartition("between", 0)
ONE, TWO = WriterRun(run_name("first", "1", "a1"), 3), WriterRun(run_name("first", "2", "b2"), 1)


def reader(idle_after: int | None = None) -> Bookkeeping:
    return Bookkeeping.started(ControlInputs((BETWEEN,), {"between": Producers(0, idle_after=idle_after)}), 0)


def mark(time: int, task: str, batch: int, run: WriterRun = ONE, of: int = 2) -> Delivery:
    return Delivery(BETWEEN, WatermarkMessage(time, MessageNumber(batch, 0), task, of, run))


def end(task: str, batch: int, run: WriterRun = ONE, of: int = 2) -> Delivery:
    return Delivery(BETWEEN, EndOfStreamMessage("between", MessageNumber(batch, 1), task, of, run))


def test_a_new_run_is_heard_from_its_first_batch_again() -> None:
    state = reader().batch([mark(100, "t", 70), mark(100, "u", 70)], 1)
    state = state.batch([mark(40, "t", 1, TWO), mark(40, "u", 1, TWO)], 2)
    assert state.watermarks.of(BETWEEN) == 100, "it does not go back"
    state = state.batch([mark(120, "t", 2, TWO)], 3)
    assert state.watermarks.of(BETWEEN) == 100, "the other producer is still at 40"
    assert state.batch([mark(110, "u", 3, TWO)], 4).watermarks.of(BETWEEN) == 110


def test_tasks_that_only_the_old_run_had_are_not_awaited() -> None:
    state = reader().batch([mark(100, task, 70, of=3) for task in "tuv"], 1)
    state = state.batch([mark(130, "t", 1, TWO, 1)], 2)
    assert state.watermarks.of(BETWEEN) == 130
    assert state.batch([end("t", 2, TWO, 1)], 3).ends.all_ended


def test_all_tasks_of_a_new_run_are_awaited_again() -> None:
    state = reader().batch([mark(100, "t", 70), mark(100, "u", 70)], 1)
    assert state.batch([mark(200, "t", 1, TWO)], 2).watermarks.of(BETWEEN) == 100


def test_ends_from_two_runs_are_no_end_of_all_tasks() -> None:
    state = reader().batch([end("t", 70)], 1).batch([end("u", 2, TWO)], 2)
    assert not state.ends.all_ended
    assert state.batch([end("t", 3, TWO)], 3).ends.all_ended


def test_a_stream_stays_ended_if_its_app_is_run_anew() -> None:
    over = reader().batch([mark(100, "t", 70), mark(100, "u", 70)], 1).batch([end("t", 71), end("u", 71)], 1)
    again = over.batch([mark(40, task, 1, TWO, 3) for task in "tuv"], 2)
    assert again == over.batch([], 2)
    assert again.ends.all_ended
    assert again.watermarks.streams() == {"between": 100}


def test_the_old_run_ends_before_the_new_within_a_batch() -> None:
    cut = reader().batch([end("t", 70), end("u", 70)], 1).batch([mark(40, "t", 1, TWO)], 1)
    assert reader().batch([end("t", 70), end("u", 70), mark(40, "t", 1, TWO)], 1) == cut


def test_the_last_word_of_a_slowly_dying_driver_is_ignored() -> None:
    state = reader().batch([mark(100, "t", 70), mark(100, "u", 70)], 1)
    anew = state.batch([mark(110, "t", 1, TWO), mark(110, "u", 1, TWO)], 2)
    assert anew.batch([mark(900, "t", 71), end("u", 72)], 3) == anew.batch([], 3)


def test_silence_in_a_new_run_counts_from_its_beginning() -> None:
    state = reader(idle_after=50).batch([mark(10, "t", 70), mark(10, "u", 70)], 0)
    state = state.batch([mark(200, "t", 1, TWO)], 100)
    assert state.watermarks.of(BETWEEN) == 10
    assert state.batch([mark(210, "t", 2, TWO)], 150).watermarks.of(BETWEEN) == 210


def test_messages_without_a_run_are_of_the_run_at_hand() -> None:
    state = reader().batch([mark(100, "t", 70), mark(100, "u", 70)], 1)
    older = Delivery(BETWEEN, WatermarkMessage(120, MessageNumber(71, 0), "t", 2))
    assert state.batch([older, mark(120, "u", 71)], 2).watermarks.of(BETWEEN) == 120


def test_a_run_that_names_itself_later_does_not_begin_anew() -> None:
    ended = EndOfStreamMessage("between", MessageNumber(1, 1), "t", 2)
    assert reader().batch([Delivery(BETWEEN, ended)], 1).batch([end("u", 2)], 2).ends.all_ended


def test_only_so_many_runs_are_remembered() -> None:
    runs: WriterRuns | None = WriterRuns()
    for number in range(100):
        assert runs is not None
        runs = runs.after(WriterRun(run_name("first", "1", str(number)), 1))
    assert runs is not None
    assert (runs.current, len(runs.past), runs.past[-1]) == (("first/1/99", 1), 16, ("first/1/98", 1))


def test_an_old_run_is_heard_again_from_its_next_attempt() -> None:
    back = ONE._replace(attempt=4)
    state = reader().batch([mark(100, "t", 70), mark(100, "u", 70)], 1)
    state = state.batch([mark(110, "t", 1, TWO), mark(110, "u", 1, TWO), end("u", 2, TWO)], 2)
    state = state.batch([mark(120, "t", 71, back), mark(130, "u", 71, back)], 3)
    assert state.watermarks.of(BETWEEN) == 120
    state = state.batch([mark(900, "t", 3, TWO), end("t", 4, TWO), end("u", 72, back)], 4)
    assert (state.watermarks.of(BETWEEN), state.ends.all_ended) == (120, False)
    assert state.batch([end("t", 72, back)], 5).ends.all_ended


def test_a_later_attempt_goes_on_where_the_one_before_was() -> None:
    later = ONE._replace(attempt=4)
    state = reader().batch([end("t", 70)], 1).batch([end("u", 71, later)], 2)
    assert state.ends.all_ended
    state = reader().batch([mark(100, "t", 70), mark(100, "u", 70, later)], 1).batch([mark(110, "t", 71)], 2)
    assert state.watermarks.of(BETWEEN) == 100
    assert state.batch([mark(120, "u", 72, later)], 3).watermarks.of(BETWEEN) == 110


def test_who_holds_back_is_named_with_its_app() -> None:
    state = reader().batch([mark(1_700_000_000_000, "t", 70), mark(1_700_000_000_500, "u", 70)], 1_000)
    held = held_back_by(state.watermarks, 61_000)
    assert held is not None
    assert held.app == app_of(ONE) == "first"
    assert held.sentence(61_000).endswith("for 60 s: waiting for task t of app first, last heard 60 s ago")
    nobody = held_back_by(reader().batch([mark(5, "t", 70)], 0).watermarks, 7_300_000)
    assert nobody is not None
    assert nobody.sentence(7_300_000) == (
        "between/0: no watermark yet, for 2 h: waiting for 1 of 2 producers of app first, never heard"
    )
