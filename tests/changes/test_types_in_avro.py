"""Each type of Debezium and Kafka Connect in Avro: it means what it means in JSON, or is refused as there."""

import string
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.streams.codecs.avro.compiled_reader import CompiledReader
from tests.changes.avro_types import avro_records
from tests.changes.records import batch, codec, reason, rows
from tests.changes.test_types import DATA, MISFITS, OWN_SCALE, READ, TIME, UNFIT, decimal, kind, record, unscaled

COLUMNS = [
    "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "STRING", "BINARY", "DATE", "TIME(6)",
    "TIMESTAMP", "TIMESTAMP_NTZ", "DECIMAL(9,2)", "DECIMAL(38,6)", "DECIMAL(20,0)", "DECIMAL(5,5)",
]  # fmt: skip


def in_avro(tree: dict[str, Any], value: Any) -> bool:
    """Whether the converter to Avro can write such a value of a type."""
    fits_type = not (isinstance(value, float) and tree["type"] == "bytes") and value != "no"
    fits_kind = (tree["type"], type(value)) not in {("int32", str), ("boolean", int)}
    scale = int(tree.get("parameters", {}).get("scale", 0))
    return fits_type and fits_kind and scale >= 0


@pytest.mark.parametrize(("tree", "value", "column", "expected"), [row for row in READ if in_avro(row[0], row[1])])
def test_a_value_becomes_that_of_its_column(tree: dict[str, Any], value: Any, column: str, expected: Any) -> None:
    registry, records = avro_records(tree, [value, None])
    full, empty = rows(codec(f"id INT, v {column}", "id", records=registry), *records)
    assert (full["v"], empty["v"]) == (expected, None)


@pytest.mark.parametrize(("tree", "column", "why"), [row for row in MISFITS if row[0]["type"] not in ("map", "struct")])
def test_a_type_that_does_not_fit_names_what_does(tree: dict[str, Any], column: str, why: str) -> None:
    registry, (first,) = avro_records(tree, [None])
    text = reason(codec(f"id INT, v {column}", "id", records=registry), first)
    assert text.startswith("its schema (id 1) does not fit the columns: after.v")
    if "declare it as" in why:
        assert why[why.index("declare it as") :] in text


@pytest.mark.parametrize(("tree", "value", "column"), [row for row in UNFIT if in_avro(row[0], row[1]) and row[1]])
def test_a_value_that_does_not_fit_names_its_field(tree: dict[str, Any], value: Any, column: str) -> None:
    registry, records = avro_records(tree, [value, None])
    reader = codec(f"id INT, v {column}", "id", records=registry)
    assert "field after.v" in reason(reader, records[0])
    assert rows(reader, records[1])[0]["v"] is None


def numbers(bits: int) -> st.SearchStrategy[int]:
    limit = 1 << (bits - 1)
    return st.integers(-limit, limit - 1) | st.integers(-99, 99)


