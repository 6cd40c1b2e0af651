"""Dead letters of late rows: the reason of each, and where its row was read."""

import pyarrow as pa
import pytest

from holdfast.control.messages import EARLIEST, END_OF_TIME
from holdfast.tasks.partitions import StreamPartition
from holdfast.times import FARTHEST, micros
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.late_rows import LateRows, late_letters
from holdfast_runtime.steps.timed_rows import RowOrigin, TimedRows

MINUTE = 60_000


def rows_at(*times: int | None) -> TimedRows:
    rows = pa.RecordBatch.from_pydict({"n": pa.array(range(len(times)), pa.int64())})
    offsets = pa.array(range(100, 100 + len(times)), pa.int64())
    return TimedRows(rows, pa.array(times, pa.int64()), (RowOrigin(StreamPartition("clicks", 3), offsets),))


@pytest.mark.parametrize(
    ("time", "clock", "reason"),
    [
        (
            micros(MINUTE - 1),
            StepClock(0, 5 * MINUTE, before=2 * MINUTE),
            "1970-01-01T00:00:59.999Z is behind the watermark of 1970-01-01T00:02:00.000Z: its window has closed",
        ),
        (
            micros(2 * MINUTE) - 1,
            StepClock(0, 5 * MINUTE, before=2 * MINUTE),
            "1970-01-01T00:01:59.999999Z is behind the watermark of 1970-01-01T00:02:00.000Z: its window has closed",
        ),
        (None, StepClock(0, None, before=2 * MINUTE), "the row has no event time"),
        (None, StepClock(0, None), "the row has no event time"),
        (
            micros(9 * MINUTE) + 1,
            StepClock(0, None, before=MINUTE, horizon=9 * MINUTE),
            "1970-01-01T00:09:00.000001Z is farther ahead of the clock than eventTime.maxAhead lets it be",
        ),
        (
            -FARTHEST,
            StepClock(0, None, before=0, horizon=9 * MINUTE),
            "the year -144,169 is behind the watermark of 1970-01-01T00:00:00.000Z: its window has closed",
        ),
    ],
    ids=["behind", "just behind", "without time", "without time or watermark", "ahead", "outside of the calendar"],
)
def test_a_letter_says_why_its_row_is_late(time: int | None, clock: StepClock, reason: str) -> None:
    (letter,) = late_letters(LateRows("per-minute", rows_at(time), clock, "its window has closed")).to_pylist()
    assert (letter["step"], letter["reason"], letter["column"]) == ("per-minute", reason, None)


def test_letters_keep_the_order_and_origins_of_their_rows() -> None:
    late = LateRows("per-minute", rows_at(1, None, 2), StepClock(0, None, before=9), "its window has closed")
    letters = late_letters(late)
    assert [(one["value"], one["stream"], one["partition"], one["offset"]) for one in letters.to_pylist()] == [
        (f'{{"n":{n}}}'.encode(), "clicks", 3, 100 + n) for n in range(3)
    ]


@pytest.mark.parametrize(
    ("clock", "late"),
    [
        (StepClock(0, None, before=2), [True, True, False, False, False]),
        (StepClock(0, None, horizon=2), [False, False, False, True, False]),
        (StepClock(0, None, before=EARLIEST, horizon=END_OF_TIME), [False] * 5),
        (StepClock(0, None, before=END_OF_TIME - 1), [True, True, True, True, False]),
    ],
    ids=["before", "horizon", "never", "for ever"],
)
def test_lateness_is_exact_to_the_microsecond_at_any_watermark(clock: StepClock, late: list[bool]) -> None:
    times = pa.array([0, 1_999, 2_000, 2_001, None], pa.int64())
    assert clock.late(times).to_pylist() == late
