"""The compiled reader of JSON records: what it takes, it reads as the judge does, and it takes what is usual.

`HOLDFAST_SEED` draws other records, `HOLDFAST_MUTATED` more of them; `make soak` does both.
"""

import json
import os
import random
import secrets
import struct
from collections.abc import Iterator

import pyarrow as pa
import pytest

from holdfast_runtime.streams.codecs import JsonCodec, compiled_json_reader
from holdfast_runtime.streams.codecs.compiled_json_reader import DOUBTS, PAUSE, CompiledJsonReader
from tests.codecs.json_objects import COLUMNS, MAPS, mutated, real, record
from tests.codecs.schemas import binary, schema

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
RECORDS = int(os.environ.get("HOLDFAST_MUTATED", "1000000" if SOAK else "5000")) // 2
"""For columns with maps, and for others."""
SEED = int(os.environ.get("HOLDFAST_SEED", str(secrets.randbits(32)) if SOAK else "20261126"))
BLOCK = 250
CLICKS = schema("ad_id STRING, ts TIMESTAMP, price DOUBLE, count BIGINT")


def reader_of(columns: pa.Schema) -> CompiledJsonReader:
    reader = CompiledJsonReader.of(columns)
    assert reader is not None, "json_records.c is not built: `make setup`"
    return reader


def plain_codec(columns: pa.Schema) -> JsonCodec:
    """The codec without what is compiled."""
    codec = JsonCodec(columns)
    codec._compiled_reader = None  # noqa: SLF001
    return codec


def bits(rows: pa.RecordBatch) -> list[pa.Array | str]:
    """Columns that are equal only if all bits are."""
    rows.validate(full=True)
    whole = {pa.float64(): pa.int64(), pa.float32(): pa.int32()}
    return [
        repr(column.to_pylist()) if column.type.num_fields else column.view(whole.get(column.type, column.type))
        for column in rows.columns
    ]


@pytest.fixture
def no_doubt_is_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_json_reader, "DOUBTS", BLOCK)


