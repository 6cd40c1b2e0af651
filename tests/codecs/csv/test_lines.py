"""Each kind of line that is good or bad, one by one."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from holdfast_runtime.streams.codecs import EncodeError, SchemaUnsupportedError
from holdfast_runtime.streams.codecs.csv import CsvCodec
from holdfast_runtime.streams.codecs.csv.csv_format import CsvFormat
from tests.codecs.schemas import batch, binary, schema

COLUMNS = schema("a INT, b STRING, c DOUBLE, d TIMESTAMP")
BESIDE = b"7,,,"

GOOD: list[tuple[bytes, tuple[Any, ...]]] = [
    (b",,,", (None, None, None, None)),
    (b'1,"",,', (1, "", None, None)),
    (b'"1","x","1.5","2024-01-31T12:00:00Z"', (1, "x", 1.5, datetime(2024, 1, 31, 12, tzinfo=UTC))),
    (b'1,"a,b ""c""\r\nd",,', (1, 'a,b "c"\r\nd', None, None)),
    (b"1, x ,,", (1, " x ", None, None)),
    ("1,é\U0001f600,,".encode(), (1, "é\U0001f600", None, None)),
    (b"-0,0,-Infinity,1706702400500", (0, "0", float("-inf"), datetime(2024, 1, 31, 12, 0, 0, 500_000, UTC))),
    (b"1,null,1e3,2024-01-31", (1, "null", 1000.0, datetime(2024, 1, 31, tzinfo=UTC))),
    (b"1,x,1,2024-01-31 12:00:00.123456789+01:00", (1, "x", 1.0, datetime(2024, 1, 31, 11, 0, 0, 123_456, UTC))),
]

BAD = [
    (b"", "the line has 1 field and the stream 4 columns: b, c, d are missing"),
    (b"1,x,2", "3 fields and the stream 4 columns: d is missing; null is a field with nothing in it"),
    (b"1,x,2,,y", 'has 5 fields and the stream 4 columns: the first that no column takes is "y"; a field .* in quotes'),
    (b"1,x,2,,", "the first that no column takes is null"),
    (b"1,x,2,\n", "a line break follows field d at character 7; a record is one line"),
    (b"1,x,2,\r\n2,y,3,", "a line break follows field d"),
    (b"1,x\ny,2,", "a line break follows field b at character 4"),
    (b'1,"x,2,', r'field b begins with a quote that nothing closes, "\\"x,2,"; write a quote inside twice'),
    (b'1,"x"y,2,', "field b goes on behind its closing quote"),
    (b'1,5" tv,2,', r'field b has a quote inside, "5\\" tv,2,"; put it into quotes'),
    (b'1, "x",2,', "field b has a quote inside"),
    (b"1,\xff,2,", "the value is not UTF-8: byte 0xff at position 2"),
    (b"\xef\xbb\xbf1,x,2,", "a byte order mark"),
    (b"x,x,2,", 'field a should be a whole number of 32 bits, found "x"'),
    (b'"",x,2,', 'field a should be a whole number of 32 bits, found ""'),
    (b" 1,x,2,", "field a"),
    (b"007,x,2,", 'field a should be a whole number of 32 bits, found "007"'),
    (b"1.0,x,2,", "field a should be a whole number of 32 bits, found 1.0"),
    (b"2147483648,x,2,", "field a"),
    (b'1,x,"1,5",', 'field c should be a number, found "1,5"'),
    (b"1,x,1e400,", "field c should be a number that a DOUBLE can hold"),
    (b"1,x,,yesterday", 'field d should be an ISO 8601 time or milliseconds since 1970, found "yesterday"'),
    (b"1,x,,1700000000000000", "field d should be .* in the years 1 to 9999"),
    (b"1;x;2;", "the line has 1 field"),
]


@pytest.mark.parametrize(("line", "row"), GOOD, ids=[repr(line) for line, _ in GOOD])
def test_a_good_line_gives_its_row_among_others(line: bytes, row: tuple[Any, ...]) -> None:
    decoded = CsvCodec(COLUMNS, CsvFormat()).decode(binary(BESIDE, line, BESIDE))
    assert not decoded.bad
    assert tuple(decoded.rows.to_pylist()[1].values()) == row


@pytest.mark.parametrize(("line", "reason"), BAD, ids=[repr(line) for line, _ in BAD])
def test_bad_lines_give_reasons_and_their_neighbours_rows(line: bytes, reason: str) -> None:
    decoded = CsvCodec(COLUMNS, CsvFormat()).decode(binary(BESIDE, line, None, BESIDE))
    assert [bad.index for bad in decoded.bad] == [1]
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(decoded.bad[0].reason)
    assert decoded.good.tolist() == [0, 3]
    assert decoded.nulls.tolist() == [2]
    assert decoded.rows.column("a").to_pylist() == [7, 7]


def test_all_types_are_written_as_json_carries_them() -> None:
    columns = schema(
        "a BIGINT, f BOOLEAN, c DOUBLE, h FLOAT, m DECIMAL(5,2), b STRING, j BINARY, g DATE, d TIMESTAMP, "
        "n TIMESTAMP_NTZ"
    )
    moment = datetime(2024, 1, 31, 12, 0, 0, 1, UTC)
    values = (-1, True, 0.1 + 0.2, 0.1, Decimal("1.50"), "x;y", b"\0\1", date(2024, 1, 31), moment, moment)
    rows = batch(columns, [dict(zip(columns.names, values, strict=True))])
    (line,) = CsvCodec(columns, CsvFormat(";")).encode(rows).to_pylist()
    assert line == (
        b'-1;true;0.30000000000000004;0.1;1.50;"x;y";AAE=;2024-01-31;2024-01-31T12:00:00.000001Z;'
        b"2024-01-31T12:00:00.000001"
    )


def test_values_that_would_read_as_null_are_quoted() -> None:
    columns, written = schema("a INT, b STRING"), CsvFormat(",", "0")
    rows = batch(columns, [{"a": 0, "b": "0"}, {"a": None, "b": None}, {"a": 1, "b": ""}])
    values = CsvCodec(columns, written).encode(rows)
    assert values.to_pylist() == [b'"0","0"', b"0,0", b'1,""']
    assert CsvCodec(columns, written).decode(values).rows.equals(rows)


def test_one_column_of_null_is_a_record_without_bytes() -> None:
    columns = schema("b STRING")
    rows = batch(columns, [{"b": None}, {"b": ""}])
    values = CsvCodec(columns, CsvFormat()).encode(rows)
    assert values.to_pylist() == [b"", b'""']
    assert CsvCodec(columns, CsvFormat()).decode(values).rows.equals(rows)


def test_lines_without_columns_are_empty() -> None:
    codec = CsvCodec(pa.schema([]), CsvFormat())
    decoded = codec.decode(binary(b"", b"x"))
    assert decoded.good.tolist() == [0]
    assert decoded.bad[0].reason.startswith("the line has 1 field and the stream 0 columns: ")
    assert codec.encode(decoded.rows).to_pylist() == [b""]


def test_a_time_beyond_its_years_can_not_be_written() -> None:
    columns = schema("c DOUBLE, d TIMESTAMP")
    rows = batch(columns, [{"c": 1.0, "d": 0}, {"c": 1.0, "d": 1 << 60}])
    with pytest.raises(EncodeError, match="column d holds a time outside of the years"):
        CsvCodec(columns, CsvFormat()).encode(rows)


@pytest.mark.parametrize("kind", ["ARRAY<INT>", "MAP<STRING, INT>", "STRUCT<x: INT>", "INTERVAL DAY TO SECOND", "TIME"])
def test_what_no_field_holds_is_refused_by_name(kind: str) -> None:
    with pytest.raises(SchemaUnsupportedError, match=r"column v is .*, which no field of a line holds"):
        CsvCodec(schema(f"v {kind}"), CsvFormat())


def test_no_records_are_no_rows() -> None:
    codec = CsvCodec(COLUMNS, CsvFormat())
    assert codec.decode(binary()).rows.num_rows == 0
    assert codec.decode(binary(None)).nulls.tolist() == [0]
    assert len(codec.encode(batch(COLUMNS, []))) == 0
