"""Users' records between control messages keep their event times to the microsecond, and their values."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.control.messages import ControlRecordError, MessageNumber, UserRecord, WatermarkMessage, decode, encode
from holdfast.tasks.partitions import StreamPartition
from holdfast.times import FARTHEST
from holdfast_runtime.slot.reading.user_records import payload_of, record_times, split_records, with_heads
from holdfast_runtime.streams.records import NO_TIME, with_offsets, written_batch
from tests.steps.moments import moments

AT = StreamPartition("moved", 3)
MESSAGE = WatermarkMessage(5, MessageNumber(1, 0))
Row = tuple[bytes, int | None]
"""Value, event time."""


def written(rows: list[Row]) -> pa.RecordBatch:
    values, times = pa.array([row[0] for row in rows], pa.binary()), pa.array([row[1] for row in rows], pa.int64())
    return written_batch([None] * len(rows), with_heads(values, times), record_times(times, NO_TIME))


def came(records: pa.RecordBatch) -> tuple[list[Row], int]:
    """The rows, and how many control messages there were."""
    split = split_records(records, AT)
    values = split.users.column("value").to_pylist()
    times = split.times(pa.array(range(len(values)), pa.int64()).to_numpy())
    return list(zip(values, times.to_pylist(), strict=True)), len(split.deliveries)


rows = st.lists(st.tuples(st.binary(max_size=4), st.none() | moments(-4, 4) | st.integers(-FARTHEST, FARTHEST)))


@example([[(b"", -FARTHEST), (b"", FARTHEST)]], 0, 0)
@given(st.lists(rows, max_size=4), st.integers(0, 9), st.integers(0, 9))
def test_rows_come_as_they_were_written_between_messages(batches: list[list[Row]], start: int, end: int) -> None:
    message = written_batch([None], [encode(MESSAGE)], 7)
    parts = [part for batch in batches for part in (written(batch), message)]
    records = with_offsets(pa.concat_batches([written([]), *parts]), 100)
    assert came(records) == ([row for batch in batches for row in batch], len(batches))
    cut = records.slice(start, end)
    kinds = [decode(value) for value in cut.column("value").to_pylist()]
    users, messages = came(cut)
    assert [value for value, _ in users] == [one.payload for one in kinds if isinstance(one, UserRecord)]
    assert messages == len(kinds) - len(users)


@given(st.binary(max_size=4), moments(-4, 4))
def test_one_record_is_what_the_format_of_messages_says(value: bytes, time: int) -> None:
    (written_value,) = written([(value, time)]).column("value").to_pylist()
    assert decode(written_value) == UserRecord(value, time % 1000)
    assert payload_of(written_value) == value


def test_a_time_goes_as_the_millisecond_not_behind_it() -> None:
    times = pa.array([1_999, 1_000, -1, None], pa.int64())
    assert record_times(times, 77).to_pylist() == [1, 1, -1, 77]


@pytest.mark.parametrize("value", [b"\x03", b"\x03\0\0", b"\x03\x03\xe8", b"\x04", b"", None])
def test_what_nobody_has_written_so_names_its_place(value: Any) -> None:
    good = encode(UserRecord(b"good", 400))
    records = with_offsets(written_batch([None] * 3, [good, value, good], 7), 100)
    with pytest.raises(ControlRecordError, match=r"^moved/3 at offset 101 "):
        split_records(records, AT)


def test_timestamps_that_no_event_time_can_have_stay_far_away() -> None:
    stamps = pa.array([2**62, -(2**62), NO_TIME, 1], pa.int64())
    records = with_offsets(written_batch([None] * 4, [b"\0"] * 4, stamps), 0)
    assert [time for _, time in came(records)[0]] == [
        FARTHEST // 1000 * 1000,
        -FARTHEST,
        None,
        1000,
    ]
