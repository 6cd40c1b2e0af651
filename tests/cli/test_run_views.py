"""What a run looks like: on a terminal of 80 by 24, in a log, and when it is over."""

import io
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from holdfast.times import event_moment
from holdfast_cli.output.amounts import count, many, rate, size, span
from holdfast_cli.output.live import LiveView
from holdfast_cli.run.totals import RunTotals
from holdfast_cli.run.views import TextView, print_block
from holdfast_runtime.progress import ClockJumped, EndCause, Event, Freed, RunDraining, RunEnded
from tests.cli.run_events import AT, ENDED, FILES, FIRST, STARTED, batches, seen_after

LINE_UP = "\x1b[1A\x1b[2K"


def drawn(totals: RunTotals, now: float) -> list[str]:
    """The block on a terminal."""
    file = io.StringIO()
    totals.note(None, now)
    print_block(Console(file=file, width=200), totals)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def printed(events: list[tuple[float, Event]], failure: Exception | None = None) -> list[str]:
    """The lines of a run whose events come at these seconds."""
    file = io.StringIO()
    view, totals = TextView(Console(file=file, width=10_000, soft_wrap=True), FILES), RunTotals()
    for now, event in events:
        totals.note(event, now)
        view.show(event, totals)
    view.over(totals, failure)
    return file.getvalue().splitlines()


def test_the_block_on_a_terminal_shows_how_it_goes() -> None:
    assert drawn(seen_after(3), 3.5) == [
        "3.5 s  Ctrl-C finishes the batch and ends; twice stops at once",
        "batch      43, 16 tasks",
        "in         36,000 (10.3 k/s)",
        "out        2,700 (771/s)",
        "lag        4,321, most in clicks/3: 4,000",
        "took       182 ms",
        "watermark  2026-11-20T12:26:56.000Z",
        "           14 s behind",
        "so far     late 7, undecoded 1, tombstones 3, failed 4, misplaced 2, restored 1",
        f"held back  {FIRST.held_back}",
        "state      12.3 MB",
        "phases     plan 12 ms, spark 34 ms, fetch 20 ms, steps 88 ms, write 10 ms, commit 17 ms",
        "",
        "OUTPUT       ROWS  ROWS/S",
        "attributed  2,700   771/s",
    ]


def test_the_block_says_what_is_waited_for() -> None:
    assert drawn(RunTotals(started_at=1.0), 5.0)[1:] == ["starting ..."]
    assert drawn(seen_after(0), 1.0)[1:] == ["waiting for the first batch ..."]
    assert drawn(seen_after(3, draining=True), 3.5)[0] == "3.5 s  draining"


def test_a_batch_that_takes_long_shows_since_when() -> None:
    assert "batch      43, 16 tasks, 27 s ago" in drawn(seen_after(3), 30.0)


def test_what_was_freed_is_told_once() -> None:
    totals = RunTotals()
    totals.note(replace(FIRST, batch=7, freed=Freed(3, 12_345_678), restored=()), 1.0)
    assert totals.fresh[0] == "batch 7: removed 3 local stores that nothing needs any more, 12.3 MB"
    totals.note(replace(FIRST, batch=8, restored=()), 2.0)
    assert not any("removed" in one for one in totals.fresh)


