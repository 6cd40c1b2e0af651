"""Records that can't be read: each has a reason that names its field, from the loop in C and the judge alike."""

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.planning.types.avro.values import whole
from holdfast_runtime.streams.codecs.avro import compiled_reader, compiled_writer
from holdfast_runtime.streams.codecs.avro.avro_judge import DEEPEST
from tests.codecs.avro.records import bare_rows, codec_of, reason, record_schema
from tests.codecs.schemas import binary

LONGEST = b"\xff" * 9
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "local-timestamp-micros"}
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
DAY = {"type": "int", "logicalType": "date"}
INTS, MAP = {"type": "array", "items": "int"}, {"type": "map", "values": "int"}
ENDS = "field a ends with the record, in the middle of a number"
TOO_LONG = "field a is a number of more than 64 bits"
NO_DAY = "field a should be a time of a day, found "
NO_TIME = "field a should be a time in the years 1 to 9999, found "
CLAIMS = "field a has more items than the record has bytes"
TOO_BIG = "field a should be a number of DECIMAL(4,2), found one of more digits"


def size(number: int, left: int) -> str:
    return f"field a has the size {number}, and the bytes left in the record are {left}"


@pytest.fixture(params=["compiled", "plain"], autouse=True)
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HOLDFAST_PLAIN_LOOPS", "1" if request.param == "plain" else "0")
    compiled_reader.library.cache_clear()
    compiled_writer.library.cache_clear()
    yield
    monkeypatch.undo()
    compiled_reader.library.cache_clear()
    compiled_writer.library.cache_clear()


