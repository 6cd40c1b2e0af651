"""Rows a second, as a report tells them: over the time of whole batches, through pauses, long batches and restarts."""

from holdfast.protocol.report import MOST_STREAMS, RowRates
from holdfast_runtime.coordination.row_meter import RowMeter

NOTHING = RowRates()


def meter(*ends: float, rows: int = 100, seconds: float = 0.01, interval: float = 0.0) -> RowMeter:
    """A meter that began at 0, after a batch of so many rows at each of these times."""
    metered = RowMeter(0.0, interval)
    for end in ends:
        batch(metered, end, rows, seconds)
    return metered


def batch(metered: RowMeter, end: float, rows: int, seconds: float = 0.01) -> None:
    metered.count(end, seconds, {"clicks": rows, "idle": 0}, {"out": rows // 2})


def read(metered: RowMeter, now: float) -> float | None:
    """The rate of what is read; None: it is not known."""
    rates = metered.rates(now)
    return None if rates is None else rates.read.get("clicks", 0.0)


def test_nothing_is_known_before_the_first_batch() -> None:
    metered = meter()
    assert metered.rates(60.0) is None
    assert metered.rates(120.0) is None


def test_many_short_batches_are_one_rate() -> None:
    metered = meter(*(at / 100 for at in range(1, 501)))
    assert metered.rates(5.0) == RowRates({"clicks": 10_000.0}, {"out": 5_000.0})
    for at in range(501, 601):
        batch(metered, at / 100, 10)
    assert read(metered, 6.0) == 1_000.0


def test_a_new_attempt_counts_from_zero_as_rows_flow() -> None:
    before = meter(1.0, 2.0, rows=1_000_000)
    assert read(before, 2.0) == 1_000_000.0
    after = RowMeter(100.0)
    assert after.rates(101.0) is None
    batch(after, 104.0, 100)
    assert read(after, 104.0) == 25.0


def test_idle_streams_are_at_zero_and_left_out() -> None:
    metered = meter(1.0, 2.0)
    assert read(metered, 2.0) == 100.0
    assert read(metered, 11.0) == 100.0
    assert not metered.idle(11.0)
    assert metered.idle(12.5)
    assert metered.rates(12.5) == NOTHING
    assert metered.rates(70.0) == NOTHING


def test_batches_without_rows_are_zero_at_once() -> None:
    metered = meter(1.0, 2.0)
    metered.rates(2.0)
    batch(metered, 7.0, 0)
    assert metered.rates(7.0) == NOTHING


def test_a_long_pause_counts_only_in_part() -> None:
    metered = meter(1.0)
    metered.rates(1.0)
    metered.rates(3_600.0)
    batch(metered, 3_601.0, 1_000)
    assert read(metered, 3_601.0) == 99.9


def test_a_batch_longer_than_reports_are_apart_keeps_the_rate() -> None:
    metered = meter(60.0, rows=60_000, seconds=60.0)
    assert read(metered, 60.0) == 1_000.0
    assert read(metered, 179.0) == 1_000.0
    assert not metered.idle(179.0)
    metered.count(180.0, 120.0, {"clicks": 60_000}, {})
    assert metered.rates(180.0) == RowRates({"clicks": 500.0})


def test_a_batch_that_waits_for_a_broker_does_not_flow() -> None:
    metered = meter(1.0, 2.0)
    metered.rates(2.0)
    assert metered.rates(62.0) == NOTHING
    metered.count(302.0, 300.0, {"clicks": 600}, {})
    assert read(metered, 302.0) == 2.0


def test_after_a_very_long_batch_rows_stop_within_minutes() -> None:
    metered = meter(3_600.0, seconds=3_600.0)
    metered.rates(3_600.0)
    assert not metered.idle(3_899.0)
    assert metered.idle(3_901.0)


def test_batches_at_long_intervals_are_no_pauses() -> None:
    metered = meter(60.0, rows=600, interval=60.0)
    assert read(metered, 60.0) == 10.0
    assert not metered.idle(119.0)
    batch(metered, 120.0, 1_200)
    assert read(metered, 120.0) == 20.0
    assert metered.idle(241.0)


def test_streams_with_most_rows_are_told_in_three_digits() -> None:
    metered = RowMeter(0.0)
    metered.count(3.0, 3.0, {f"s{number:05}": number for number in range(10_000)}, {"a": 1, "b": 0})
    rates = metered.rates(3.0)
    assert rates is not None
    assert len(rates.read) == MOST_STREAMS
    assert list(rates.read.items())[:2] == [("s09999", 3330.0), ("s09998", 3330.0)]
    assert rates.written == {"a": 0.333}
