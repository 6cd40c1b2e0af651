"""Whatever bytes arrive and whoever the neighbours are: right rows, right indices, a reason for each bad record."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.streams.codecs import JsonCodec
from tests.codecs.schemas import ANY_ROWS, binary, same, schema

WIDE = schema(
    "a INT, b STRING, c DOUBLE, d TIMESTAMP, e STRUCT<x: ARRAY<INT>, y: DECIMAL(5,2)>, f BOOLEAN, g DATE, h FLOAT, "
    "i TIMESTAMP_NTZ, j BINARY"
)
MAPPED = schema("a INT, m MAP<STRING, STRUCT<x: INT>>")
PIECES = [
    "{", "}", "[", "]", ",", ":", '"', "null", "NaN", "Inf", "-Infinity", "true", "1", "-0", "1.5", "1e400", "1e39",
    "1000000", "1234.56", "0.001", "99999999999999999999", " ", "\n", "\r\n", "\t", "\0", "\\", "\\ud800", "\\u0000",
    "\ufeff", "//", '"a"', '"b"', '"c"', '"d"', '"e"', '"f"', '"g"', '"h"', '"i"', '"j"', '"x"', '"y"', '"A"', "é",
    "{}",
    '{"a":1}', '{"b":"x"}', '{"e":{"x":[1,null],"y":1}}', '"2024-01-31"', '"2024-01-31T12:00:00.5Z"', '"AAE="', '"AA"',
    '"2024-01-31 12:00:00.123456789+01:00"', '"2024-13-31"', '"NaN"', '"12.5"', '"INF"', "1700000000000",
]  # fmt: skip
TOKENS = st.lists(st.sampled_from(PIECES), max_size=9).map(lambda parts: "".join(parts).encode())
FIELDS = st.sampled_from([field.name for field in WIDE] + ["z"])
LITERALS = st.sampled_from([piece for piece in PIECES if piece not in {"\0", "\\", "{", "}", "[", '"'}])
NEAR = st.lists(st.tuples(FIELDS, LITERALS), max_size=3).map(
    lambda pairs: ("{" + ",".join(f'"{name}":{value}' for name, value in pairs) + "}").encode()
)
RECORDS = st.one_of(st.binary(max_size=20), TOKENS, NEAR, NEAR.map(lambda raw: b'{"a":1}' + raw), st.none())


def alone(codec: JsonCodec, value: bytes) -> list[dict[str, Any]] | None:
    decoded = codec.decode(binary(value))
    return decoded.rows.to_pylist() if len(decoded.good) else None


@given(st.lists(RECORDS, max_size=12), st.sampled_from([WIDE, MAPPED]))
def test_any_bytes_are_row_reason_or_null_whatever_their_neighbours(
    values: list[bytes | None], columns: pa.Schema
) -> None:
    decoded = JsonCodec(columns).decode(binary(*values))
    decoded.rows.validate(full=True)
    assert decoded.rows.schema.equals(columns)
    places = sorted([*decoded.good.tolist(), *decoded.nulls.tolist(), *(bad.index for bad in decoded.bad)])
    assert places == list(range(len(values)))
    assert decoded.good.tolist() == sorted(decoded.good.tolist())
    assert all(bad.reason for bad in decoded.bad)
    rows = decoded.rows.to_pylist()
    for row, place in zip(rows, decoded.good.tolist(), strict=True):
        value = values[place]
        assert value is not None
        assert repr(alone(JsonCodec(columns), value)) == repr([row])
    for bad in decoded.bad:
        value = values[bad.index]
        assert value is not None
        assert alone(JsonCodec(columns), value) is None


@given(NEAR | TOKENS)
def test_both_ways_of_reading_agree_on_values(value: bytes) -> None:
    codec = JsonCodec(WIDE)
    fast = codec._reader.read(binary(value)) if codec._reader else None  # noqa: SLF001
    careful, good, _ = codec._judged(binary(value))  # noqa: SLF001
    assert fast is None or (good == [0] and same(fast, careful))


@given(
    st.integers(1, 700), st.lists(st.tuples(st.integers(0, 699), st.binary(max_size=8) | TOKENS), max_size=5),
    st.sampled_from(["iso", "nanos", "millis"]),
)  # fmt: skip
def test_bad_records_among_good_ones_spoil_nothing(count: int, bad: list[tuple[int, bytes]], times: str) -> None:
    stamp = {"iso": '"2024-01-31T12:00:00.5Z"', "nanos": '"2024-01-31T12:00:00.500000001Z"', "millis": "1706702400500"}
    values = [f'{{"a":{at},"b":"é{at}","c":{at}.5,"d":{stamp[times]}}}'.encode() for at in range(count)]
    codec = JsonCodec(WIDE)
    spoiled = {}
    for at, value in bad:
        if at < count and alone(JsonCodec(WIDE), value) is None:
            spoiled[at] = value
            values[at] = value
    decoded = codec.decode(binary(*values))
    expected = [at for at in range(count) if at not in spoiled]
    assert decoded.good.tolist() == expected
    assert decoded.rows.column("a").to_pylist() == expected
    assert decoded.rows.column("b").to_pylist() == [f"é{at}" for at in expected]
    assert set(decoded.rows.column("d").view(pa.int64()).to_pylist()) <= {1706702400500000}
    assert sorted(bad.index for bad in decoded.bad) == sorted(spoiled)


@given(ANY_ROWS)
def test_rows_come_back_as_they_were_written(rows: pa.RecordBatch) -> None:
    codec = JsonCodec(rows.schema)
    decoded = codec.decode(codec.encode(rows))
    assert decoded.bad == ()
    assert same(decoded.rows, rows)
    assert decoded.good.tolist() == list(range(rows.num_rows))


@given(ANY_ROWS, st.integers(0, 8))
def test_a_row_is_the_same_bytes_whatever_stands_beside_it(rows: pa.RecordBatch, start: int) -> None:
    codec = JsonCodec(rows.schema)
    together = codec.encode(rows).to_pylist()
    assert codec.encode(rows.slice(start)).to_pylist() == together[start:]
    assert [codec.encode(rows.slice(at, 1)).to_pylist()[0] for at in range(rows.num_rows)] == together


@given(ANY_ROWS)
def test_slices_of_arrays_are_read_from_their_own_start(rows: pa.RecordBatch) -> None:
    codec = JsonCodec(rows.schema)
    values = codec.encode(rows)
    half = rows.num_rows // 2
    assert same(codec.decode(values.slice(half)).rows, rows.slice(half))
    assert np.array_equal(codec.decode(values.slice(half)).good, np.arange(rows.num_rows - half))