BAD: list[tuple[Any, str, bytes, str]] = [
    ("int", "INT", b"", ENDS),
    ("int", "INT", b"\x80", ENDS),
    ("long", "BIGINT", LONGEST, ENDS),
    ("long", "BIGINT", LONGEST + b"\x02", TOO_LONG),
    ("long", "BIGINT", LONGEST + b"\x80\x00", TOO_LONG),
    ("int", "INT", whole(1 << 31), "field a should be an int of 32 bits, found 2147483648"),
    ("int", "DOUBLE", whole(-(1 << 31) - 1), "field a should be an int of 32 bits, found -2147483649"),
    ("int", "TINYINT", whole(128), "field a should be a TINYINT, found 128"),
    ("int", "SMALLINT", whole(-32769), "field a should be a SMALLINT, found -32769"),
    ("boolean", "BOOLEAN", b"\2", "field a should be 0 or 1, for false or true, found the byte 0x02"),
    ("boolean", "BOOLEAN", b"", size(1, 0)),
    ("float", "DOUBLE", b"\0\0\0", size(4, 3)),
    ("double", "DOUBLE", b"\0" * 7, size(8, 7)),
    ("double", "DOUBLE", b"\0" * 9, "bytes follow its last field, 1 of them; is its schema another one?"),
    ("string", "STRING", whole(2) + b"a", size(2, 1)),
    ("string", "STRING", whole(-1), size(-1, 0)),
    ("string", "STRING", whole((1 << 63) - 1), size(9223372036854775807, 0)),
    ("string", "STRING", whole(3) + b"a\xffb", "field a is not UTF-8: byte 0xff at position 1"),
    ("string", "STRING", whole(3) + b"\xed\xa0\x80", "field a is not UTF-8: byte 0xed at position 0"),
    ("bytes", "STRING", whole(21) + b"a" * 20 + b"\xc3", "field a is not UTF-8: byte 0xc3 at position 20"),
    ({"type": "fixed", "name": "F", "size": 3}, "BINARY", b"ab", size(3, 2)),
    (COLOUR, "STRING", whole(2), "field a has 2 symbols, numbered from 0, found the number 2"),
    (COLOUR, "STRING", whole(-1), "field a has 2 symbols, numbered from 0, found the number -1"),
    (["null", "int"], "INT", whole(2), "field a has 2 branches, numbered from 0, found the number 2"),
    (["null", "int", "string"], "INT", whole(2) + b"\0", "field a is string, which INT can't take"),
    (DECIMAL, "DECIMAL(4,2)", whole(2) + (10_000).to_bytes(2, "big"), TOO_BIG),
    (DECIMAL, "DECIMAL(6,4)", whole(3) + (-10_000).to_bytes(3, "big", signed=True), TOO_BIG.replace("4,2", "6,4")),
    (DECIMAL, "DECIMAL(4,2)", whole(17) + b"\1" + b"\0" * 16, TOO_BIG),
    (DECIMAL, "DECIMAL(4,2)", whole(16) + b"\x80" + b"\0" * 15, TOO_BIG),
    (MILLIS, "TIMESTAMP", whole(253_402_300_800_000), f"{NO_TIME}253402300800000"),
    (MILLIS, "TIMESTAMP", whole(1 << 62), f"{NO_TIME}{1 << 62}"),
    (MICROS, "TIMESTAMP_NTZ", whole(-(1 << 63)), f"{NO_TIME}{-1 << 63}"),
    (DAY, "DATE", whole(2_932_897), "field a should be a date in the years 1 to 9999, found 2932897"),
    ({"type": "int", "logicalType": "time-millis"}, "TIME(3)", whole(86_400_000), f"{NO_DAY}86400000"),
    ({"type": "long", "logicalType": "time-micros"}, "TIME(6)", whole(-1), f"{NO_DAY}-1"),
    (INTS, "ARRAY<INT>", whole(4) + b"\0\0", CLAIMS),
    (INTS, "ARRAY<INT>", whole(2) + b"\2\4", ENDS),
    (INTS, "ARRAY<INT>", whole(1) + whole(1 << 31) + b"\0", "field a[] should be an int of 32 bits, found 2147483648"),
    (INTS, "ARRAY<INT>", whole(-(1 << 63)) + b"\0", CLAIMS),
    (INTS, "ARRAY<INT>", whole(-1) + whole(2) + b"\2\0", "field a has a block of 1 bytes that says it has 2"),
    (INTS, "ARRAY<INT>", whole(-1) + whole(-1) + b"\2\0", "field a has a block of 1 bytes that says it has -1"),
    ({"type": "array", "items": "null"}, "ARRAY<VOID>", whole(1 << 40) + b"\0", CLAIMS),
    (MAP, "MAP<STRING, INT>", whole(1) + whole(1) + b"\xff\2\0", "field a is not UTF-8: byte 0xff at position 0"),
    (MAP, "MAP<STRING, INT>", whole(1) + whole(9) + b"a\2\0", size(9, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "column", "datum", "why"), BAD)
def test_what_can_not_be_read_has_a_reason(tree: Any, column: str, datum: bytes, why: str) -> None:
    assert reason(codec_of(record_schema(a=tree), f"a {column}").decode(binary(datum))) == why


SKIPPED_TOO = [
    case for case in BAD if not any(word in case[3] for word in ("UTF-8", "DECIMAL", "year", "INT", "a time"))
]


@pytest.mark.parametrize(("tree", "_column", "datum", "why"), SKIPPED_TOO)
def test_what_no_column_has_must_be_there_too(tree: Any, _column: str, datum: bytes, why: str) -> None:
    decoded = codec_of(record_schema(a=tree, b="null"), "b VOID").decode(binary(datum))
    assert reason(decoded) == why.replace("a[]", "a")


def test_a_bad_record_leaves_nothing_in_the_rows_around() -> None:
    tree = record_schema(
        s="string",
        l={"type": "array", "items": {"type": "map", "values": ["null", "string"]}},
        r=record_schema(x=["null", "int"], y="boolean") | {"name": "Inner"},
    )
    items = whole(1) + whole(1) + whole(1) + b"k" + whole(1) + whole(2) + b"hi" + b"\0" + b"\0"
    good = [whole(1) + b"%d" % (at % 10) + items + whole(at % 2) + whole(at)[: at % 2] + b"\1" for at in range(40)]
    damaged = [raw[:-1] + b"\2" for raw in good]
    cut = [raw[: 3 + at % 8] for at, raw in enumerate(good)]
    mixed = [raw for triple in zip(damaged, good, cut, strict=True) for raw in triple]
    codec = codec_of(tree)
    decoded = codec.decode(binary(*mixed))
    assert decoded.good.tolist() == list(range(1, 120, 3))
    assert len(decoded.bad) == 80
    assert bare_rows(decoded.rows) == bare_rows(codec.decode(binary(*good)).rows)
    assert decoded.rows.num_rows == 40
    assert decoded.rows.column("r").field("x").null_count == 20


CHAIN = {"type": "record", "name": "Link", "fields": [{"name": "next", "type": ["null", "Link"]}]}


def test_what_is_skipped_may_be_nested_so_deep() -> None:
    codec = codec_of(record_schema(a=CHAIN, b="int"), "b INT")
    decoded = codec.decode(binary(b"\2" * (DEEPEST - 1) + b"\0" + whole(7), b"\2" * DEEPEST + b"\0" + whole(7)))
    assert bare_rows(decoded.rows) == [(7,)]
    assert decoded.bad[0].reason == "field a is nested deeper than 64 levels"


def test_items_without_bytes_are_counted_over_all_blocks() -> None:
    tree = record_schema(a={"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, b="string")
    codec = codec_of(tree, "b STRING")
    text = whole(20) + b"x" * 20
    decoded = codec.decode(binary(whole(10) + whole(12) + b"\0" + text, whole(10) * 3 + b"\0" + text))
    assert bare_rows(decoded.rows) == [(b"x" * 20,)]
    assert decoded.bad[0].reason == CLAIMS


def test_a_union_takes_the_branches_that_its_column_can() -> None:
    codec = codec_of(record_schema(a=["null", "string", "double", "int"]), "a DOUBLE")
    double = whole(2) + struct.pack("<d", 1.5)
    decoded = codec.decode(binary(whole(0), whole(1) + b"\0", double, whole(3) + whole(3)))
    assert bare_rows(decoded.rows) == [(None,), (1.5,), (3.0,)]
    assert decoded.bad[0].reason == "field a is string, which DOUBLE can't take"


def test_values_without_bytes_that_double_are_not_looked_through() -> None:
    kinds: list[Any] = [{"type": "record", "name": "R0", "fields": [{"name": "x", "type": "null"}]}]
    for level in range(1, 40):
        inner = [{"name": name, "type": f"R{level - 1}"} for name in "xy"]
        kinds.append({"type": "record", "name": f"R{level}", "fields": inner})
    schema = record_schema(**{f"k{level}": kind for level, kind in enumerate(kinds[:8])}, a="int")
    assert bare_rows(codec_of(schema, "a INT").decode(binary(whole(7))).rows) == [(7,)]
    schema = record_schema(**{f"k{level}": kind for level, kind in enumerate(kinds)}, a="int")
    (bad,) = codec_of(schema, "a INT").decode(binary(whole(7))).bad
    assert bad.reason.endswith("has more values without bytes than are looked through")
