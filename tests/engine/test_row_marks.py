"""Marks of rows do not depend on the ranges in which a partition is read."""

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.bookkeeping import Bookkeeping, ControlInputs
from holdfast.control.messages import ControlMessage, MessageNumber, WatermarkMessage
from holdfast.control.producers import Delivery, Producers
from holdfast.tasks.partitions import StreamPartition
from holdfast.times import micros
from holdfast_runtime.slot.clock.row_marks import marked_rows
from holdfast_runtime.slot.clock.task_clock import ClockInput
from holdfast_runtime.slot.program import ClockSource
from holdfast_runtime.steps.timed_rows import RowOrigin, TimedRows

HERE = StreamPartition("spread", 0)
TASKS = ("one", "two")
NOW = 1_000


def rows_at(offsets: list[int], times: list[int | None]) -> TimedRows:
    origin = RowOrigin(HERE, pa.array(offsets, pa.int64()))
    # A part of a millisecond moves no watermark.
    exact = [None if time is None else micros(time) + offset % 2 for time, offset in zip(times, offsets, strict=True)]
    return TimedRows(pa.RecordBatch.from_pydict({"n": offsets}), pa.array(exact, pa.int64()), (origin,))


def marks(
    rows: TimedRows, source: ClockSource, book: Bookkeeping, placed: list[tuple[int, ControlMessage]]
) -> list[int | None]:
    brought = ClockInput(attempt=1, turn=1, now=NOW, first=False, deliveries=(), latest={}, ended=(), rows=rows.count)
    marked = marked_rows(rows, source, book.watermarks, placed, brought)
    assert marked.marks is not None
    listed: list[int | None] = marked.marks.to_pylist()
    return listed


times = st.lists(st.none() | st.integers(0, 100), min_size=1, max_size=12)
cuts = st.lists(st.integers(1, 12), max_size=4)


@given(times, cuts)
def test_a_source_moves_its_marks_with_its_rows(drawn: list[int | None], at: list[int]) -> None:
    source, inputs = ClockSource(lateness=5, max_ahead=90 - NOW), ControlInputs((HERE,))
    whole = marks(rows_at(list(range(len(drawn))), drawn), source, Bookkeeping.started(inputs, 0), [])
    expected, highest = [], None
    for offset, time in enumerate(drawn):
        if time is not None and micros(time) + offset % 2 <= micros(90):
            highest = max(time - 5, time - 5 if highest is None else highest)
        expected.append(highest)
    assert whole == expected, "as rows come, without those that are not believed"
    book, piecewise = Bookkeeping.started(inputs, 0), list[int | None]()
    for start, end in pairwise(sorted({0, *(min(cut, len(drawn)) for cut in at), len(drawn)})):
        piecewise += marks(rows_at(list(range(start, end)), drawn[start:end]), source, book, [])
        if piecewise[-1] is not None:
            message = WatermarkMessage(piecewise[-1], MessageNumber(end, 0))
            book = book.batch([Delivery(HERE, message)], NOW)
    assert piecewise == whole


records = st.lists(st.none() | st.tuples(st.sampled_from(TASKS), st.integers(0, 100)), min_size=1, max_size=14)


@given(records, cuts)
def test_an_intermediate_stream_moves_its_marks_with_the_messages_between(
    drawn: list[tuple[str, int] | None], at: list[int]
) -> None:
    """A record is a row, or the watermark of a task."""
    producers = Producers.of(TASKS, idle_after=50)
    source = ClockSource(producers=producers)
    inputs = ControlInputs((HERE,), {HERE.stream: producers})

    def read(start: int, end: int, book: Bookkeeping) -> tuple[list[int | None], Bookkeeping]:
        placed: list[tuple[int, ControlMessage]] = [
            (offset, WatermarkMessage(record[1], MessageNumber(offset, 0), task=record[0], task_count=len(TASKS)))
            for offset, record in enumerate(drawn)
            if record is not None and start <= offset < end
        ]
        rows = [offset for offset in range(start, end) if drawn[offset] is None]
        row_marks = marks(rows_at(rows, [None] * len(rows)), source, book, placed) if rows else []
        return row_marks, book.batch([Delivery(HERE, message) for _, message in placed], NOW)

    began = Bookkeeping.started(inputs, NOW)
    whole, _ = read(0, len(drawn), began)
    book, piecewise = began, list[int | None]()
    for start, end in pairwise(sorted({0, *(min(cut, len(drawn)) for cut in at), len(drawn)})):
        piece, book = read(start, end, book)
        piecewise += piece
    assert piecewise == whole
    reached: dict[str, int] = {}
    expected = list[int | None]()
    for record in drawn:
        if record is not None:
            reached[record[0]] = max(record[1], reached.get(record[0], record[1]))
        else:
            expected.append(min(reached.values()) if len(reached) == len(TASKS) else None)
    assert whole == expected
