"""How far an app is behind: by records, by event time where records are unread, by the batch that runs."""

from dataclasses import replace

from holdfast.protocol.metrics import MOST_PARTITION_SERIES
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.driver.metrics import MeasuredApp
from holdfast_runtime.loop.task_ledger import TaskLedger
from holdfast_runtime.progress import BatchBegun, EndCause, RunEnded
from holdfast_runtime.slot.report import TaskReport
from tests.cli.run_events import AT, FIRST
from tests.metrics.served import driver_metrics, values


def test_a_stream_is_as_far_behind_as_its_worst_partition() -> None:
    seconds = values(driver_metrics(FIRST, at=AT + 60_000))
    # The watermark is `lateness` behind what was read.
    assert seconds["holdfast_partition_lag_seconds clicks 3"] == 60 + 40 - 10
    assert seconds["holdfast_partition_lag_seconds clicks 0"] == 60 + 12 - 10
    assert seconds["holdfast_partition_lag_seconds clicks 1"] == 0
    assert seconds["holdfast_stream_lag_seconds clicks"] == 90
    assert seconds["holdfast_lag_seconds"] == 90


def test_an_app_that_has_read_everything_is_not_behind() -> None:
    idle = replace(FIRST, lag=0, lags={"clicks": (0, 0)}, unread_from={})
    seconds = values(driver_metrics(idle, at=AT + 3_600_000))
    assert seconds["holdfast_stream_lag_seconds clicks"] == 0
    assert seconds["holdfast_lag_seconds"] == 0


def test_a_batch_that_does_not_end_leaves_the_app_behind() -> None:
    idle = replace(FIRST, lag=0, lags={"clicks": (0, 0)}, unread_from={})
    metrics = driver_metrics(idle, at=AT + 600_000)
    metrics.note(BatchBegun(42, AT))
    assert values(metrics)["holdfast_lag_seconds"] == 600
    assert values(metrics)["holdfast_batch_running_seconds"] == 600
    metrics.note(replace(idle, batch=42))
    assert values(metrics)["holdfast_lag_seconds"] == 0
    metrics.note(BatchBegun(43, AT))
    metrics.note(RunEnded(EndCause.DRAINED, 2, 0, 0, 1.0))
    assert values(metrics)["holdfast_batch_running_seconds"] == 0


def test_unread_records_without_event_time_have_no_seconds() -> None:
    seconds = values(driver_metrics(replace(FIRST, lags={"raw": (5,)}, unread_from={})))
    assert seconds["holdfast_stream_lag_records raw"] == 5
    assert "holdfast_stream_lag_seconds raw" not in seconds


def test_very_many_partitions_have_no_series_of_their_own() -> None:
    many = replace(FIRST, lags={"clicks": (2,) * (MOST_PARTITION_SERIES + 1)}, unread_from={"clicks": {7: AT - 30_000}})
    seconds = values(driver_metrics(many, app=MeasuredApp()))
    assert [name for name in seconds if name.startswith("holdfast_partition")] == []
    assert seconds["holdfast_stream_lag_seconds clicks"] == 30


def test_the_ledger_knows_the_marks_of_streams_and_unread_partitions() -> None:
    ledger, clicks = TaskLedger(), [StreamPartition("clicks", number) for number in range(3)]
    ledger.note(
        [
            TaskReport("t0", stream_marks={"clicks": 70, "views": None}),
            TaskReport("t1", stream_marks={"clicks": 50, "views": 90}),
            TaskReport("t2", stream_marks={"clicks": None}),
        ],
        100,
        replay=False,
    )
    readers = {partition: (f"t{partition.partition}",) for partition in clicks}
    assert ledger.watermarks() == {"clicks": 50, "views": 90}
    assert ledger.unread_from({"clicks": (3, 0, 8), "views": (0,)}, readers) == {"clicks": {0: 70}}
    assert ledger.unread_from({"clicks": (0, 1, 0)}, {clicks[1]: ("t0", "t1")}) == {"clicks": {1: 50}}
