"""Apps that are only data live through everything, and give the same rows each time (`case.py` has the notation)."""

import pytest

from holdfast_runtime.testing import ALL_STEPS
from tests.apps.case import Case, cases
from tests.apps.lives import LIVES

CASES = {case.name: case for case in cases()}
FEWEST_TURNS = 3


@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("name", CASES)
def test_an_app_gives_its_rows_in_every_life(name: str, life: str) -> None:
    case = CASES[name]
    assert LIVES[life].of(case).rows == case.expected


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_case_has_enough_turns_to_die_in_and_output(case: Case) -> None:
    assert len(case.arrivals) + any(stream.bounded for stream in case.inputs) >= FEWEST_TURNS
    assert all(map(len, case.expected.values()))


def test_there_is_no_step_at_which_nobody_dies() -> None:
    cases = [CASES[name] for name in ("count-clicks", "look-up-in-broadcast-table")]
    dying = [life for life in LIVES.values() if life.deaths]
    died = {death.step for case in cases for life in dying for death in life.of(case).deaths}
    assert died == set(ALL_STEPS)
