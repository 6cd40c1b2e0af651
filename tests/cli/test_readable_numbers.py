"""Numbers, times and lengths of time on screens can be read at a glance, whatever a run has met.

Drawn are what clocks, streams and users' data may hold: event times of any year, numbers of any size, waits of years.
"""

import io
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from holdfast.spec.values import millis
from holdfast.times import event_moment, exact_span, file_moment, time_span
from holdfast_cli.cluster.app import read_app, read_apps
from holdfast_cli.cluster.status_view import print_app, print_apps
from holdfast_cli.output.amounts import rate, size, span
from holdfast_cli.run.totals import RunTotals
from holdfast_cli.run.views import print_block, print_summary, progress_line
from holdfast_runtime.progress import BufferedRows, Progress, RunEnded, TablesLoading
from tests.cli.run_events import ENDED, FILES, FIRST, STARTED
from tests.cli.status_objects import NOW, Trees, app, report

MOST = {"ms": 999, "s": 59, "min": 59, "h": 47}
AMOUNT = re.compile(r"(?<![0-9,.])([0-9][0-9,]*)(?:\.[0-9])? (ms|s|min|h)\b")


def unreadable(text: str) -> list[str]:
    """What can't be read at a glance: long runs of digits, lengths of time in too small a unit, `11 of 4`."""
    digits = re.findall(r"[0-9]{5,}", text)
    units = [f"{number} {unit}" for number, unit in AMOUNT.findall(text) if int(number.replace(",", "")) > MOST[unit]]
    parts = re.findall(r"([0-9,]+) of ([0-9,]+)", text)
    more = [f"{a} of {b}" for a, b in parts if int(a.replace(",", "")) > int(b.replace(",", ""))]
    return [*digits, *units, *more]


NUMBERS = st.integers(0, 10**15)
MOMENTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-62_135_596_800_000, 253_402_300_799_999)
SECONDS = st.floats(0, 3e9).map(lambda seconds: round(seconds, 6))
"""A clock has no parts of a microsecond."""
BATCHES = st.builds(
    replace,
    st.just(FIRST),
    batch=NUMBERS,
    tasks=st.integers(0, 10**6),
    lag=NUMBERS,
    rows_in=NUMBERS,
    rows_out=NUMBERS,
    seconds=SECONDS,
    phases=st.dictionaries(st.sampled_from(["plan", "spark"]), st.floats(0, 1e12)),
    watermark=MOMENTS | st.none(),
    held_back=st.none(),
    state_bytes=NUMBERS,
    buffered=st.builds(lambda *row: {"matched.left": BufferedRows(*row)}, NUMBERS, NUMBERS, MOMENTS | st.none()),
    loading=st.dictionaries(st.just("owners"), st.integers(1, 10**15)),
    late=st.builds(lambda rows: {"first": rows}, NUMBERS),
    streams=st.builds(lambda rows: {"out": rows}, NUMBERS),
)


def screens(batches: list[Progress], pauses: list[float], left: int) -> str:
    """All that `holdfast run` shows of these batches."""
    file, totals, now = io.StringIO(), RunTotals(), 0.0
    console = Console(file=file, width=10_000)
    totals.note(STARTED, now)
    for batch, pause in zip(batches, pauses, strict=False):
        now += pause
        totals.note(batch, now)
        file.write("\n".join([progress_line(totals, batch), *totals.fresh, ""]))
    totals.note(TablesLoading({"owners": left} if batches[-1].loading else {}, {}), now + 5)
    print_block(console, totals)
    totals.note(RunEnded(ENDED.ending, 10**6, 10**12, 10**12, now), now + 9)
    print_summary(console, totals, FILES, failed=False)
    return file.getvalue().replace(STARTED.spark_ui or "", "")


@given(st.lists(BATCHES, min_size=1, max_size=3), st.lists(SECONDS, min_size=3, max_size=3), NUMBERS)
def test_whatever_a_run_has_met_its_screens_can_be_read(
    batches: list[Progress], pauses: list[float], left: int
) -> None:
    text = screens(batches, pauses, left)
    assert unreadable(text) == [], text
    assert not re.search(r"-[0-9]+ %", text)


@given(NUMBERS, NUMBERS, st.integers(0, 4), st.integers(0, NOW))
def test_whatever_a_driver_reports_its_status_can_be_read(lag: int, batch: int, placed: int, at: int) -> None:
    maps = (report(lag=lag, batch=batch, placed=placed, at=at, progressed=at, partitions=lag, waiting=lag),)
    trees, file = Trees(app(), maps=maps), io.StringIO()
    console = Console(file=file, width=10_000)
    print_app(console, read_app(trees, "apps", "ads"), NOW, all_tasks=False)
    print_apps(console, read_apps(trees, "apps"), NOW, namespace="apps")
    assert unreadable(file.getvalue()) == [], file.getvalue()


def test_before_an_attempts_first_batch_its_lag_is_not_known() -> None:
    trees, file = Trees(app(), maps=(report(progressed=None, batch=0, lag=0),)), io.StringIO()
    console = Console(file=file, width=10_000)
    print_app(console, read_app(trees, "apps", "ads"), NOW, all_tasks=False)
    assert "lag         not known before the first batch of this attempt" in file.getvalue()
    print_apps(console, read_apps(trees, "apps"), NOW, namespace="apps")
    assert re.search(r"4/4 +- +- ", file.getvalue())


@given(MOMENTS, st.integers(0, 10**15))
def test_any_time_and_any_length_of_time_can_be_read(moment: int, length: int) -> None:
    assert unreadable(f"{event_moment(moment)}, {span(length / 1000)} behind, {size(length)}, {rate(length)}") == []
    assert millis(exact_span(length)) == length


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (event_moment(1_763_000_000_000_000_000), "the year 55,869,215"),
        (event_moment(-(10**15)), "the year -29,719"),
        (file_moment(1_763_000_000_000_000_007), "2025-11-13T02:13:20.000000007Z"),
        (exact_span(5_400_500), "1h30m500ms"),
        (exact_span(0), "0s"),
        (time_span(23_213_700_000), "268 d"),
        (time_span(10**14), "3,168 y"),
        (span(0.9996), "1.0 s"),
        (span(9.96), "10 s"),
        (span(23_213_700), "268 d 16 h"),
        (span(10**11), "3,170 y 357 d"),
        (size(999_960), "1.0 MB"),
    ],
)
def test_a_time_is_shown_in_the_unit_that_it_has(text: str, shown: str) -> None:
    assert text == shown
