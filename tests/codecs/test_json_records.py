"""Each kind of JSON record that is good or bad, one by one."""

from decimal import Decimal

import numpy as np
import pytest

from holdfast_runtime.streams.codecs import EncodeError, JsonCodec, SchemaUnsupportedError
from holdfast_runtime.streams.codecs.json_reader import PIECE, risky_decimals
from tests.codecs.schemas import batch, binary, schema

COLUMNS = schema(
    "a INT, b STRING, c DOUBLE, d TIMESTAMP, e STRUCT<x: ARRAY<INT>, z: ARRAY<TIMESTAMP>>, g DATE, "
    "h DECIMAL(5,2), j BINARY, k FLOAT"
)
DEEP = 100_000

GOOD = [
    (b"{}", {}),
    (b' \r\n{ "a" :\n1 }\t\n', {"a": 1}),
    (b'{"a":1,"a":2}', {"a": 2}),
    (b'{"z":99999999999999999999999,"a":1}', {"a": 1}),
    (b'{"A":1}', {}),
    (b'{"a":null}', {"a": None}),
    (b'{"b":"\\ud83d\\ude00\\u0000\\n"}', {"b": "\U0001f600\0\n"}),
    (b'{"c":1}', {"c": 1.0}),
    (b'{"c":NaN}', {"c": float("nan")}),
    (b'{"c":"NaN"}', {"c": float("nan")}),
    (b'{"c":"-Infinity"}', {"c": float("-inf")}),
    (b'{"e":{"x":[1,null],"y":2}}', {"e": {"x": [1, None], "z": None}}),
    (b'{"h":"12.30"}', {"h": "12.30"}),
    (b'{"h":1e2}', {"h": "100.00"}),
    (b'{"h":1.2000000000000000000000000000000000000000000000000000000000000000000000000000000}', {"h": "1.20"}),
    (b'{"h":"12000e-3","c":1e-99}', {"h": "12.00", "c": 1e-99}),
    (b'{"h":0e-999999999}', {"h": "0.00"}),
    (b'{"d":"0001-01-01T00:00:00Z"}', {"d": "0001-01-01 00:00:00+00:00"}),
    (b'{"d":253402300799999}', {"d": "9999-12-31 23:59:59.999000+00:00"}),
    (b'{"j":"AAE="}', {"j": b"\x00\x01"}),
    (b'{"g":"2024-01-31"}', {"g": "2024-01-31"}),
    (b'{"d":"2024-01-31T12:00:00Z"}', {"d": "2024-01-31 12:00:00+00:00"}),
    (b'{"d":"2024-01-31 12:00:00.5"}', {"d": "2024-01-31 12:00:00.500000+00:00"}),
    (b'{"d":"2024-01-31T12:00:00.123456789+01:00"}', {"d": "2024-01-31 11:00:00.123456+00:00"}),
    (b'{"d":"2024-01-31"}', {"d": "2024-01-31 00:00:00+00:00"}),
    (b'{"d":1706702400500}', {"d": "2024-01-31 12:00:00.500000+00:00"}),
    (b'{"d":-1}', {"d": "1969-12-31 23:59:59.999000+00:00"}),
    (b'{"z":' + b"[" * DEEP + b"]" * DEEP + b"}", {}),
]

