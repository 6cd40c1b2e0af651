"""What a driver's log says, and how often."""

import logging
from dataclasses import replace

import pytest

from holdfast_runtime.driver.pod import DriverLog
from holdfast_runtime.progress import AttemptStarted, ClockJumped, EndCause, Freed, Progress, RunDraining, RunEnded


def progress(batch: int, restored: tuple[str, ...] = ()) -> Progress:
    return Progress(batch, batch, 1, 2, 10, 9, 100, 5, 0.1, restored=restored)


@pytest.fixture
def clock() -> list[int]:
    return [1_000_000]


@pytest.fixture
def log(clock: list[int], caplog: pytest.LogCaptureFixture) -> DriverLog:
    caplog.set_level(logging.INFO, "holdfast")
    return DriverLog(lambda: clock[0])


def test_progress_is_said_once_a_minute_for_all_its_batches(
    log: DriverLog, clock: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    for batch in range(1, 100):
        log.listen(progress(batch))
    clock[0] += 60_000
    log.listen(progress(100))
    assert [line for line in caplog.messages if line.startswith("batch")] == [
        "batch 1 (1 since the last line, 10 rows in, 9 out), lag 5",
        "batch 100 (99 since the last line, 990 rows in, 891 out), lag 5",
    ]


def test_what_was_restored_is_said_at_once_without_flooding(log: DriverLog, caplog: pytest.LogCaptureFixture) -> None:
    log.listen(progress(1, tuple(f"partition-{at}: there is no local store" for at in range(25))))
    lines = [line for line in caplog.messages if line.startswith("restored")]
    assert lines[0] == "restored partition-0: there is no local store"
    assert (len(lines), lines[-1]) == (11, "restored 15 more tasks")


def test_what_was_freed_is_said_at_once(log: DriverLog, caplog: pytest.LogCaptureFixture) -> None:
    log.listen(progress(1))
    log.listen(replace(progress(2), freed=Freed(3, 12_345_678)))
    assert caplog.messages[1:] == ["3 local stores that nothing needs any more are removed, 12345678 bytes"]


def test_rows_from_the_future_are_counted_naming_the_first(
    log: DriverLog, clock: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    log.listen(progress(1))
    log.listen(replace(progress(2), ahead=3, first_ahead="clicks/0 at offset 7: ts is 2099-01-01"))
    log.listen(replace(progress(3), ahead=2, first_ahead="clicks/1 at offset 1: ts is 2098-01-01"))
    clock[0] += 60_000
    log.listen(progress(4))
    lines = [line for line in caplog.messages if "future" in line]
    assert lines == ["5 rows from the future since the last line, for example clicks/0 at offset 7: ts is 2099-01-01"]


def test_a_clock_that_was_set_is_said_at_once(log: DriverLog, caplog: pytest.LogCaptureFixture) -> None:
    log.listen(ClockJumped("the host's clock was put back by 3650 d"))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.messages == ["the host's clock was put back by 3650 d"]


def test_begin_and_end_are_said(log: DriverLog, caplog: pytest.LogCaptureFixture) -> None:
    log.listen(AttemptStarted("ads", "1", 2, 4, 2, "/shared", None, (), spark_sql=("step a", "step b")))
    log.listen(RunDraining())
    log.listen(RunEnded(EndCause.DRAINED, 3, 30, 27, 1.0))
    assert caplog.messages == [
        "ads run 1 attempt 2: 4 tasks in 2 slots, data /shared",
        "each batch is a Spark job, because of step a, step b",
        "draining: the current batch is finished first",
        "drained: 3 batches, 30 rows in, 27 out",
    ]


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        ({"misplaced": {"clicks": 7}}, "14 records of clicks misplaced: a producer has not seen it grow"),
        ({"expired": {"totals": 4}}, "8 rows of totals older than its topic keeps records: Kafka deletes them"),
    ],
)
def test_what_was_counted_is_said_with_the_next_line(
    counts: dict[str, dict[str, int]], line: str, log: DriverLog, clock: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    log.listen(progress(1))
    for batch in (2, 3):
        log.listen(replace(progress(batch), **counts))  # type: ignore[arg-type]
    clock[0] += 60_000
    log.listen(progress(4))
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [line]


def test_failed_rows_are_said_by_step_with_the_next_line(
    log: DriverLog, clock: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    log.listen(progress(1))
    for batch in (2, 3):
        log.listen(replace(progress(batch), failed={"paid": 7}))
    for batch in (4, 5):
        clock[0] += 60_000
        log.listen(progress(batch))
    assert [line for line in caplog.messages if "failed" in line] == [
        "14 rows on which step paid failed became dead letters"
    ]


def test_late_rows_are_said_by_step_with_the_next_line(
    log: DriverLog, clock: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    log.listen(progress(1))
    for late in ({"first": 2}, {"first": 1, "per-minute": 5}):
        log.listen(replace(progress(2), late=late))
    for batch in (4, 5):
        clock[0] += 60_000
        log.listen(progress(batch))
    assert [line for line in caplog.messages if "late" in line] == [
        "3 rows too late for step first",
        "5 rows too late for step per-minute",
    ]
