"""When a driver's report is written: at once what matters, now and then how far it is, every minute that it lives."""

import threading
from dataclasses import replace

import pytest

from holdfast.protocol.report import MOST_STREAMS, REPORT_INTERVAL, DriverReport, RowRates
from holdfast_runtime.coordination.reporter import APART, EVERY, Reporter, ReportMap, due, most_unread, shortened
from holdfast_runtime.coordination.row_meter import RowMeter
from tests.cli.run_events import FIRST
from tests.waiting import patience, wait_until

SAID = DriverReport(1, 100_000, batch=7, progressed=99_000, lag=5, tasks=4, partitions=8, placed=4, assignment=1)


def test_the_first_report_is_written_at_once() -> None:
    assert due(None, SAID)


@pytest.mark.parametrize(
    "change",
    [
        {"attempt": 2},
        {"assignment": 2},
        {"placed": 3},
        {"tasks": 5, "partitions": 9},
        {"held_back": "clicks/0 is silent"},
    ],
)
def test_news_is_written_but_not_twice_in_a_second(change: dict[str, int | str]) -> None:
    now = replace(SAID, **change)  # type: ignore[arg-type] # mypy wants one type for all
    assert due(SAID, replace(now, at=SAID.at + APART))
    assert not due(SAID, replace(now, at=SAID.at + APART - 1))


def test_the_first_batch_is_news_and_later_ones_are_progress() -> None:
    first_report = replace(SAID, batch=6, progressed=None)
    assert due(first_report, replace(SAID, at=SAID.at + APART))
    later = replace(SAID, batch=8, progressed=101_000, lag=0)
    assert not due(SAID, replace(later, at=SAID.at + EVERY - 1))
    assert due(SAID, replace(later, at=SAID.at + EVERY))


def test_what_holds_back_changes_without_a_write_of_its_own() -> None:
    held = replace(SAID, held_back="clicks/0")
    assert not due(held, replace(held, held_back="clicks/1", at=held.at + EVERY))


def test_an_idle_driver_gives_a_sign_of_life() -> None:
    assert not due(SAID, replace(SAID, at=SAID.at + REPORT_INTERVAL - 1))
    assert due(SAID, replace(SAID, at=SAID.at + REPORT_INTERVAL))


def test_rows_that_stop_are_news_once() -> None:
    flowing = replace(SAID, rows=RowRates(read={"clicks": 100.0}))
    later = replace(flowing, at=SAID.at + EVERY)
    assert not due(flowing, later)
    assert due(flowing, later, idle=True)
    assert not due(flowing, replace(later, at=later.at - 1), idle=True)
    assert not due(replace(flowing, rows=RowRates()), later, idle=True)


def test_a_clock_that_was_put_back_silences_nobody() -> None:
    assert due(SAID, replace(SAID, at=SAID.at - 1))


def test_a_report_stays_small_whatever_holds_back() -> None:
    assert shortened("short") == "short"
    assert shortened(None) is None
    text = shortened("é" * 10_000)
    assert text is not None
    assert len(text.encode()) <= 400
    assert text.endswith("é...")


def test_streams_of_which_most_is_unread_are_told() -> None:
    lags = {f"s{number:03}": (number, 0, number) for number in range(200)}
    reported = most_unread({**lags, "idle": ()})
    assert list(reported.items())[:2] == [("s199", 398), ("s198", 396)]
    assert len(reported) == MOST_STREAMS
    assert most_unread({"idle": (0, 0), "clicks": (3,)}) == {"clicks": 3, "idle": 0}


class _Kept(ReportMap):
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written: list[DriverReport] = []

    def write(self, report: DriverReport) -> None:
        self.written.append(report)


def test_a_written_report_has_the_last_batchs_lag_by_stream() -> None:
    reports = _Kept()
    reporter = Reporter(reports, 1, lambda: SAID.at, RowMeter(0.0))
    reporter.start()
    reporter.progressed(replace(FIRST, lag=7, lags={"clicks": (3, 0), "views": (4,)}))
    reporter.close()
    assert (reports.written[-1].lag, reports.written[-1].lags) == (7, {"views": 4, "clicks": 3})


def test_reports_have_the_rates_of_rows_until_the_driver_ends() -> None:
    reports, at = _Kept(), [SAID.at]
    reporter = Reporter(reports, 1, lambda: at[0], RowMeter(0.0), lambda: 5.0)
    reporter.start()
    assert reports.written[0].rows is None
    at[0] += REPORT_INTERVAL
    reporter.progressed(FIRST)
    wait_until(lambda: len(reports.written) > 1, 10, "the report of the batch")
    assert reports.written[1].rows == RowRates({"clicks": 1_600.0, "views": 800.0}, {"attributed": 180.0})
    reporter.close()
    assert [report.rows for report in reports.written[2:]] == [None]


class _Failing(ReportMap):
    """Its second write fails as nobody foresaw."""

    def __init__(self) -> None:
        self.written: list[DriverReport] = []
        self.failed, self.went_on = threading.Event(), threading.Event()

    def write(self, report: DriverReport) -> None:
        if self.written and not self.failed.is_set():
            self.failed.set()
            message = "an answer without a body"
            raise AttributeError(message)
        self.written.append(report)
        if self.failed.is_set():
            self.went_on.set()


def test_a_foreign_error_does_not_end_the_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_runtime.coordination.reporter._AFTER_FAILURE", 0.01)
    reports = _Failing()
    reporter = Reporter(reports, 1, lambda: SAID.at + 10 * REPORT_INTERVAL * len(reports.written), RowMeter(0.0))
    reporter.start()
    try:
        reporter.placed(1, 4, 8, 4)
        assert reports.failed.wait(patience(10))
        assert reports.went_on.wait(patience(10))
    finally:
        reporter.close()
    assert reports.written[-1].tasks == 4
