"""What is away is waited for until the run is to end; a lost race, for a while."""

import threading

import pytest

from holdfast.errors import AwayError, RetrySoonError, UserActionError
from holdfast_runtime.loop.stopping import WaitEndedError, patiently


class Slots:
    """A batch that fails as it is told, and what is heard of it; each try takes ten seconds."""

    def __init__(self, *failures: Exception) -> None:
        self.failures, self.waited, self.seconds = list(failures), list[str](), 0.0
        self.drain = threading.Event()

    def result(self, drained_after: int | None = None) -> str:
        def run() -> str:
            self.seconds += 10
            if drained_after is not None and self.seconds > drained_after:
                self.drain.set()
            if self.failures:
                raise self.failures.pop(0)
            return "done"

        return patiently(run, lambda error: self.waited.append(str(error)), self.drain, lambda: self.seconds)


def test_what_is_away_is_waited_for_without_limit() -> None:
    slots = Slots(*[AwayError("brokers are away")] * 50)
    assert slots.result() == "done"
    assert slots.waited == ["brokers are away"] * 50


def test_a_race_is_not_lost_for_ever() -> None:
    assert Slots(*[RetrySoonError("taken")] * 3).result() == "done"
    with pytest.raises(RetrySoonError, match="taken"):
        Slots(*[RetrySoonError("taken")] * 9).result()


@pytest.mark.parametrize("error", [AwayError("brokers are away."), RetrySoonError("taken.")])
def test_a_run_that_is_to_end_waits_no_more(error: RetrySoonError) -> None:
    slots = Slots(*[error] * 50)
    with pytest.raises(WaitEndedError, match=str(error)):
        slots.result(drained_after=20)
    assert slots.seconds == 30


def test_a_possible_batch_is_done_though_the_run_shall_end() -> None:
    slots = Slots()
    slots.drain.set()
    assert slots.result() == "done"


def test_what_no_waiting_helps_is_raised_at_once() -> None:
    with pytest.raises(UserActionError, match="no"):
        Slots(UserActionError("no")).result()