@pytest.mark.usefixtures("no_doubt_is_too_many")
@pytest.mark.parametrize("columns", [COLUMNS, MAPS], ids=["all but maps", "maps"])
def test_mutated_records_are_read_as_the_judge_reads_them(columns: pa.Schema) -> None:
    draw = random.Random(SEED)  # noqa: S311
    codec, reader, records_read = plain_codec(columns), reader_of(columns), 0
    for _ in range(-(-RECORDS // BLOCK)):
        values = [mutated(draw, record(draw, columns)) for _ in range(BLOCK)]
        message = f"HOLDFAST_SEED={SEED}, among {values}"
        flat = reader.read(binary(b"beside", *values).slice(1))
        assert flat is not None
        doubtful = set(flat.doubtful.tolist())
        undoubted = [raw for index, raw in enumerate(values) if index not in doubtful]
        judged, fitting, unfit = codec._judged(binary(*undoubted))  # noqa: SLF001
        assert not unfit, message
        assert bits(judged) == bits(flat.rows), message
        records_read += len(fitting)
        by_itself = [reader.read(binary(raw)) for raw in values]
        assert [bool(len(alone.doubtful)) for alone in by_itself if alone] == [
            index in doubtful for index in range(BLOCK)
        ], message
        rows_alone = pa.concat_batches([alone.rows for alone in by_itself if alone])
        assert bits(rows_alone) == bits(flat.rows), message
        today, tomorrow = codec.decode(binary(*values)), JsonCodec(columns).decode(binary(*values))
        assert bits(today.rows) == bits(tomorrow.rows), message
        assert today.good.tolist() == tomorrow.good.tolist(), message
        assert today.bad == tomorrow.bad, message
    assert records_read > RECORDS // 6


def test_doubles_are_rounded_as_python_rounds_them() -> None:
    draw = random.Random(SEED)  # noqa: S311
    texts = [real(draw) for _ in range(10 * BLOCK)] + [repr(draw.uniform(-1e6, 1e6)) for _ in range(10 * BLOCK)]
    reader = reader_of(schema("c DOUBLE"))
    rounded = [(text, reader.read(binary(b'{"c":%s}' % text.encode()))) for text in texts]
    read = [(text, flat.rows.column("c")[0].as_py()) for text, flat in rounded if flat and not len(flat.doubtful)]
    assert [(text, struct.pack("d", number)) for text, number in read] == [
        (text, struct.pack("d", float(text))) for text, _ in read
    ]
    assert len(read) > 15 * BLOCK


def clicks(**cells: str) -> pa.BinaryArray:
    """Records as most producers write them, with other cells."""
    row = {"ad_id": '"ad-{}"', "ts": '"2024-01-31T12:00:00.{:03d}Z"', "price": "{}.25", "count": "{}", **cells}
    text = ", ".join(f'"{name}": {cell}' for name, cell in row.items())
    return binary(*(f"{{{text.replace('{}', str(at)).replace('{:03d}', f'{at:03d}')}}}".encode() for at in range(300)))


PLAIN = {
    "as they are": clicks(),
    "as bytes of UTF-8": clicks(ad_id='"é€\U0001f600 {}"'),
    "with escapes": clicks(ad_id=json.dumps('é\U0001f600"\\\n')),
    "in milliseconds": clicks(ts="1706702400{:03d}"),
    "in nanoseconds": clicks(ts='"2024-01-31T12:00:00.000000{:03d}Z"'),
    "in another zone": clicks(ts='"2024-01-31 12:00:00.{:03d}+05:30"'),
    "with doubles of all digits": clicks(price="0.8444218515250{:03d}"),
    "with nulls": clicks(count="null"),
    "with more than columns": clicks(more='{"x": [1, {"y": null}], "x": 1e999}', **{"": "[]"}),
}


@pytest.mark.parametrize("style", PLAIN)
def test_usual_records_are_read_by_it_alone(style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flat = reader_of(CLICKS).read(PLAIN[style])
    assert flat is not None
    assert not len(flat.doubtful)
    codec = JsonCodec(CLICKS)
    monkeypatch.delattr(codec, "_judge")
    monkeypatch.delattr(codec, "_reader")
    decoded = codec.decode(PLAIN[style])
    assert bits(decoded.rows) == bits(plain_codec(CLICKS).decode(PLAIN[style]).rows)
    assert decoded.good.tolist() == list(range(300))


DOUBTFUL = [
    b"", b" ", b"null", b"[]", b"{", b"{}{}", b"{},", b"{}\0", b"\xef\xbb\xbf{}", b'{"count":1,"count":1}',
    b'{"co\\u0075nt":1}', b'{"count":1.0}', b'{"count":1e5}', b'{"count":01}', b'{"count":+1}', b'{"count":-}',
    b'{"count":9223372036854775808}', b'{"count":-9223372036854775809}', b'{"count":"1"}', b'{"count":true}',
    b'{"price":NaN}', b'{"price":"NaN"}', b'{"price":1e400}', b'{"price":1.}', b'{"price":.5}', b'{"price":1e}',
    b'{"ad_id":"\\ud800"}', b'{"ad_id":"\xed\xa0\x80"}', b'{"ad_id":"\xff"}', b'{"ad_id":"\n"}', b'{"ad_id":"\\x"}',
    b'{"ad_id":1}', b'{"ad_id":"x}', b'{"ts":"2023-02-29T00:00:00Z"}', b'{"ts":"0000-12-31T00:00:00Z"}',
    b'{"ts":"9999-12-31T23:59:59-00:01"}', b'{"ts":"2024-01-31T24:00:00Z"}', b'{"ts":253402300800000}',
    b'{"q":NaN}', b'{"q":[1,]}', b'{"q":{"x":1,}}', b'{"q":{1:1}}', b'{"q":"\xc0\x80"}', b'{"q":nul}', b'{"q":[}',
    b'{"q":' + b"[" * 100 + b"]" * 100 + b"}",
]  # fmt: skip


@pytest.mark.parametrize("raw", DOUBTFUL)
def test_what_is_unusual_is_left_to_the_judge(raw: bytes) -> None:
    good = b'{"ad_id":"x","count":1}'
    flat = reader_of(CLICKS).read(binary(good, raw, good))
    assert flat is not None
    assert flat.doubtful.tolist() == [1]
    assert [row["count"] for row in flat.rows.to_pylist()] == [1, 1]


def with_doubtful(places: range) -> tuple[pa.BinaryArray, list[int]]:
    """Clicks among which these are written in a way that only the judge reads; and the counts of all."""
    values = clicks().to_pylist()
    for place in places:
        values[place] = b'{"co\\u0075nt":%d}' % -place
    return binary(*values), [-at if at in places else at for at in range(len(values))]


def test_judged_rows_stand_where_their_records_stood() -> None:
    values, counts = with_doubtful(range(7, 300, 100))
    decoded = JsonCodec(CLICKS).decode(values)
    assert decoded.rows.column("count").to_pylist() == counts
    assert decoded.good.tolist() == list(range(300))


def test_a_producer_of_unusual_records_is_not_read_twice() -> None:
    values, counts = with_doubtful(range(0, 300, 2))
    codec, reader = JsonCodec(CLICKS), reader_of(CLICKS)
    assert codec.decode(values).rows.column("count").to_pylist() == counts
    assert reader.read(values) is None
    assert [reader.read(clicks()) for _ in range(PAUSE)] == [None] * PAUSE
    assert reader.read(clicks()) is not None


def test_few_unusual_records_are_doubtful_in_any_block() -> None:
    few, _ = with_doubtful(range(DOUBTS))
    flat = reader_of(CLICKS).read(few.slice(0, DOUBTS))
    assert flat is not None
    assert flat.doubtful.tolist() == list(range(DOUBTS))


@pytest.mark.parametrize("ddl", ["", '`a"b` INT', "`a\\\\b` INT", 'a STRUCT<`b"`: INT>', "a MAP<INT, INT>"])
def test_columns_that_json_may_name_otherwise_have_none(ddl: str) -> None:
    assert CompiledJsonReader.of(schema(ddl) if ddl else pa.schema([])) is None


@pytest.fixture
def nothing_compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HOLDFAST_PLAIN_LOOPS", "1")
    compiled_json_reader.library.cache_clear()
    yield
    monkeypatch.undo()
    compiled_json_reader.library.cache_clear()


@pytest.mark.usefixtures("nothing_compiled")
def test_without_a_compiled_library_rows_are_the_same() -> None:
    assert CompiledJsonReader.of(CLICKS) is None
    assert JsonCodec(CLICKS).decode(clicks()).rows.column("count").to_pylist() == list(range(300))
