"""When a run ends by itself."""

import pytest

from holdfast_runtime.loop.stopping import StopCondition
from holdfast_runtime.progress import EndCause


@pytest.mark.parametrize(
    ("until", "batches", "seconds", "idle", "ending"),
    [
        (StopCondition(), 10**9, 1e9, True, None),
        (StopCondition(idle=True), 5, 1.0, False, None),
        (StopCondition(idle=True), 5, 1.0, True, EndCause.IDLE),
        (StopCondition(batches=5), 4, 1.0, True, None),
        (StopCondition(batches=5), 5, 1.0, False, EndCause.ENOUGH),
        (StopCondition(seconds=2.5), 9, 2.4, True, None),
        (StopCondition(seconds=2.5), 0, 2.5, False, EndCause.ENOUGH),
        (StopCondition(idle=True, batches=5), 5, 0.0, True, EndCause.ENOUGH),
    ],
)
def test_a_run_ends_when_what_it_was_given_is_reached(
    until: StopCondition, batches: int, seconds: float, idle: bool, ending: EndCause | None
) -> None:
    assert until.reached(batches=batches, seconds=seconds, idle=idle) is ending
