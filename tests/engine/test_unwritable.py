"""A row whose record its topic never takes stops the app by name, or becomes a dead letter, before it is decided."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast.spec.streams import Stream
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.slot.outputs import Outbox, OutputStream, fitting
from holdfast_runtime.slot.packed_outputs import records_of
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.streams.codecs import DEAD_LETTER_SCHEMA, codec_for
from holdfast_runtime.streams.record_columns import MetadataColumns
from holdfast_runtime.streams.records import WRITTEN, OffsetRange, RecordLimit
from tests.error_codes import has_code

SCHEMA = pa.schema([("k", pa.string()), ("text", pa.string())])
LIMIT = RecordLimit(1_000, "max.message.bytes of topic out")
ROWS = [{"k": "a", "text": "x"}, {"k": "b", "text": "x" * 2_000}, {"k": "c", "text": "y"}]
READ = (OffsetRange(StreamPartition("rows", 0), 5, 8),)


def letters_to(limit: RecordLimit | None = None) -> OutputStream:
    return OutputStream("broken", 1, None, "murmur2", codec_for("json", DEAD_LETTER_SCHEMA), typed=False, limit=limit)


def out(letters: OutputStream | None, limit: RecordLimit | None = LIMIT) -> OutputStream:
    return OutputStream("out", 2, ("k",), "murmur2", codec_for("json", SCHEMA), False, "said", limit, letters=letters)


def rows_of(rows: list[dict[str, Any]]) -> TimedRows:
    return TimedRows(
        pa.RecordBatch.from_pylist(rows, SCHEMA), pa.array([1_000_000_400 + at * 1_000 for at in range(len(rows))])
    )


def sent(outbox: Outbox, stream: str) -> list[dict[str, Any]]:
    schema = {"out": SCHEMA, "broken": DEAD_LETTER_SCHEMA}[stream]
    rows: list[dict[str, Any]] = []
    for partition, records in records_of(outbox.outgoing()):
        if partition.stream == stream:
            rows += codec_for("json", schema).decode(records.column("value")).rows.to_pylist()
    return rows


def test_a_too_large_record_is_named_with_place_and_limit() -> None:
    with pytest.raises(UserActionError, check=has_code("RecordTooLargeError")) as failed:
        Outbox(1, 7, READ).add(out(None), rows_of(ROWS))
    message = str(failed.value)
    assert message.startswith("step said: a row for out/")
    for part in (
        "with key b'b'",
        "record of 2020 bytes",
        "1000 are taken",
        LIMIT.setting,
        "rows/0 [5, 8)",
        "onUnwritable",
    ):
        assert part in message


def test_a_too_large_row_alone_becomes_a_dead_letter() -> None:
    outbox = Outbox(1, 7, READ)
    outbox.add(out(letters_to()), rows_of(ROWS))
    assert sorted(row["k"] for row in sent(outbox, "out")) == ["a", "c"]
    assert (outbox.unwritable, outbox.rows) == (1, {"broken": 1, "out": 2})
    (letter,) = sent(outbox, "broken")
    assert letter["reason"] == "its record has 2020 bytes, and 1000 are taken (max.message.bytes of topic out)"
    assert (letter["stream"], letter["step"], letter["offset"], letter["key"]) == ("out", "said", None, b"b")
    assert letter["partition"] in (0, 1)
    assert letter["value"] == b'{"k":"b","text":"' + b"x" * 2_000 + b'"}'
    assert letter["timestamp"] == datetime(1970, 1, 1, 0, 16, 40, 1_400, UTC)


def test_a_dead_letter_has_the_value_that_readers_would_see() -> None:
    outbox = Outbox(1, 7, READ)
    outbox.add(replace(out(letters_to()), typed=True), rows_of(ROWS[1:2]))
    assert sent(outbox, "broken")[0]["value"].startswith(b'{"k":"b"')


def test_where_all_rows_are_too_large_none_goes_out() -> None:
    outbox = Outbox(1, 7)
    outbox.add(out(letters_to()), rows_of([ROWS[1]] * 3))
    assert (sent(outbox, "out"), len(sent(outbox, "broken"))) == ([], 3)


def test_without_a_limit_nothing_is_too_large() -> None:
    outbox = Outbox(1, 7)
    outbox.add(out(None, limit=None), rows_of(ROWS))
    assert len(sent(outbox, "out")) == 3


def test_a_large_records_dead_letter_is_cut_and_says_so() -> None:
    # Bytes are in base64 there: a record of 900 KB makes a letter of 1.2 MB.
    value = bytes(range(256)) * 3_600
    letter = {"reason": "no JSON", "stream": "rows", "partition": 3, "offset": 9, "key": b"k", "value": value}
    limit, codec = RecordLimit(1_000_000, "message.max.bytes"), codec_for("json", DEAD_LETTER_SCHEMA)
    small = {**letter, "value": b"small", "offset": 10}
    cut, whole = fitting(
        pa.RecordBatch.from_pylist([letter, small], DEAD_LETTER_SCHEMA), codec.encode, limit
    ).to_pylist()
    assert cut["reason"].startswith(f"no JSON; too large for this stream, it is cut: of {len(value)} bytes")
    assert len(cut["value"]) > 700_000
    assert value.startswith(cut["value"])
    assert (cut["key"], cut["offset"], whole["value"]) == (b"k", 9, b"small")


@given(
    st.integers(700, 3_000),
    st.binary(max_size=4_000),
    st.none() | st.binary(max_size=4_000),
    st.text(max_size=3_000),
)
@settings(max_examples=60, deadline=None)
def test_any_dead_letter_fits_or_the_limit_is_said(most: int, value: bytes, key: bytes | None, reason: str) -> None:
    letter = {"reason": reason, "stream": "rows", "partition": 3, "offset": 9, "key": key, "value": value}
    codec = codec_for("json", DEAD_LETTER_SCHEMA)
    outbox = Outbox(1, 7)
    try:
        outbox.add_letters(
            letters_to(RecordLimit(most, "here")), pa.RecordBatch.from_pylist([letter], DEAD_LETTER_SCHEMA)
        )
    except UserActionError as error:
        assert "raise the limit of the stream that takes dead letters" in str(error)
        return
    ((_, records),) = records_of(outbox.outgoing())
    assert records.schema == WRITTEN
    assert len(records.column("value")[0].as_py()) <= most
    (dead_letter,) = codec.decode(records.column("value")).rows.to_pylist()
    assert value.startswith(dead_letter["value"])


def test_headers_count_and_stay_with_their_record() -> None:
    kind = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
    schema = pa.schema([("k", pa.string()), ("trace", kind)])
    columns = MetadataColumns.of(Stream(name="out", system="here", metadata=("headers AS trace",)), schema)
    codec = codec_for("json", columns.in_value)
    target = OutputStream(
        "out", 1, ("k",), "murmur2", codec, False, "said", LIMIT, letters=letters_to(), columns=columns
    )
    small, large = [{"key": "t", "value": b"1"}, {"key": "u", "value": None}], [{"key": "t", "value": b"x" * 1_000}]
    rows = [{"k": "a", "trace": small}, {"k": "b", "trace": large}, {"k": "c", "trace": None}, {"k": "d", "trace": []}]
    outbox = Outbox(1, 7, READ)
    outbox.add(target, TimedRows(pa.RecordBatch.from_pylist(rows, schema), pa.nulls(4, pa.int64())))
    outbox.say("out", [0], b"told")
    records = dict(records_of(outbox.outgoing()))[StreamPartition("out", 0)]
    assert records.column("value").to_pylist() == [b'{"k":"a"}', b'{"k":"c"}', b'{"k":"d"}', b"told"]
    assert records.column("headers").to_pylist() == [small, None, [], None]
    (letter,) = sent(outbox, "broken")
    assert (letter["reason"][:25], letter["headers"]) == ("its record has 1021 bytes", large)
