"""Batches of Avro records: whose schema each has, where its row stands, and why some have none."""

from typing import Any

import pyarrow as pa
import pytest

from holdfast.planning.types.avro.values import whole
from holdfast.planning.types.ddl import parse_schema
from holdfast_runtime.streams.codecs.avro import AvroCodec, avro_codec
from tests.codecs.avro.records import Registry, bare_rows, by_fastavro, codec_of, framed, reason, record_schema
from tests.codecs.schemas import binary

OLD, NEW = record_schema(id="int", name="string"), record_schema(name="string", id="long", note=["null", "string"])
COLUMNS = "id BIGINT, name STRING, note STRING"


def codec(registry: Registry, columns: str = COLUMNS) -> AvroCodec:
    return AvroCodec(parse_schema(columns), registry, None)


def record(tree: Any, number: int, **fields: Any) -> bytes:
    raw: bytes = by_fastavro(tree, fields)[0].as_py()
    return framed(number, raw)


def old(at: int) -> bytes:
    return record(OLD, 1, id=at, name=f"n{at}")


def new(at: int) -> bytes:
    return record(NEW, 2, id=at, name=f"n{at}", note="new")


def test_records_of_several_schemas_keep_their_order() -> None:
    values = [new(at) if at % 3 else old(at) for at in range(20)]
    decoded = codec(Registry(id1=OLD, id2=NEW)).decode(binary(b"x", *values).slice(1))
    assert bare_rows(decoded.rows) == [(at, b"n%d" % at, b"new" if at % 3 else None) for at in range(20)]
    assert decoded.good.tolist() == list(range(20))


def test_good_bad_and_null_records_are_told_apart() -> None:
    values = [old(0), None, new(1)[:-1], framed(17, b"?"), new(2), b"", None, old(3) + b"!"]
    decoded = codec(Registry(id1=OLD, id2=NEW)).decode(binary(*values))
    assert bare_rows(decoded.rows) == [(0, b"n0", None), (2, b"n2", b"new")]
    assert (decoded.good.tolist(), decoded.nulls.tolist()) == ([0, 4], [1, 6])
    assert [bad.index for bad in decoded.bad] == [2, 3, 5, 7]
    assert decoded.bad[1].reason == "its schema id 17 is not in the registry"


EXPECTED = "records of a registry begin with 0x00 and the id of a schema"
FRAMES = [
    (b"", "the value is empty"),
    (b'{"id": 1}', f"it begins with 0x7b ('{{'), and {EXPECTED} in four bytes; is the topic JSON?"),
    (b"\x01\0\0\0\1", f"it begins with 0x01, and {EXPECTED}"),
    (b"\0\0\0\0", f"it has 4 bytes, and {EXPECTED}"),
    (b"\0\xff\xff\xff\xff", "its schema id 4294967295 is not in the registry"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "why"), FRAMES)
def test_a_record_without_a_frame_is_bad(raw: bytes, why: str) -> None:
    assert why in reason(codec(Registry(id1=OLD)).decode(binary(raw)))
    decoded = codec(Registry(id1=OLD)).decode(binary(old(1), raw, old(2)))
    assert decoded.good.tolist() == [0, 2]
    assert why in decoded.bad[0].reason


def test_a_schema_that_does_not_fit_makes_its_records_bad() -> None:
    registry = Registry(id1=OLD, id2=record_schema(id="string", name="string"))
    values = binary(old(0), framed(2, b"\2a\2b"), old(2))
    decoded = codec(registry).decode(values)
    assert decoded.good.tolist() == [0, 2]
    assert decoded.bad[0].reason == (
        "its schema (id 2) does not fit the columns: id is string, and column id is BIGINT; declare it as STRING"
    )


def test_known_schemas_are_asked_for_once_unknown_ids_again() -> None:
    registry = Registry(id1=OLD)
    reader = codec(registry)
    for _ in range(3):
        reader.decode(binary(old(0), new(1), old(2)))
    assert registry.asked_ids == [1, 2, 2, 2]


def test_a_bounded_number_of_schemas_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_codec, "MOST_SCHEMAS", 2)
    registry = Registry(id1=OLD, id3=OLD, id4=OLD)
    reader = codec(registry)
    values = binary(*(framed(number, old(0)[5:]) for number in (1, 3, 4)))
    assert [reader.decode(values).rows.num_rows for _ in range(2)] == [3, 3]
    assert registry.asked_ids == [1, 3, 4, 1, 3, 4]


@pytest.mark.parametrize("values", [binary(), binary(None), pa.nulls(0, pa.binary())])
def test_no_records_are_no_rows(values: pa.BinaryArray) -> None:
    decoded = codec(Registry(id1=OLD)).decode(values)
    assert (decoded.rows.num_rows, decoded.good.tolist(), decoded.bad) == (0, [], ())
    assert decoded.rows.schema == codec(Registry()).schema


def test_records_without_bytes_are_rows_too() -> None:
    decoded = codec_of(record_schema(a="null"), "b INT").decode(binary(b"", b"!", b""))
    assert bare_rows(decoded.rows) == [(None,), (None,)]
    assert [bad.index for bad in decoded.bad] == [1]


def test_a_record_may_be_a_single_value() -> None:
    decoded = codec_of(["null", "int"]).decode(binary(whole(1) + whole(7), whole(0)))
    assert bare_rows(decoded.rows) == [(7,), (None,)]


def test_fields_that_a_schema_lacks_are_null_at_any_depth() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}
    tree = record_schema(r=["null", inner], l={"type": "array", "items": "I"})
    columns = "l ARRAY<STRUCT<y: MAP<STRING, INT>, x: BIGINT>>, z TIMESTAMP, r STRUCT<w: STRUCT<v: DATE>, x: INT>"
    raw = by_fastavro(tree, {"r": {"x": 1}, "l": [{"x": 2}, {"x": 3}]}, {"r": None, "l": []})
    decoded = codec_of(tree, columns).decode(raw)
    assert bare_rows(decoded.rows) == [([(None, 2), (None, 3)], None, (None, 1)), ([], None, None)]


def test_blocks_of_lists_may_say_their_size() -> None:
    tree = record_schema(a={"type": "array", "items": "int"}, b={"type": "map", "values": "int"})
    blocks = whole(-2) + whole(2) + b"\2\4" + whole(1) + b"\6" + b"\0" + whole(-1) + whole(3) + b"\2k\x08" + b"\0"
    values = binary(blocks, blocks)
    assert bare_rows(codec_of(tree).decode(values).rows) == [([1, 2, 3], [(b"k", 4)])] * 2
    assert codec_of(tree, "c INT").decode(values).good.tolist() == [0, 1]


def test_large_batches_grow_their_buffers() -> None:
    tree = record_schema(a={"type": "array", "items": ["null", "string"]}, b="boolean")
    texts = [None if at % 7 == 0 else "é" * at for at in range(50)]
    records = [{"a": texts[: at % 50], "b": at % 3 == 0} for at in range(999)]
    rows = codec_of(tree).decode(by_fastavro(tree, *records)).rows
    assert rows.to_pylist() == records
