"""What is done beside batches: with the newest positions, once more at the end, and never in a batch's way."""

import threading

from holdfast.errors import WorldChangeError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.chores import Chores, Positions, Rounds

CLICKS = StreamPartition("clicks", 0)


def test_only_the_newest_positions_are_used_and_the_last_ones_always() -> None:
    seen: list[Positions] = []
    with Chores(seen.append, every=3600) as chores:
        for offset in range(5):
            chores.processed({CLICKS: offset})
    assert seen == [{CLICKS: 4}]


def test_what_fails_is_tried_again_with_the_next_news() -> None:
    seen: list[int] = []
    second = threading.Event()

    def act(positions: Positions) -> None:
        seen.append(positions[CLICKS])
        if len(seen) == 1:
            message = "no right to do it"
            raise WorldChangeError(message)
        second.set()

    with Chores(act, every=0.001) as chores:
        chores.processed({CLICKS: 1})
        for offset in range(2, 10_000):
            if second.wait(0.01):
                break
            chores.processed({CLICKS: offset})
    assert seen[0] == 1
    assert len(seen) > 1


def test_nothing_is_done_where_nothing_was_processed() -> None:
    seen: list[Positions] = []
    with Chores(seen.append, every=0.001):
        pass
    assert seen == []


def test_rounds_go_on_after_one_that_fails_and_end_with_what_they_are_for() -> None:
    done, third = list[int](), threading.Event()

    def act() -> None:
        done.append(len(done))
        if len(done) == 1:
            message = "the storage is away"
            raise WorldChangeError(message)
        if len(done) == 3:
            third.set()

    with Rounds(act, every=0.001) as rounds:
        assert done == []
        rounds.begin()
        rounds.begin()
        assert third.wait(10)
    assert not any(thread.name == "rounds" for thread in threading.enumerate())


def test_the_first_round_is_at_once_and_there_is_none_before_it_is_begun() -> None:
    done = threading.Event()
    with Rounds(done.set, every=3600):
        pass
    assert not done.is_set()
    with Rounds(done.set, every=3600) as rounds:
        rounds.begin()
        assert done.wait(10)
