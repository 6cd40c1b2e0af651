"""Visits, the input of the windows' benchmarks: equal work in each batch and nothing late, or figures mean nothing."""

from itertools import product

import numpy as np
import pytest

from bench.engine.data import MINUTE, Visits
from bench.engine.files import FIRST_TIME

SIZES = (
    Visits(6, 4_000, 400, 400),
    Visits(5, 4_000, 200, 200),
    Visits(5, 4_000, 400, 20_000),
    Visits(5, 6_400, 640, 5_000),
)


def minutes(visits: Visits, number: int) -> np.ndarray:
    """The minute of each row of a batch."""
    _, _, millis = visits.batch(number)
    return np.asarray((millis - FIRST_TIME * 1000) // (MINUTE * 1000))


@pytest.mark.parametrize("visits", SIZES, ids=str)
def test_later_batches_touch_as_many_counts_and_open_nine_tenths(visits: Visits) -> None:
    known = set[tuple[int, int]]()
    for number in range(visits.filling + visits.batches):
        keys, amounts, _ = visits.batch(number)
        assert len(keys) == len(amounts) == visits.rows
        touched = set(zip(keys.tolist(), minutes(visits, number).tolist(), strict=True))
        if number >= visits.filling:
            assert (len(touched), len(touched - known)) == (visits.counts, visits.fresh)
        known |= touched


@pytest.mark.parametrize("visits", SIZES, ids=str)
def test_the_first_batches_make_the_counts_that_are_held(visits: Visits) -> None:
    keys = np.concatenate([visits.batch(number)[0] for number in range(visits.filling)])
    assert abs(len(np.unique(keys)) - visits.held) <= visits.fresh
    assert max(minutes(visits, number).max() for number in range(visits.filling)) == visits.lateness - 1


@pytest.mark.parametrize("visits", SIZES, ids=str)
def test_no_visit_is_behind_earlier_batches_beyond_the_lateness(visits: Visits) -> None:
    newest = 0
    for number in range(visits.filling + visits.batches):
        _, _, millis = visits.batch(number)
        assert millis.min() >= newest - visits.lateness * MINUTE * 1000
        newest = max(newest, millis.max())


@pytest.mark.parametrize(("visits", "tasks"), [*product(SIZES, [2]), *product(SIZES[3:], [16, 64])], ids=str)
def test_tasks_get_equally_many_visits_of_each_batch(visits: Visits, tasks: int) -> None:
    for number in range(visits.filling + visits.batches):
        assert set(np.bincount(visits.batch(number)[0] % tasks, minlength=tasks)) == {visits.rows // tasks}


@pytest.mark.parametrize("visits", SIZES, ids=str)
def test_compared_windows_are_closed_by_the_last_batch_but_one(visits: Visits) -> None:
    _, _, millis = visits.batch(visits.filling + visits.batches - 2)
    assert visits.closed > FIRST_TIME
    assert visits.closed * 1000 <= millis.max() - visits.lateness * MINUTE * 1000
