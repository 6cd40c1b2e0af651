"""Starts that a busy host is too slow for: waited for longer each time, and given up in the end."""

import pytest

from holdfast_runtime.driver.patience import WAITS, StartPatience
from holdfast_runtime.spark.session import HostTooBusyError, started_in_time, too_busy

BUSY = HostTooBusyError("a Python process took longer to start than the ten seconds that Spark waits")


def test_each_wait_doubles_until_an_error_says_the_cure() -> None:
    patience = StartPatience()
    assert [patience.wait(BUSY)[0] for _ in WAITS] == [1, 2, 4, 8, 16, 32]
    with pytest.raises(HostTooBusyError, match=r"7 times in a row over more than 63 s.*Nothing is lost: give .* CPU"):
        patience.wait(BUSY)


def test_each_start_is_said_in_one_line() -> None:
    patience = StartPatience()
    patience.wait(BUSY)
    assert patience.wait(BUSY)[1] == f"{BUSY}. It starts again by itself in 2 s (2 of 6)"


def test_a_batch_that_is_done_gives_patience_back() -> None:
    patience = StartPatience()
    for _ in WAITS:
        patience.wait(BUSY)
    patience.healthy()
    assert patience.wait(BUSY)[0] == 1


def test_only_sparks_word_of_late_processes_means_a_busy_host() -> None:
    assert too_busy(ValueError("Python worker exited unexpectedly (crashed)")) is None
    assert too_busy(RuntimeError("org.apache.spark.SparkException: Python worker failed to connect back.")) is not None
    with pytest.raises(ValueError, match="else"), started_in_time():
        raise ValueError("something else")  # noqa: EM101
