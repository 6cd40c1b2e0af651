"""Records that are no message, or not the one of the schema: bad, with a reason, and never their neighbours."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdfast.planning.types.ddl import parse_schema
from holdfast_runtime.streams.codecs import BadRecord
from holdfast_runtime.streams.codecs.protobuf import ProtobufCodec
from holdfast_runtime.streams.codecs.protobuf.message_places import place_bytes
from tests.codecs.protobuf.messages import Registry, codec_of, decoded_reason, proto3

ORDER = proto3(
    """
    enum Kind { NEW = 0; GONE = 1; }
    message Order {
      string id = 1; int32 seats = 2; Kind kind = 3; google.protobuf.Timestamp at = 4; uint64 count = 5;
      oneof pay { string card = 6; int32 cash = 7; }
      Shop shop = 8; map<string, int32> attrs = 9; repeated int32 numbers = 10 [packed = false];
    }
    message Shop { string name = 1; int32 seats = 2; message Till { int32 number = 1; } }
    """
)
COLUMNS = "id STRING, seats INT"
GOOD = b"\x0a\x01a\x10\x05"

REASONS: list[tuple[bytes, str]] = [
    (GOOD[:-1], "the record ends in the middle of a number"),
    (b"\x0a\x05a", "the record has a value of 5 bytes, and the bytes left are 1"),
    (b"\x0a\x01\xff", "field id is not UTF-8: byte 0xff at position 0"),
    (b"\x08\x05", "field id is a varint, and its schema has bytes with their size there; is it of another schema?"),
    (b"\x00", "the record has the bytes of no field: number 0, type 0; is it another format?"),
    (b'{"id": 1}', "the record has a value of 105 bytes, and the bytes left are 6"),
    (b"\x0f", "number 1, type 7"),
    (b"\xbc\x06", "the record has the end of a group that has not begun"),
    (b"\xbb\x06\xc4\x06", "the record has the end of another group than the one that has begun"),
    (b"\x18\x09", "field kind has the number 9, which its enum has no name for; declare it as INT"),
    (b"\x22\x07\x08\xff\xff\xff\xff\xff\x7f", "field at should be a time in the years 1 to 9999"),
    (b"\x22\x06\x10\xff\xff\xff\xff\x07", "field at has 2147483647 nanoseconds, which is no part of a second"),
    (b"\x10" + b"\xff" * 10 + b"\x01", "the record has a number of more than 64 bits"),
    (b"\x42\x03\x0a\x01\xff", "field shop.name is not UTF-8"),
]


@pytest.mark.parametrize(("raw", "why"), REASONS)
def test_what_is_no_message_says_why(raw: bytes, why: str) -> None:
    assert why in decoded_reason(ORDER, raw)


def test_a_number_beyond_its_column_is_refused() -> None:
    raw = b"\x28" + b"\xff" * 9 + b"\x01"
    assert decoded_reason(ORDER, raw, "count BIGINT") == f"field count should be a BIGINT, found {2**64 - 1}"
    assert codec_of(ORDER, "count DECIMAL(20,0)").decode(pa.array([raw], pa.binary())).rows[0][0].as_py() == 2**64 - 1
    assert decoded_reason(ORDER, b"\x10\x80\x01", "seats TINYINT") == "field seats should be a TINYINT, found 128"


@pytest.mark.parametrize("depth", [101, 3_000_000])
def test_groups_without_end_do_not_end_the_process(depth: int) -> None:
    assert "on more than 100 levels" in decoded_reason(ORDER, b"\xbb\x06" * depth + b"\xbc\x06" * depth)


def test_bad_records_leave_their_neighbours_alone() -> None:
    values = [GOOD if number % 3 else GOOD[:-1] for number in range(100)]
    decoded = codec_of(ORDER, COLUMNS).decode(pa.array([None, *values], pa.binary()))
    assert decoded.rows.num_rows == 66
    assert [record.index for record in decoded.bad] == list(range(1, 101, 3))
    assert decoded.nulls.tolist() == [0]


READ_AS_THE_LAST: list[tuple[bytes, dict[str, Any]]] = [
    (b"\x0a\x01a\x0a\x01b", {"id": "b"}),
    (b"\x32\x01x\x38\x05", {"card": None, "cash": 5}),
    (b"\x38\x05\x32\x01x", {"card": "x", "cash": None}),
    (b"\x42\x03\x0a\x01n\x42\x02\x10\x05", {"shop": {"name": "n", "seats": 5}}),
    (b"\x4a\x05\x0a\x01k\x10\x01\x4a\x05\x0a\x01k\x10\x02", {"attrs": [("k", 2)]}),
    (b"\x4a\x00", {"attrs": [("", 0)]}),
    (b"\x50\x01\x0a\x01a\x52\x02\x02\x03\x50\x04", {"id": "a", "numbers": [1, 2, 3, 4]}),
    (b"\xbb\x06\xc3\x06\xc4\x06\xbc\x06\x10\x07\xf8\x07\x05", {"seats": 7}),
]


@pytest.mark.parametrize(("raw", "expected"), READ_AS_THE_LAST)
def test_what_is_there_twice_is_read_as_protobuf_says(raw: bytes, expected: dict[str, Any]) -> None:
    (row,) = codec_of(ORDER).decode(pa.array([raw], pa.binary())).rows.to_pylist()
    assert {name: row[name] for name in expected} == expected


def test_absent_fields_have_defaults_and_absent_messages_are_null() -> None:
    (row,) = codec_of(ORDER).decode(pa.array([b""], pa.binary())).rows.to_pylist()
    assert (row["id"], row["seats"], row["kind"], row["numbers"], row["attrs"]) == ("", 0, "NEW", [], [])
    assert row["at"] is row["card"] is row["shop"] is None
    lacking = codec_of(ORDER, "id STRING, more INT").decode(pa.array([b""], pa.binary())).rows
    assert lacking.to_pylist() == [{"id": "", "more": None}]


def framed(place: bytes, raw: bytes = GOOD, number: int = 7) -> bytes:
    return b"\0" + number.to_bytes(4) + place + raw


def test_records_say_which_message_they_are() -> None:
    codec = ProtobufCodec(parse_schema("seats INT"), Registry(id7=ORDER), None)
    values = [
        framed(b"\0"),
        framed(b"\x02\x02", b"\x10\x08"),
        framed(b"\x02\x00", b"\x10\x09"),
        framed(b"\0", number=8),
        framed(b"\x04\x02\x00", b"\x08\x01"),
        framed(b"\x02\x08"),
        framed(b"\x02", b""),
        framed(b"", b""),
        b"{}",
        framed(b"\x80\x80\x80\x80\x80\x01"),
        framed(b"\x01"),
        framed(b"\xc8\x01"),
    ]
    decoded = codec.decode(pa.array(values, pa.binary()))
    assert decoded.rows.column(0).to_pylist() == [5, 8, 9, None]
    assert decoded.good.tolist() == [0, 1, 2, 4]
    reasons = {record.index: record.reason for record in decoded.bad}
    assert list(reasons) == [3, 5, 6, 7, 8, 9, 10, 11]
    assert reasons[3] == "its schema id 8 is not in the registry"
    assert "(id 7) has no message at 4" in reasons[5]
    assert "the place of its message ends in the middle of a number" in reasons[6]
    assert "records of Protobuf have it behind the id" in reasons[7]
    assert "it begins with 0x7b" in reasons[8]
    assert "more than 32 bits" in reasons[9]
    assert "has -1 numbers" in reasons[10]
    assert "has 100 numbers" in reasons[11]


def test_other_messages_than_the_declared_are_bad() -> None:
    codec = ProtobufCodec(parse_schema("seats INT"), Registry(id7=ORDER.chosen("Shop")), None)
    decoded = codec.decode(pa.array([framed(b"\x02\x02"), framed(b"\0")], pa.binary()))
    assert decoded.good.tolist() == [0]
    assert decoded.bad == (BadRecord(1, "it is message Order, and the stream's is Shop"),)


def test_a_message_that_does_not_fit_makes_its_records_bad() -> None:
    codec = ProtobufCodec(parse_schema("seats BOOLEAN"), Registry(id7=ORDER), None)
    (record,) = codec.decode(pa.array([framed(b"\0")], pa.binary())).bad
    assert record.reason == (
        "its schema (id 7) does not fit the columns: seats is int32, and column seats is BOOLEAN; declare it as INT"
    )


def test_many_places_in_one_batch_are_read_each() -> None:
    draw = np.random.default_rng(1)
    places = [place_bytes((int(number),)) for number in draw.integers(0, 2, 1000)]
    places[500:600] = [place_bytes((number,)) for number in range(2, 102)]
    codec = ProtobufCodec(parse_schema("seats INT"), Registry(id7=ORDER), None)
    decoded = codec.decode(pa.array([framed(place, b"\x10\x01") for place in places], pa.binary()))
    assert [record.index for record in decoded.bad] == list(range(500, 600))
    assert decoded.rows.column(0).to_pylist() == [1] * 900


def test_places_of_damaged_records_take_no_long_time() -> None:
    draw = np.random.default_rng(2)
    values = [framed(draw.bytes(8), number=7) for _ in range(20_000)]
    registry = Registry(id7=ORDER)
    decoded = ProtobufCodec(parse_schema("seats INT"), registry, None).decode(pa.array(values, pa.binary()))
    assert decoded.rows.num_rows + len(decoded.bad) == 20_000
    assert registry.asked_ids == [7]
