"""What becomes of bad records, and event time."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.streams.codecs import (
    DEAD_LETTER_SCHEMA,
    BadBatch,
    BadRecord,
    DecodeError,
    JsonCodec,
    event_times,
    on_bad,
    without_event_time,
)
from tests.codecs.schemas import batch, binary, schema

VALUES = binary(b"{}", b"x" * 100, None, b"[")
TIMES = pa.array([1, 2, 3, None], pa.timestamp("ms", tz="UTC"))
BAD = (BadRecord(1, "not JSON"), BadRecord(3, "also not"))


def bad_batch(bad: tuple[BadRecord, ...]) -> BadBatch:
    return BadBatch(
        "clicks", 3, pa.array([40, 41, 42, 43], pa.int64()), binary(b"k", b"l", None, None), VALUES, TIMES, bad
    )


def test_fail_names_the_first_bad_record_and_the_cure() -> None:
    with pytest.raises(
        DecodeError, match=r"offset 41 of clicks/3 can't be decoded: not JSON.*20 more bytes.*DeadLetter"
    ) as e:
        on_bad(bad_batch(BAD), "Fail")
    assert (e.value.stream, e.value.partition, e.value.offset, e.value.reason) == ("clicks", 3, 41, "not JSON")


def test_skip_counts_and_writes_nothing() -> None:
    handled = on_bad(bad_batch(BAD), "Skip")
    assert (handled.count, handled.letters.num_rows) == (2, 0)


def test_a_dead_letter_carries_the_record_as_it_was() -> None:
    handled = on_bad(bad_batch(BAD), "DeadLetter")
    assert handled.count == 2
    assert handled.letters.schema.equals(DEAD_LETTER_SCHEMA)
    rows = handled.letters.to_pylist()
    assert [(r["reason"], r["stream"], r["partition"], r["offset"], r["key"], r["value"]) for r in rows] == [
        ("not JSON", "clicks", 3, 41, b"l", b"x" * 100),
        ("also not", "clicks", 3, 43, None, b"["),
    ]
    assert handled.letters.column("timestamp").view(pa.int64()).to_pylist() == [2000, None]
    codec = JsonCodec(DEAD_LETTER_SCHEMA)
    assert codec.decode(codec.encode(handled.letters)).rows.equals(handled.letters)


def test_a_dead_letter_carries_the_headers_of_its_record_alone() -> None:
    headers: list[list[dict[str, str | bytes | None]] | None] = [
        [{"key": "of another", "value": b"0"}],
        [{"key": "trace", "value": b"\x00\xff"}, {"key": "trace", "value": None}],
        None,
        None,
    ]
    batch = replace(bad_batch(BAD), headers=pa.array(headers, DEAD_LETTER_SCHEMA.field("headers").type))
    letters = on_bad(batch, "DeadLetter").letters
    assert letters.column("headers").to_pylist() == [headers[1], None]
    codec = JsonCodec(DEAD_LETTER_SCHEMA)
    assert codec.decode(codec.encode(letters)).rows.equals(letters)


@pytest.mark.parametrize("mode", ["Fail", "Skip", "DeadLetter"])
def test_no_bad_records_are_no_trouble(mode: str) -> None:
    handled = on_bad(bad_batch(()), mode)  # type: ignore[arg-type]
    assert (handled.count, handled.letters.num_rows) == (0, 0)


@given(
    st.lists(st.none() | st.integers(-(10**16), 10**16), max_size=9), st.sampled_from(["TIMESTAMP", "TIMESTAMP_NTZ"])
)
def test_event_time_is_not_rounded(micros: list[int | None], kind: str) -> None:
    rows = batch(schema(f"ts {kind}"), [{"ts": value} for value in micros])
    times = event_times(rows, "ts")
    assert times.to_pylist() == micros
    assert without_event_time(times).tolist() == [at for at, value in enumerate(micros) if value is None]


def test_event_time_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="ts is string"):
        event_times(batch(schema("ts STRING"), []), "ts")
