"""Rows that are older than their topic keeps records are written, and said: Kafka deletes them at its next look."""

import pyarrow as pa
import pytest

from holdfast_runtime.slot.outputs import Outbox, OutputStream
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.streams.codecs import codec_for

SCHEMA = pa.schema([("k", pa.string())])
NOW, DAY = 1_800_000_000_000, 86_400_000
YEARS_AGO, A_WEEK_AGO, YESTERDAY = NOW - 900 * DAY, NOW - 7 * DAY, NOW - DAY
Y1950 = -631_152_000_000


@pytest.mark.parametrize(
    ("lifetime", "typed", "times", "expired"),
    [
        (None, False, [YEARS_AGO, YESTERDAY], {}),
        (7 * DAY, False, [YEARS_AGO, A_WEEK_AGO - 1, A_WEEK_AGO, YESTERDAY, NOW], {"out": 2}),
        (7 * DAY, False, [NOW], {}),
        (7 * DAY, False, [None, NOW], {}),
        (7 * DAY, False, [Y1950], {"out": 1}),
        (7 * DAY, True, [YEARS_AGO, None, Y1950], {"out": 1}),
        (0, False, [NOW - 1, NOW], {"out": 1}),
    ],
)
def test_rows_older_than_their_topic_keeps_records_are_counted(
    lifetime: int | None, typed: bool, times: list[int | None], expired: dict[str, int]
) -> None:
    target = OutputStream("out", 2, ("k",), "murmur2", codec_for("json", SCHEMA), typed, "said", lifetime=lifetime)
    outbox = Outbox(1, NOW)
    for _ in range(2):
        micros = pa.array([None if time is None else time * 1_000 for time in times], pa.int64())
        outbox.add(target, TimedRows(pa.RecordBatch.from_pylist([{"k": "a"}] * len(times), SCHEMA), micros))
    assert outbox.expired == {name: 2 * rows for name, rows in expired.items()}
    assert outbox.rows == {"out": 2 * len(times)}
