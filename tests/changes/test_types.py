"""Each type of Debezium and Kafka Connect into each column that takes it; what does not fit names column and cure."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.planning.types.connect import meanings
from holdfast.planning.types.connect.schema import ConnectKind
from tests.changes.records import Record, batch, codec, reason, rows

CONNECT, TIME, DATA = "org.apache.kafka.connect.data.", "io.debezium.time.", "io.debezium.data."


def kind(word: str, name: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": word, "optional": True, **({"name": name} if name else {}), **more}


def decimal(scale: int, precision: int | None = None) -> dict[str, Any]:
    parameters = {"scale": str(scale)} | ({"connect.decimal.precision": str(precision)} if precision else {})
    return kind("bytes", f"{CONNECT}Decimal", parameters=parameters)


def struct(**fields: dict[str, Any]) -> dict[str, Any]:
    return kind("struct", fields=[field | {"field": name} for name, field in fields.items()])


def record(tree: dict[str, Any], value: Any) -> Record:
    row = struct(id=kind("int32"), v=tree)
    schema = struct(before=row, after=row, op=kind("string"))
    payload = {"before": None, "after": {"id": 1, "v": value}, "op": "c"}
    return b'{"id":1}', json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


def naive(*parts: int) -> datetime:
    return utc(*parts).replace(tzinfo=None)


OWN_SCALE = kind(
    "struct",
    f"{DATA}VariableScaleDecimal",
    fields=[kind("int32") | {"field": "scale"}, kind("bytes") | {"field": "value"}],
)
READ: list[tuple[dict[str, Any], Any, str, Any]] = [
    (kind("int8"), -128, "TINYINT", -128),
    (kind("int16"), 7, "SMALLINT", 7),
    (kind("int16"), 7, "TINYINT", 7),
    (kind("int32"), 7, "BIGINT", 7),
    (kind("int32"), 7, "DOUBLE", 7.0),
    (kind("int32"), 7, "DECIMAL(12,2)", Decimal("7.00")),
    (kind("int64"), 2**63 - 1, "BIGINT", 2**63 - 1),
    (kind("int64"), 2**63 - 1, "DECIMAL(19,0)", Decimal(2**63 - 1)),
    (kind("float"), 0.1, "FLOAT", pytest.approx(0.1)),
    (kind("float"), "NaN", "DOUBLE", pytest.approx(float("nan"), nan_ok=True)),
    (kind("double"), "-Infinity", "DOUBLE", float("-inf")),
    (kind("boolean"), True, "BOOLEAN", True),
    (kind("string"), "ä", "STRING", "ä"),
    (kind("string"), "ä", "VARCHAR(9)", "ä"),
    (kind("string"), "12.30", "DECIMAL(9,2)", Decimal("12.30")),
    (kind("string"), "1200", "DECIMAL(9,2)", Decimal("1200.00")),
    (kind("bytes"), "AP8=", "BINARY", b"\x00\xff"),
    (kind("bytes", f"{DATA}Bits", parameters={"length": "12"}), "AP8=", "BINARY", b"\x00\xff"),
    *((kind("string", DATA + name), "x", "STRING", "x") for name in ("Json", "Xml", "Uuid", "Enum", "EnumSet")),
    *((kind("int32", name), -1, "DATE", date(1969, 12, 31)) for name in (f"{TIME}Date", f"{CONNECT}Date")),
    (kind("int32", f"{TIME}Date"), 20_000, "INT", 20_000),
    *((kind("int64", name), -1, "TIMESTAMP", utc(1969, 12, 31, 23, 59, 59, 999000))
      for name in (f"{TIME}Timestamp", f"{CONNECT}Timestamp")),
    (kind("int64", f"{TIME}Timestamp"), -1, "TIMESTAMP_NTZ", naive(1969, 12, 31, 23, 59, 59, 999000)),
    (kind("int64", f"{TIME}MicroTimestamp"), -1, "TIMESTAMP", utc(1969, 12, 31, 23, 59, 59, 999999)),
    (kind("int64", f"{TIME}NanoTimestamp"), -1, "TIMESTAMP", utc(1969, 12, 31, 23, 59, 59, 999999)),
    (kind("int64", f"{TIME}NanoTimestamp"), 1999, "TIMESTAMP_NTZ", naive(1970, 1, 1, 0, 0, 0, 1)),
    (kind("int64", f"{TIME}MicroTimestamp"), -1, "BIGINT", -1),
    *((kind("int32", name), 1, "TIME", time(0, 0, 0, 1000)) for name in (f"{TIME}Time", f"{CONNECT}Time")),
    (kind("int64", f"{TIME}MicroTime"), 86_399_999_999, "TIME", time(23, 59, 59, 999999)),
    (kind("int64", f"{TIME}NanoTime"), 1999, "TIME", time(0, 0, 0, 1)),
    (kind("int64", f"{TIME}MicroTime"), -5, "BIGINT", -5),
    (kind("string", f"{TIME}ZonedTimestamp"), "2018-06-20T15:13:16.945104+02:00", "TIMESTAMP",
     utc(2018, 6, 20, 13, 13, 16, 945104)),
    (kind("string", f"{TIME}IsoTimestamp"), "2018-06-20T15:13:16.9451049Z", "TIMESTAMP_NTZ",
     naive(2018, 6, 20, 15, 13, 16, 945104)),
    (kind("string", f"{TIME}ZonedTimestamp"), "x", "STRING", "x"),
    (kind("string", f"{TIME}IsoDate"), "2018-06-20Z", "DATE", date(2018, 6, 20)),
    (kind("int32", f"{TIME}Year"), 2018, "INT", 2018),
    (kind("int64", f"{TIME}MicroDuration"), 5, "BIGINT", 5),
    (decimal(2), "BNI=", "DECIMAL(9,2)", Decimal("12.34")),
    (decimal(2), 12.34, "DECIMAL(9,2)", Decimal("12.34")),
    (decimal(2, 9), "+y4=", "DECIMAL(10,3)", Decimal("-12.340")),
    (decimal(-2), "BNI=", "DECIMAL(9,0)", Decimal(123400)),
    (OWN_SCALE, {"scale": 3, "value": "BNI="}, "DECIMAL(20,4)", Decimal("1.2340")),
    (OWN_SCALE, {"scale": -1, "value": "BNI="}, "DECIMAL(20,4)", Decimal("12340.0000")),
    (struct(x=kind("double"), wkb=kind("bytes"), srid=kind("int32")), {"x": 1.5, "wkb": "AA==", "srid": 3},
     "STRUCT<x: DOUBLE, wkb: BINARY>", {"x": 1.5, "wkb": b"\x00"}),
    (struct(at=kind("int64", f"{TIME}Timestamp")), {"at": 1000}, "STRUCT<at: TIMESTAMP, more: INT>",
     {"at": utc(1970, 1, 1, 0, 0, 1), "more": None}),
    (kind("array", items=kind("int32")), [1, None], "ARRAY<INT>", [1, None]),
    (kind("array", items=kind("int32", f"{TIME}Date")), [0, None], "ARRAY<DATE>", [date(1970, 1, 1), None]),
    (kind("map", keys=kind("string"), values=kind("string")), {"a": "b"}, "MAP<STRING, STRING>", [("a", "b")]),
    (kind("map", keys=kind("string"), values=decimal(1)), {"a": "Cg=="}, "MAP<STRING, DECIMAL(5,1)>",
     [("a", Decimal("1.0"))]),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "value", "column", "expected"), READ)
def test_a_value_becomes_that_of_its_column(tree: dict[str, Any], value: Any, column: str, expected: Any) -> None:
    reader = codec(f"id INT, v {column}", "id")
    full, empty = rows(reader, record(tree, value), record(tree, None))
    assert (full["v"], empty["v"]) == (expected, None)


MISFITS: list[tuple[dict[str, Any], str, str]] = [
    (kind("int64", f"{TIME}MicroTimestamp"), "DATE", "declare it as TIMESTAMP, TIMESTAMP_NTZ or BIGINT"),
    (kind("int64"), "INT", "after.v is int64, and its column is INT; declare it as BIGINT"),
    (kind("int64"), "TIMESTAMP", "declare it as BIGINT"),
    (kind("int32"), "DECIMAL(11,2)", "DECIMAL(10,0)"),
    (kind("double"), "FLOAT", "declare it as DOUBLE"),
    (kind("string"), "TIMESTAMP", "declare it as STRING or DECIMAL"),
    (kind("string", f"{DATA}Uuid"), "BINARY", "after.v is string (io.debezium.data.Uuid), and its column is BINARY"),
    (decimal(4, 20), "DECIMAL(20,2)", "declare it as DECIMAL(20,4)"),
    (decimal(2, 12), "DECIMAL(11,2)", "declare it as DECIMAL(12,2)"),
    (kind("boolean"), "STRING", "declare it as BOOLEAN"),
    (kind("array", items=kind("int64")), "ARRAY<INT>", "after.v[] is int64, and its column is INT"),
    (kind("map", keys=kind("int32"), values=kind("int32")), "MAP<STRING, INT>", "map of int32 to int32"),
    (struct(x=kind("int32")), "STRING", "after.v is struct, and its column is STRING"),
]


@pytest.mark.parametrize(("tree", "column", "why"), MISFITS)
def test_a_type_that_does_not_fit_names_what_does(tree: dict[str, Any], column: str, why: str) -> None:
    text = reason(codec(f"id INT, v {column}", "id"), record(tree, None))
    assert text.startswith("the schema in the record does not fit the columns: ")
    assert why in text


UNFIT: list[tuple[dict[str, Any], Any, str]] = [
    (decimal(2), "AP////8=", "DECIMAL(9,2)"),
    (decimal(2), "AAECAwQFBgcICQoLDA0ODxAR", "DECIMAL(38,2)"),
    (decimal(0), base64.b64encode((10**38).to_bytes(16, "big")).decode(), "DECIMAL(38,0)"),
    (decimal(2), "", "DECIMAL(9,2)"),
    (decimal(2), "no", "DECIMAL(9,2)"),
    (OWN_SCALE, {"scale": 5, "value": "BNI="}, "DECIMAL(20,4)"),
    (OWN_SCALE, {"scale": -14, "value": "LzlCGSSERrs="}, "DECIMAL(38,6)"),
    (OWN_SCALE, {"scale": 2**31 - 1, "value": "BNI="}, "DECIMAL(20,4)"),
    (OWN_SCALE, {"scale": -(2**31), "value": "BNI="}, "DECIMAL(20,4)"),
    (kind("int32", f"{TIME}Date"), 2**31 - 1, "DATE"),
    (kind("int64", f"{TIME}Timestamp"), 2**63 - 1, "TIMESTAMP"),
    (kind("int64", f"{TIME}MicroTimestamp"), 2**62, "TIMESTAMP"),
    (kind("int64", f"{TIME}MicroTime"), 86_400_000_000, "TIME"),
    (kind("int64", f"{TIME}NanoTime"), -1, "TIME"),
    (kind("string", f"{TIME}ZonedTimestamp"), "yesterday", "TIMESTAMP"),
    (kind("string", f"{TIME}IsoDate"), "2018-6-20Z", "DATE"),
    (kind("int16"), 200, "TINYINT"),
    (kind("int32"), "5", "INT"),
    (kind("boolean"), 1, "BOOLEAN"),
]


@pytest.mark.parametrize(("tree", "value", "column"), UNFIT)
def test_a_value_that_does_not_fit_names_its_field(tree: dict[str, Any], value: Any, column: str) -> None:
    reader = codec(f"id INT, v {column}", "id")
    assert "field after.v" in reason(reader, record(tree, value))
    good, _ = rows(reader, record(tree, None), record(tree, None))
    assert good["v"] is None


def test_every_meaning_is_in_these_tables() -> None:
    used = {tree.get("name") for tree, *_ in READ}
    words = {value for name, value in vars(meanings).items() if name.endswith("_NAME")}
    words |= {*meanings._DATES, *meanings._MOMENTS, *meanings._CLOCKS, *meanings._ISO_MOMENTS, *meanings._ISO_DATES}  # noqa: SLF001 - the table
    assert words <= used


def unscaled(number: int) -> str:
    size = (number + (number < 0)).bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


@given(st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1), min_size=1, max_size=20), st.integers(0, 10))
def test_decimals_are_those_of_python(numbers: list[int | None], scale: int) -> None:
    reader = codec(f"id INT, v DECIMAL(38,{scale})", "id")
    tree = decimal(scale)
    read = rows(reader, *(record(tree, None if number is None else unscaled(number)) for number in numbers))
    assert [row["v"] for row in read] == [
        None if number is None else Decimal(number).scaleb(-scale, Context(prec=80)) for number in numbers
    ]


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(1, 30), st.integers(0, 30))
def test_numbers_as_texts_fit_or_are_bad(number: int, scale: int, more: int) -> None:
    text = format(Decimal(number).scaleb(-scale, Context(prec=80)), "f")
    record_of = b'{"id":1}', json.dumps({"op": "c", "after": {"id": 1, "v": text}}).encode()
    reader = codec(f"id INT, v DECIMAL(38,{more})", "id")
    exact = number * 10 ** (more + 40 - scale)
    if exact % 10**40 == 0 and abs(exact // 10**40) < 10**38:
        assert rows(reader, record_of)[0]["v"] == Decimal(text)
    else:
        assert "field after.v" in reason(reader, record_of)


@given(st.lists(st.tuples(st.integers(-(10**30), 10**30), st.integers(-20, 20)), min_size=1, max_size=20))
def test_decimals_with_scales_of_their_own_fit_or_are_bad(numbers: list[tuple[int, int]]) -> None:
    reader = codec("id INT, v DECIMAL(38,6)", "id")
    values = [record(OWN_SCALE, {"scale": scale, "value": unscaled(number)}) for number, scale in numbers]
    for value, (number, scale) in zip(values, numbers, strict=True):
        exact = number * 10 ** (40 - scale)
        fits = exact % 10**34 == 0 and abs(exact // 10**34) < 10**38
        if fits:
            assert rows(reader, value)[0]["v"] == Decimal(
                (int(number < 0), tuple(map(int, str(abs(exact) // 10**34))), -6)
            )
        else:
            assert "field after.v" in reason(reader, value)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20), st.sampled_from(["Milli", "Micro", "Nano"]))
def test_times_are_those_of_python(counts: list[int], unit: str) -> None:
    name, nanos = {"Milli": ("Timestamp", 10**6), "Micro": ("MicroTimestamp", 1000), "Nano": ("NanoTimestamp", 1)}[unit]
    reader = codec("id INT, v TIMESTAMP", "id")
    for count in counts:
        made = record(kind("int64", TIME + name), count)
        moment = _moment(count * nanos // 1000)
        if moment is None:
            assert "field after.v" in reason(reader, made)
        else:
            assert rows(reader, made)[0]["v"] == moment


def _moment(micros: int) -> datetime | None:
    try:
        return utc(1970, 1, 1) + timedelta(microseconds=micros)
    except OverflowError:
        return None


def _trees() -> Iterator[object]:
    yield from (None, 5, "string", [], {}, {"type": 5}, {"type": "date"}, {"type": []}, {"type": "struct"})
    yield from ({"type": "array"}, {"type": "map", "keys": kind("string")}, struct(a={"type": "x"}))
    yield {"type": "struct", "fields": [kind("int8") | {"field": "a"}, kind("int8") | {"field": "a"}]}
    yield {"type": "struct", "fields": [kind("int8")]}
    deep: dict[str, Any] = kind("string")
    for _ in range(120):
        deep = kind("array", items=deep)
    yield deep


@pytest.mark.parametrize("tree", list(_trees()))
def test_what_is_no_schema_makes_records_bad(tree: object) -> None:
    value = json.dumps({"schema": tree, "payload": {"op": "c", "after": {"id": 1}}}, separators=(",", ":")).encode()
    decoded = codec("id INT", "id").decode(batch([(b"1", value)]))
    assert len(decoded.bad) == (tree is not None)


def test_a_column_of_another_case_is_bad() -> None:
    schema = struct(after=struct(id=kind("int32"), Name=kind("string")), op=kind("string"))
    value = json.dumps({"schema": schema, "payload": {"after": {"id": 1, "Name": "x"}, "op": "c"}}).encode()
    assert rows(codec("id INT, Name STRING", "id"), (b"1", value))[0]["Name"] == "x"
    assert "after.name is called Name there" in reason(codec("id INT, name STRING", "id"), (b"1", value))


def test_kinds_are_those_of_the_converter() -> None:
    assert {known.value for known in ConnectKind} == {
        "int8", "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes", "array", "map", "struct",
    }  # fmt: skip
