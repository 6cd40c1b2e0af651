"""What is read ahead comes in order, and only so much of it is there at a time."""

import threading

import pytest

from holdfast_runtime.state.durable.reading_ahead import read_ahead
from tests.waiting import patience


@pytest.mark.parametrize("many", [0, 1, 2, 3, 8, 50])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 20])
def test_all_is_read_in_its_order(count: int, many: int) -> None:
    assert [*read_ahead(range(count), lambda number: number * number, many)] == [number**2 for number in range(count)]


@pytest.mark.parametrize("many", [1, 2, 5])
def test_what_was_read_and_not_taken_stays_below_the_bound(many: int) -> None:
    reads, lock, yielded = 0, threading.Lock(), 0

    def read(number: int) -> int:
        nonlocal reads
        with lock:
            reads += 1
            assert reads - yielded <= many
        return number

    for number in read_ahead(range(30), read, many):
        yielded = number + 1


def test_as_many_are_read_at_once_as_are_asked_for() -> None:
    meeting = threading.Barrier(4)

    def read(number: int) -> int:
        meeting.wait(patience(20))
        return number

    assert [*read_ahead(range(8), read, 4)] == [*range(8)]


@pytest.mark.parametrize("many", [1, 3])
def test_a_failure_comes_at_its_place(many: int) -> None:
    def read(number: int) -> int:
        if number == 5:
            message = "the sixth"
            raise ValueError(message)
        return number

    came = list[int]()
    with pytest.raises(ValueError, match="the sixth"):
        came.extend(read_ahead(range(9), read, many))
    assert came == [*range(5)]