BAD = [
    (b"", "empty"),
    (b"  \n", "empty"),
    (b"null", "found|is null"),
    (b"[1]", "an array"),
    (b'"x"', '"x"'),
    (b"{}{}", "not JSON: Extra data"),
    (b'{},"a":{}', "Extra data"),
    (b"{} null {}", "Extra data"),
    (b'{"a":1', "not JSON"),
    (b"{a:1}", "not JSON"),
    (b'{"a":1,}', "not JSON"),
    (b"{}\0}", "Extra data"),
    (b"\xef\xbb\xbf{}", "byte order mark"),
    (b'{"b":"\xff"}', "not UTF-8: byte 0xff at position 6"),
    (b'{"b":"x\ny"}', "not JSON"),
    (b'{"b":"\\ud800"}', "field b holds half a surrogate pair"),
    (b'{"b":1}', "field b should be a string, found 1"),
    (b'{"a":"1"}', 'field a should be a whole number of 32 bits, found "1"'),
    (b'{"a":1.0}', "field a"),
    (b'{"a":true}', "field a"),
    (b'{"a":2147483648}', "field a"),
    (b'{"c":"x"}', "field c should be a number"),
    (b'{"c":1e400}', "field c should be a number that a DOUBLE can hold"),
    (b'{"e":{"x":[1,"y"]}}', r"field e\.x\[1\] should be a whole number"),
    (b'{"e":[]}', "field e should be an object"),
    (b'{"h":1.234}', r"field h should be a number of DECIMAL\(5,2\)"),
    (b'{"h":9999}', "field h"),
    (b'{"j":"AAE"}', "field j should be base64"),
    (b'{"g":"2024-02-30"}', "field g should be a date"),
    (b'{"d":"yesterday"}', 'field d should be an ISO 8601 time.*"yesterday"'),
    (b'{"d":99999999999999999}', "field d"),
    (b'{"h":1e-999999999}', "field h"),
    (b'{"h":1e-41}', "field h"),
    (b'{"h":"1e-41"}', "field h"),
    (b'{"h":"1\\u0065-41"}', "field h"),
    (b'{"h":"1e\\u002d41"}', "field h"),
    (b'{"h":0.' + b"0" * 90 + b"1}", "field h"),
    (b'{"h":' + b"1" * 1_000_000 + b"}", "field h"),
    (b'{"c":' + b"1" * 400 + b"}", "field c should be a number that a DOUBLE can hold"),
    (b'{"k":1e39}', "field k should be a number that a FLOAT can hold"),
    (b'{"d":1700000000000000}', "field d should be .* in the years 1 to 9999, found 1700000000000000"),
    (b'{"d":"0000-01-01T00:00:00Z"}', "field d"),
    (b'{"d":"0000-01-01"}', "field d should be .* in the years 1 to 9999"),
    (b'{"e":{"z":["0000-12-31"]}}', r"field e.z\[0\] should be .* in the years 1 to 9999"),
    (b'{"d":"0001-01-01T00:00:00+01:00"}', "field d should be .* in the years 1 to 9999"),
    (b'{"g":"0000-12-31"}', "field g should be a date like .* in the years 1 to 9999"),
]


@pytest.mark.parametrize(("record", "expected"), GOOD, ids=[repr(record[:40]) for record, _ in GOOD])
@pytest.mark.parametrize("beside", [0, 100])
def test_a_good_record_gives_its_row_alone_and_in_company(
    record: bytes, expected: dict[str, object], beside: int
) -> None:
    decoded = JsonCodec(COLUMNS).decode(binary(record, *[b'{"a":7}'] * beside))
    assert decoded.bad == ()
    row = decoded.rows.slice(0, 1).to_pylist()[0]
    for name, value in row.items():
        expected_value = expected.get(name)
        assert (str(value) if name in "dgh" and value is not None else repr(value)) == (
            expected_value if name in "dgh" and expected_value is not None else repr(expected_value)
        )


@pytest.mark.parametrize(("record", "reason"), BAD, ids=[repr(record[:40]) for record, _ in BAD])
@pytest.mark.parametrize("beside", [0, 100])
def test_bad_records_give_reasons_and_their_neighbours_rows(record: bytes, reason: str, beside: int) -> None:
    decoded = JsonCodec(COLUMNS).decode(binary(*[b'{"a":7}'] * beside, record, *[b'{"a":8}'] * beside))
    assert [bad.index for bad in decoded.bad] == [beside]
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(decoded.bad[0].reason)
    assert decoded.rows.column("a").to_pylist() == [7] * beside + [8] * beside


def test_a_null_value_is_neither_a_row_nor_bad() -> None:
    decoded = JsonCodec(COLUMNS).decode(binary(None, b'{"a":1}', None, b"x"))
    assert decoded.nulls.tolist() == [0, 2]
    assert decoded.good.tolist() == [1]
    assert [bad.index for bad in decoded.bad] == [3]


def test_pieces_of_objects_never_join_across_records() -> None:
    values = [b'{"a":{}', b'{"b":1}}', b'{"b":"}', b'{"}', b'{"z":[{}', b"{}]}", b'{"a":3}']
    decoded = JsonCodec(COLUMNS).decode(binary(*values))
    assert decoded.good.tolist() == [6]
    assert len(decoded.bad) == 6


