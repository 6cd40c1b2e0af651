"""When a run ends by itself."""

import pytest

from holdfast_runtime.loop.until import Until
from holdfast_runtime.progress import Ending


@pytest.mark.parametrize(
    ("until", "batches", "seconds", "idle", "ending"),
    [
        (Until(), 10**9, 1e9, True, None),
        (Until(idle=True), 5, 1.0, False, None),
        (Until(idle=True), 5, 1.0, True, Ending.IDLE),
        (Until(batches=5), 4, 1.0, True, None),
        (Until(batches=5), 5, 1.0, False, Ending.ENOUGH),
        (Until(seconds=2.5), 9, 2.4, True, None),
        (Until(seconds=2.5), 0, 2.5, False, Ending.ENOUGH),
        (Until(idle=True, batches=5), 5, 0.0, True, Ending.ENOUGH),
    ],
)
def test_a_run_ends_when_what_it_was_given_is_reached(
    until: Until, batches: int, seconds: float, idle: bool, ending: Ending | None
) -> None:
    assert until.reached(batches=batches, seconds=seconds, idle=idle) is ending
