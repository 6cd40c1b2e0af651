"""What is done beside batches: with the newest positions, once more at the end, and never in a batch's way."""

import threading

import pytest

from holdfast.errors import WorldChangeError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.driver.periodic_work import PeriodicChore, PositionChore, Positions, RetriedChore
from tests.waiting import patience

CLICKS = StreamPartition("clicks", 0)


def test_only_the_newest_positions_and_always_the_last_are_used() -> None:
    handled_positions: list[Positions] = []
    with PositionChore(handled_positions.append, every=3600) as chores:
        for offset in range(5):
            chores.processed({CLICKS: offset})
    assert handled_positions == [{CLICKS: 4}]


def test_what_fails_is_tried_again_with_the_next_news() -> None:
    offsets: list[int] = []
    first, second = threading.Event(), threading.Event()

    def act(positions: Positions) -> None:
        offsets.append(positions[CLICKS])
        first.set()
        if len(offsets) == 1:
            message = "no right to do it"
            raise WorldChangeError(message)
        second.set()

    with PositionChore(act, every=0.001) as chores:
        chores.processed({CLICKS: 1})
        assert first.wait(patience(60))
        for offset in range(2, 10_000):
            if second.wait(0.01):
                break
            chores.processed({CLICKS: offset})
    assert offsets[0] == 1
    assert len(offsets) > 1


def test_a_foreign_error_ends_no_thread_and_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    done, third = list[int](), threading.Event()

    def act(positions: Positions) -> None:
        done.append(positions[CLICKS])
        if len(done) < 3:
            message = "of a library that nobody knows"
            raise ZeroDivisionError(message)
        third.set()

    with PositionChore(act, every=0.001) as chores:
        chores.processed({CLICKS: 7})
        assert third.wait(patience(10)), "what failed is tried again though no news come"
    assert done[:3] == [7, 7, 7]
    (record,) = caplog.records
    assert "ZeroDivisionError: of a library" in record.getMessage()
    assert record.exc_info is not None

    rounds_done, again = list[int](), threading.Event()

    def round_() -> None:
        rounds_done.append(len(rounds_done))
        if len(rounds_done) == 3:
            again.set()
        raise KeyError(rounds_done[-1])

    with PeriodicChore(round_, every=0.001) as rounds:
        rounds.begin()
        assert again.wait(patience(10))


def test_what_goes_on_failing_is_tried_less_and_less_often() -> None:
    trying, waits = RetriedChore(), []
    for _ in range(8):
        assert not trying.now(lambda: dict[StreamPartition, None]()[CLICKS])
        waits.append(trying.wait(5))
    assert waits == [10, 20, 40, 80, 160, 160, 160, 160]
    assert trying.wait(3600) == 3600, "what is seldom anyway is not made more seldom"
    assert trying.now(lambda: None)
    assert trying.wait(5) == 5


def test_nothing_is_done_where_nothing_was_processed() -> None:
    handled_positions: list[Positions] = []
    with PositionChore(handled_positions.append, every=0.001):
        pass
    assert handled_positions == []


def test_rounds_go_on_after_failures_and_end_with_their_purpose() -> None:
    done, third = list[int](), threading.Event()

    def act() -> None:
        done.append(len(done))
        if len(done) == 1:
            message = "the storage is away"
            raise WorldChangeError(message)
        if len(done) == 3:
            third.set()

    with PeriodicChore(act, every=0.001) as rounds:
        assert done == []
        rounds.begin()
        rounds.begin()
        assert third.wait(patience(10))
    assert not any(thread.name == "rounds" for thread in threading.enumerate())


def test_the_first_round_is_immediate_and_never_before_the_beginning() -> None:
    done = threading.Event()
    with PeriodicChore(done.set, every=3600):
        pass
    assert not done.is_set()
    with PeriodicChore(done.set, every=3600) as rounds:
        rounds.begin()
        assert done.wait(patience(10))