TEXTS = (
    st.text(st.sampled_from(string.printable), max_size=8)
    | st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str)
    | st.sampled_from(["1E+2", "007", "-0", "1.", ".5", "+1", "12.30", "NaN", "1" * 38, "1" * 39])
)
MOMENTS = st.datetimes().map(str) | st.sampled_from(
    ["2018-06-20T15:13:16.945104+02:00", "2018-06-20T15:13:16Z", "2018-06-20T15:13Z", "10000-01-01T00:00:00Z",
     "0001-01-01T00:30:00+01:00", "2018-06-20Z", "2018-06-20", "2018-02-29Z", "infinity",
     "2018-06-20T15:13:16.9451049Z"]
)  # fmt: skip
BYTES = st.integers(-(10**39), 10**39).map(unscaled) | st.integers(-(10**9), 10**9).map(unscaled)
TYPES: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    *((kind(f"int{bits}"), numbers(bits)) for bits in (32, 64)),
    (kind("float"), st.floats(width=32, allow_nan=False)),
    (kind("double"), st.floats(allow_nan=False)),
    (kind("boolean"), st.booleans()),
    (kind("string"), TEXTS),
    (kind("bytes"), BYTES),
    (kind("bytes", f"{DATA}Bits", parameters={"length": "12"}), BYTES),
    *((kind("string", DATA + name), TEXTS) for name in ("Json", "Xml", "Uuid", "Enum", "EnumSet", "Ltree", "Tsvector")),
    *((kind("int32", TIME + name), numbers(32)) for name in ("Date", "Time", "Year")),
    *((kind("int64", TIME + name), numbers(64)) for name in ("Timestamp", "MicroTimestamp", "NanoTimestamp")),
    *((kind("int64", TIME + name), numbers(64)) for name in ("MicroTime", "NanoTime", "MicroDuration", "NanoDuration")),
    (kind("double", f"{TIME}MicroDuration"), st.floats(allow_nan=False)),
    *((kind("int32", f"org.apache.kafka.connect.data.{name}"), numbers(32)) for name in ("Date", "Time")),
    (kind("int64", "org.apache.kafka.connect.data.Timestamp"), numbers(64)),
    *((kind("string", TIME + name), MOMENTS | TEXTS) for name in ("ZonedTimestamp", "IsoTimestamp", "IsoDate")),
    *((kind("string", TIME + name), MOMENTS | TEXTS) for name in ("ZonedTime", "IsoTime", "Interval")),
    *((decimal(scale, precision), BYTES) for scale, precision in ((2, 9), (0, 20), (6, 30), (2, None), (0, None))),
    (OWN_SCALE, st.fixed_dictionaries({"scale": st.integers(-3, 9) | numbers(32), "value": BYTES})),
]
CASES = st.sampled_from(TYPES).flatmap(
    lambda pair: st.tuples(st.just(pair[0]), st.lists(st.none() | pair[1], min_size=1, max_size=6))
)


@given(CASES, st.sampled_from(COLUMNS))
def test_records_in_avro_are_read_as_those_in_json(case: tuple[dict[str, Any], list[Any]], column: str) -> None:
    tree, values = case
    registry, records = avro_records(tree, values)
    columns = f"id INT, v {column}"
    by_avro = codec(columns, "id", records=registry).decode(batch(records))
    by_json = codec(columns, "id").decode(batch([record(tree, value) for value in values]))
    assert by_avro.good.tolist() == by_json.good.tolist()
    assert by_avro.rows.equals(by_json.rows)


@given(CASES, st.sampled_from(COLUMNS))
def test_the_loop_reads_what_its_law_reads(case: tuple[dict[str, Any], list[Any]], column: str) -> None:
    tree, values = case
    registry, records = avro_records(tree, values)
    columns = f"id INT, v {column}"
    whole = codec(columns, "id", records=registry).decode(batch(records))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CompiledReader, "of", lambda *_: None)
        judged = codec(columns, "id", records=registry).decode(batch(records))
    assert (whole.good.tolist(), whole.bad) == (judged.good.tolist(), judged.bad)
    assert whole.rows.equals(judged.rows)


def test_a_text_that_may_be_bytes_is_none() -> None:
    registry, (first,) = avro_records(kind("string"), ["deadbeef"])
    text = reason(codec("id INT, v BINARY", "id", records=registry), first)
    assert "after.v is string, and column after.v is BINARY; declare it as STRING or DECIMAL" in text


def test_times_are_read_by_the_loop() -> None:
    registry, records = avro_records(kind("string", f"{TIME}ZonedTimestamp"), ["2018-06-20T13:13:16.945104Z"] * 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast_runtime.streams.codecs.avro.avro_judge.AvroJudge.read", None)
        read = codec("id INT, v TIMESTAMP", "id", records=registry).decode(batch(records))
    assert read.rows.column("v").cast(pa.int64()).to_pylist() == [1_529_500_396_945_104] * 3
