"""The compiled writer of JSON objects: what it writes is what pyarrow's kernels write, byte by byte.

`HOLDFAST_SEED` draws other numbers, `HOLDFAST_MUTATED` more of them; `make soak` does both.
"""

import math
import os
import random
import secrets
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.streams.codecs import EncodeError, JsonCodec, compiled_json_writer
from holdfast_runtime.streams.codecs.compiled_json_writer import write_objects
from holdfast_runtime.streams.codecs.json_codec import _text, json_objects
from tests.codecs.schemas import ANY_ROWS, FIRST, LAST, schema

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
NUMBERS = int(os.environ.get("HOLDFAST_MUTATED", "1000000" if SOAK else "60000"))
SEED = int(os.environ.get("HOLDFAST_SEED", str(secrets.randbits(32)) if SOAK else "20261127"))
ZONED, LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")


def check_alike(rows: pa.RecordBatch) -> None:
    written = write_objects(rows, _text)
    assert written is not None, "json_objects.c is not built: `make setup`"
    written.validate(full=True)
    assert written.to_pylist() == json_objects(rows).cast(pa.binary()).to_pylist()


def column(values: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([values], names=["v"])


@given(ANY_ROWS, st.integers(0, 3))
def test_rows_of_any_columns_are_written_as_pyarrow_does(rows: pa.RecordBatch, skipped: int) -> None:
    part = rows.slice(skipped)
    if part.num_rows:
        check_alike(part)


def test_every_day_of_a_cycle_and_both_ends_are_written() -> None:
    days = [FIRST // 86_400_000_000, LAST // 86_400_000_000, *range(-80_000, 66_100), *range(-719_000, 2_932_000, 331)]
    dates = pa.array(days, pa.int32()).cast(pa.date32())
    draw = random.Random(SEED)  # noqa: S311
    micros = [
        FIRST,
        LAST,
        0,
        -1,
        999,
        1000,
        *(draw.randrange(FIRST, LAST) // 10**place for place in (0, 3, 6) for _ in range(3000)),
    ]
    check_alike(column(dates))
    for kind in (ZONED, LOCAL):
        check_alike(column(pa.array([micro for micro in micros if micro >= FIRST], pa.int64()).cast(kind)))


def test_numbers_are_written_in_their_shortest_form() -> None:
    draw = random.Random(SEED)  # noqa: S311
    numbers = [drawn_number(draw) for _ in range(NUMBERS)]
    blocks = [pa.array(numbers[start : start + 3]) for start in range(0, len(numbers) // 20, 3)]
    for part in blocks:  # one of many digits makes its block another's matter
        check_alike(column(part))
    few = [number for number in numbers if abs(number) < 1e9 and round(number, 6) == number]
    assert len(few) > NUMBERS // 4
    check_alike(column(pa.array(few)))


def drawn_number(draw: random.Random) -> float:
    """A number of few digits or many, or beside one."""
    special = (0.0, -0.0, 1e9, -1e9, 999_999_999.999_999, 1e-6, 1e-7, 5e-324, float("inf"), float("nan"))
    rounded = round(draw.uniform(-(10.0 ** draw.randrange(1, 10)), 1e9), draw.randrange(8))
    (any_bits,) = struct.unpack("<d", draw.randbytes(8))
    whole = float(draw.randrange(-(10 ** draw.randrange(1, 12)), 10**9))
    beside = math.nextafter(rounded, draw.choice((math.inf, -math.inf)))
    return float(draw.choice((draw.choice(special), rounded, rounded, whole, beside, any_bits)))


def test_decimals_are_written_with_all_their_digits() -> None:
    draw = random.Random(SEED)  # noqa: S311
    for digits in range(1, 39):
        for scale in range(digits + 1):
            wholes = [0, 1, -1, 10**digits - 1, 1 - 10**digits, *(draw.randrange(10**n) for n in range(1, digits))]
            numbers = [Decimal((int(whole < 0), tuple(map(int, str(abs(whole)))), -scale)) for whole in wholes]
            check_alike(column(pa.array([*numbers, None], pa.decimal128(digits, scale))))


def test_bytes_of_any_number_are_written_in_base64() -> None:
    check_alike(column(pa.array([bytes(range(250, 256))[:size] * 3 for size in range(7)] + [None], pa.binary())))


@pytest.mark.parametrize(
    "ddl",
    [
        "v STRUCT<n DOUBLE, t STRING>",
        "v ARRAY<STRUCT<n DOUBLE, t STRING>>",
        "v MAP<STRING, STRUCT<n DOUBLE, t STRING>>",
        "v STRUCT<n FLOAT, t STRING>",
    ],
)
def test_a_number_of_many_digits_inside_makes_its_column_pyarrows(ddl: str) -> None:
    for number in (0.5, 1 / 3):
        item: Any = {"n": number, "t": '"'}
        values: list[Any] = [item, None, item]
        if "ARRAY" in ddl:
            values = [[item, None], [], None, [item]]
        if "MAP" in ddl:
            values = [[("a", item), ("b", None)], [], None, [("\\", item)]]
        rows = pa.RecordBatch.from_arrays([pa.array(values, schema(ddl).types[0])] * 2, names=["v", "w"])
        for skipped in range(rows.num_rows):
            check_alike(rows.slice(skipped))


def test_texts_are_escaped_wherever_they_need_it() -> None:
    signs = [chr(code) for code in range(0x180)] + ["\u2028", "\U0001f600", '"', "\\"]
    texts = [
        f"{before}{sign}{after}" for sign in signs for before in ("", "a" * 7, '"') for after in ("", "b" * 9, "\\")
    ]
    check_alike(column(pa.array([*texts, None, ""])))


def test_a_time_that_iso_8601_lacks_is_an_error() -> None:
    columns = schema("a INT, at TIMESTAMP, day DATE")
    for at, day in ((LAST + 1, 0), (FIRST - 1, 0), (0, 2_932_897), (0, -719_163)):
        rows = pa.RecordBatch.from_arrays(
            [pa.array([1], pa.int32()), pa.array([at]).cast(ZONED), pa.array([day], pa.int32()).cast(pa.date32())],
            schema=columns,
        )
        with pytest.raises(EncodeError, match="column at" if day == 0 else "column day"):
            JsonCodec(columns).encode(rows)


@pytest.mark.parametrize("lack", ["library", "room"])
def test_without_a_library_or_room_pyarrow_writes(lack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = schema("a INT, b STRING")
    rows = pa.RecordBatch.from_pydict({"a": [1, None], "b": ['"', "x"]}, columns)
    expected = JsonCodec(columns).encode(rows)
    if lack == "library":
        monkeypatch.setattr(compiled_json_writer, "library", lambda: None)
    else:
        monkeypatch.setattr(compiled_json_writer, "_MOST_BYTES", 10)
    assert write_objects(rows, _text) is None
    assert JsonCodec(columns).encode(rows).equals(expected)
    assert pc.binary_length(expected).to_pylist() == [16, 9]