def test_written_text_is_what_other_readers_of_json_expect() -> None:
    columns = schema(
        "s STRING, d TIMESTAMP, n TIMESTAMP_NTZ, f DOUBLE, h DECIMAL(5,2), m MAP<STRING, INT>, l ARRAY<INT>"
    )
    rows = batch(
        columns,
        [
            dict(zip("sdnfhml", ['"\\\n\x01é', 1, 1000, float("nan"), None, [("k", None)], [1, None]], strict=True)),
            dict(zip("sdnfhml", [None, 0, None, 1.5, None, [], []], strict=True)),
            dict.fromkeys("sdnfhml"),
        ],
    )
    assert [raw.decode() for raw in JsonCodec(columns).encode(rows).to_pylist()] == [
        (
            '{"s":"\\"\\\\\\n\\u0001é","d":"1970-01-01T00:00:00.000001Z","n":"1970-01-01T00:00:00.001","f":"NaN",'
            '"m":{"k":null},"l":[1,null]}'
        ),
        '{"d":"1970-01-01T00:00:00.000Z","f":1.5,"m":{},"l":[]}',
        "{}",
    ]


def test_a_year_that_text_cannot_express_is_refused_by_column() -> None:
    columns = schema("e STRUCT<d: TIMESTAMP>")
    with pytest.raises(EncodeError, match=r"column e\.d holds a time outside of the years 1 to 9999"):
        JsonCodec(columns).encode(batch(columns, [{"e": {"d": 1 << 62}}]))


def test_rows_of_other_columns_are_refused() -> None:
    with pytest.raises(EncodeError, match=r"columns \(a int32\), the stream has \(b int32\)"):
        JsonCodec(schema("b INT")).encode(batch(schema("a INT"), [{"a": 1}]))


@pytest.mark.parametrize("ddl", ["a TIME", "a INTERVAL DAY", "a MAP<INT, INT>", "a ARRAY<STRUCT<b: TIME>>"])
def test_types_without_a_json_form_are_refused_by_column(ddl: str) -> None:
    with pytest.raises(SchemaUnsupportedError, match="column a"):
        JsonCodec(schema(ddl))


def test_a_decimal_beyond_pythons_digits_is_read_alone_too() -> None:
    codec = JsonCodec(schema("m MAP<STRING, DECIMAL(37,0)>"))
    number = "9999999999999999999999999999500000000"
    decoded = codec.decode(binary(f'{{"m": {{"a": {number}}}}}'.encode()))
    assert decoded.bad == ()
    assert str(decoded.rows.column(0).to_pylist()[0][0][1]) == number


@pytest.mark.parametrize("number", ["1234567890123456789012", "38768311764685946300912e15", "84595811729298915832"])
def test_a_decimal_beyond_128_bits_never_becomes_another_number(number: str) -> None:
    for scale in (1, 10, 18, 38):
        decoded = JsonCodec(schema(f"k DECIMAL(38,{scale})")).decode(binary(f'{{"k":{number}}}'.encode()))
        if Decimal(number) < Decimal(10) ** (38 - scale):
            assert [row["k"] for row in decoded.rows.to_pylist()] == [Decimal(number)]
        else:
            assert "should be a number of DECIMAL" in decoded.bad[0].reason


def test_decimals_beside_ids_like_exponents_are_read_at_once() -> None:
    ids = [
        "123e4567-e89b-12d3-a456-426614174000",
        "4e-12",
        "1e-300x",
        "ab3e-4567-",
        "23-456e-4567",
        "+x1e-99",
        "1e-99e",
        "e-999",
        "\u003c\u4e2d",
        "9" * 32,
    ]
    assert not any(risky_decimals(np.frombuffer(f'{{"id":"{one}"}}'.encode() * 9, np.uint8)) for one in ids)


@pytest.mark.parametrize("before", [0, 1, 15, PIECE - 90, PIECE - 8, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE - 3])
@pytest.mark.parametrize(
    "number",
    [
        "1e-30",
        "1.E-77",
        "1e-0099",
        "-.5e-99",
        "0" * 40 + "." + "1" * 40 + "e-99",
        "0." + "0" * 47 + "1",
        r"1\u0065-99",
        r"1e\u002D99",
    ],
)
def test_a_risky_decimal_is_found_wherever_it_stands(before: int, number: str) -> None:
    text = b'{"k":' + b" " * before + f'"{number}"}}\n{{}}'.encode()
    assert risky_decimals(np.frombuffer(text, np.uint8))