@given(st.integers(20, 200), st.integers(3, 60), st.integers(0, 40), st.integers(0, 40))
def test_the_block_fits_any_terminal(width: int, height: int, outputs: int, restored: int) -> None:
    file = io.StringIO()
    console = Console(file=file, width=width, height=height, force_terminal=True, color_system=None)
    streams = {f"stream-{i:02}-{'x' * 30}": i for i in range(outputs)}
    tasks = tuple(f"partition-{i}: no local store" for i in range(restored))
    totals = RunTotals()
    with LiveView(console, print_block, transient=True) as live:
        view = TextView(console, FILES, live)
        for now in range(3):
            event = replace(FIRST, streams=streams, restored=tasks) if now else STARTED
            totals.note(event, now)
            view.show(event, totals)
    removed = [len(one) // len(LINE_UP) for one in re.findall(f"(?:{re.escape(LINE_UP)})+", file.getvalue())]
    assert max(removed) < height, "more can't be drawn anew"
    view.over(totals, None)
    assert "rows in 24,000" in file.getvalue()


def test_lines_come_at_most_each_second_and_at_the_end() -> None:
    events: list[tuple[float, Event]] = [(0.0, STARTED)]
    events += [(1.0 + i / 10, replace(FIRST, batch=i, restored=())) for i in range(25)]
    lines = printed([*events, (3.5, ENDED)])
    assert [line.split(":")[0] for line in lines if line.startswith("batch")] == [
        "batch 0",
        "batch 10",
        "batch 20",
        "batch 24",
    ]


def test_what_is_notable_is_said_at_once_not_every_batch() -> None:
    late = [replace(FIRST, batch=i, late={"first": 2}, restored=()) for i in range(30)]
    events: list[tuple[float, Event]] = [(0.0, STARTED), *((0.5 * i, event) for i, event in enumerate(late))]
    lines = printed(events)
    assert [line for line in lines if line.endswith("too late for first")] == [
        "batch 0: 2 rows too late for first",
        "batch 20: 2 rows too late for first",
    ]
    assert any(line.startswith("batch 29: ") and line.endswith("late 60") for line in lines)


def test_late_rows_are_said_for_each_step_and_counted_together() -> None:
    late = replace(FIRST, batch=7, late={"per-minute": 3, "first": 1}, restored=())
    lines = printed([(0.0, STARTED), (1.0, late)])
    assert "batch 7: 3 rows too late for per-minute, 1 row too late for first" in lines
    assert any(line.startswith("batch 7: in ") and line.endswith("late 4") for line in lines)


def test_rows_from_the_future_and_a_set_clock_are_said() -> None:
    ahead = replace(FIRST, batch=7, ahead=2, first_ahead="clicks/0 at offset 7: ts is 2099-01-01", restored=())
    lines = printed([(0.0, STARTED), (1.0, ahead), (2.0, ClockJumped("the host's clock was put back by 8 h"))])
    assert "batch 7: 2 rows from the future: clicks/0 at offset 7: ts is 2099-01-01" in lines
    assert any("from the future 2" in line for line in lines)
    assert "the host's clock was put back by 8 h" in lines


def test_rows_that_kafka_deletes_are_said() -> None:
    expired = replace(FIRST, batch=7, expired={"totals": 900}, restored=())
    lines = printed([(0.0, STARTED), (1.0, expired)])
    assert "batch 7: 900 rows of totals older than its topic keeps records: Kafka deletes them" in lines
    assert any(line.startswith("batch 7: in ") and line.endswith("expired 900") for line in lines)


def test_a_run_in_a_log() -> None:
    first, second, third = batches(3)
    rest = "lag 4,321, took 182 ms, watermark 2026-11-20T12:26:56.000Z"
    odd = "late 7, undecoded 1, tombstones 3, failed 4, misplaced 2, restored 1"
    assert printed([(0.0, STARTED), (1.0, first), (1.5, second), (1.9, third), (1.9, RunDraining()), (2.0, ENDED)]) == [
        "ad-clicks run 1 attempt 3: 16 tasks in 2 slots, data .holdfast/ad-clicks, spark http://127.0.0.1:4040",
        'each batch is a Spark job, because of step valid, filter: "initcap(user) <> user"',
        "batch 41: restored partition-3: no local store",
        f"batch 41: in 12,000 (12.0 k/s), out 900 (900/s), {rest}, restored 1",
        "batch 43: 1 record could not be decoded",
        "batch 43: 4 rows of step paid failed and became dead letters",
        "batch 43: 2 records of clicks misplaced: a producer has not seen it grow",
        "batch 43: 7 rows too late for first",
        "draining: finishing batch 44, press Ctrl-C again to stop at once",
        f"batch 43: in 36,000 (18.0 k/s), out 2,700 (1.4 k/s), {rest}, {odd}",
        "idle: nothing is left to read; everything is committed",
        "  10 batches in 12 s",
        "  rows in 120,000 (10.0 k/s), out 9,000",
        f"  {odd}",
        "  data .holdfast/ad-clicks",
        "",
        "OUTPUT       ROWS  LOOK",
        "attributed  2,700  holdfast tail app.yaml attributed --from-beginning",
    ]


@pytest.mark.parametrize("ending", EndCause)
def test_the_summary_says_why_it_ended(ending: EndCause) -> None:
    lines = printed([(0.0, STARTED), (1.0, replace(ENDED, ending=ending))])
    assert [line for line in lines if line.startswith(f"{ending.value}: ") and "everything is committed" in line]


def test_the_summary_says_what_no_watermark_waits_for() -> None:
    waiting = replace(FIRST, watermark=None, held_back="clicks/3: no watermark yet, for 17 s: waiting for its source")
    line = f"  held back {waiting.held_back}"
    assert line in printed([(0.0, STARTED), (1.0, waiting), (2.0, replace(ENDED, rows_out=0))])
    # Where rows have come out, nobody need be told.
    assert line not in printed([(0.0, STARTED), (1.0, waiting), (2.0, ENDED)])
    assert not any("held back" in line for line in printed([(0.0, STARTED), (1.0, FIRST), (2.0, ENDED)]))


def test_a_failed_run_says_its_place_and_where_to_look() -> None:
    lines = printed([(0.0, STARTED), (1.0, FIRST)], ValueError("x"))
    assert any(line.startswith("failed: ") for line in lines)
    assert "  what was printed meanwhile: .holdfast/ad-clicks/apps/ad-clicks/spark.log" in lines


def test_a_run_that_never_started_has_no_summary() -> None:
    assert printed([], ValueError("x")) == []


def test_the_command_to_look_names_the_given_data() -> None:
    assert FILES.tail("out") == "holdfast tail app.yaml out --from-beginning"
    elsewhere = replace(FILES, data="/tmp/a b", data_given=True)  # noqa: S108 - nothing is written there
    assert elsewhere.tail("out") == "holdfast tail app.yaml out --from-beginning --data '/tmp/a b'"


def rate_at(totals: RunTotals, now: float) -> float:
    totals.note(None, now)
    return totals.rate(lambda batch: batch.rows_in)


def test_rates_are_smoothed_and_fall_when_nothing_comes() -> None:
    totals = seen_after(30)
    assert rate_at(totals, 30.0) == pytest.approx(12_000)
    assert rate_at(totals, 35.0) == pytest.approx(6_000)
    assert rate_at(totals, 41.0) == 0
    assert len(totals.recent) <= 11


def test_rates_of_batches_longer_than_the_window_do_not_jump() -> None:
    totals = RunTotals()
    totals.note(STARTED, 0.0)
    for i in range(1, 4):
        totals.note(replace(FIRST, rows_in=3_000, seconds=30.0), 30.0 * i)
    assert rate_at(totals, 90.0) == pytest.approx(100)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (count(1_234_567), "1,234,567"),
        (rate(0.4), "0.4/s"),
        (rate(3), "3/s"),
        (rate(771.4), "771/s"),
        (rate(999.6), "1.0 k/s"),
        (rate(123_456), "123.5 k/s"),
        (rate(2_500_000), "2.5 M/s"),
        (size(0), "0 B"),
        (size(999), "999 B"),
        (size(12_345_678), "12.3 MB"),
        (size(5 * 10**15), "5.0 PB"),
        (span(0.1824), "182 ms"),
        (span(-1), "0 ms"),
        (span(3.21), "3.2 s"),
        (span(59.7), "1 min 0 s"),
        (span(192), "3 min 12 s"),
        (span(7_500), "2 h 5 min"),
        (event_moment(AT), "2026-11-20T12:27:08.000Z"),
        (many(1, "batch"), "1 batch"),
        (many(2, "batch"), "2 batches"),
        (many(1_000, "task"), "1,000 tasks"),
    ],
)
def test_numbers_are_readable(text: str, shown: str) -> None:
    assert text == shown


def test_an_end_counts_what_the_engine_counted() -> None:
    lines = printed([(0.0, STARTED), (1.0, RunEnded(EndCause.COMPLETED, 1, 5, 3, 0.0))])
    assert "  1 batch in 0 ms" in lines
    assert "  rows in 5, out 3" in lines
