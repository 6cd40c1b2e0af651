"""What envelopes do to a table, how records are laid out, and which of them are bad."""

import base64
import json
from typing import Any

import pytest

from tests.changes.records import Record, batch, codec, reason, rows

KEY: dict[str, Any] = {"type": "struct", "optional": False, "fields": [{"type": "int32", "field": "id"}]}
ROW = {"type": "struct", "fields": [{"type": "int32", "field": "id"}, {"type": "string", "field": "name"}]}
VALUE = {
    "type": "struct",
    "fields": [ROW | {"field": "before"}, ROW | {"field": "after"}, {"type": "string", "field": "op"}],
}
SCHEMA = "id INT, name STRING"


def compact(tree: Any) -> bytes:
    return json.dumps(tree, separators=(",", ":")).encode()


def wrapped(schema: Any, payload: Any) -> bytes:
    return compact({"schema": schema, "payload": payload})


def changed(number: int, op: str = "u", name: str | None = "x") -> Record:
    return wrapped(KEY, {"id": number}), wrapped(VALUE, {"after": {"id": number, "name": name}, "op": op})


def of_key(key: bytes | None) -> Record:
    return key, compact({"op": "c", "after": {"id": 5, "name": "x"}})


@pytest.mark.parametrize("op", ["c", "u", "r"])
def test_a_row_is_kept_after_each_of_its_changes(op: str) -> None:
    assert rows(codec(SCHEMA, "id"), changed(5, op)) == [{"id": 5, "name": "x", "deleted": False}]


@pytest.mark.parametrize(
    "value", [None, compact({"op": "d", "before": None, "after": None}), wrapped(VALUE, {"op": "d"})]
)
def test_a_delete_takes_the_row_of_the_key(value: bytes | None) -> None:
    assert rows(codec(SCHEMA, "id"), (b'{"id":7}', value)) == [{"id": 7, "name": None, "deleted": True}]


def test_rows_and_deletes_stand_in_the_order_of_records() -> None:
    records = [changed(1), (b'{"id":1}', None), changed(2), (b"3", compact({"op": "d"})), changed(1, "c")]
    read = rows(codec(SCHEMA, "id"), *records)
    assert [(row["id"], row["deleted"]) for row in read] == [(1, False), (1, True), (2, False), (3, True), (1, False)]


@pytest.mark.parametrize(
    "key",
    [
        b'{"id":5}',
        b'{ "id" : 5 }',
        b"5",
        wrapped(KEY, {"id": 5}),
        compact({"payload": {"id": 5}, "schema": KEY}),
        compact({"schema": None, "payload": {"id": 5}}),
    ],
)
def test_keys_of_any_layout_are_read(key: bytes) -> None:
    assert rows(codec(SCHEMA, "id"), of_key(key))[0]["id"] == 5


BAD_KEYS: list[tuple[bytes | None, str]] = [
    (None, "the record has no key"),
    (b"", "its key is b''"),
    (b"six", "its key is b'six', which is no id (int32)"),
    (b"99999999999", "its key is b'99999999999'"),
    (b"Struct{id=5}", "its key is b'Struct{id=5}'"),
    (b'{"id":6}', "id is 6 in its key and 5 in after"),
    (b'{"id":null}', "its key has no value for id"),
    (b'{"ID":5}', "its key has ID, and key of the stream is (id)"),
    (b'{"id":5,"part":1}', "its key has id, part, and key of the stream is (id)"),
    (b'{"id":"5"}', "field id should be a whole number of 32 bits"),
    (b'{"id":5', "the value is not JSON"),
    (b"[5]", "its key is b'[5]'"),
    (
        wrapped({**KEY, "fields": [*KEY["fields"], {"type": "int32", "field": "part"}]}, {"id": 5}),
        "its key has id, part",
    ),
    (wrapped({"type": "int32"}, 5), "its key has no columns"),
]


@pytest.mark.parametrize(("key", "why"), BAD_KEYS)
def test_a_key_of_another_row_is_bad(key: bytes | None, why: str) -> None:
    reader = codec(SCHEMA, "id")
    assert why in reason(reader, of_key(key))
    decoded = reader.decode(batch([of_key(key), of_key(b"5"), of_key(key)]))
    assert ([record.index for record in decoded.bad], decoded.good.tolist()) == ([0, 2], [1])


@pytest.mark.parametrize("key", [None, b'{"part":5}', b'{"id":null}', b'{"id":5,"part":1}'])
def test_a_delete_without_the_key_is_bad(key: bytes | None) -> None:
    assert reason(codec(SCHEMA, "id"), (key, None))
    assert reason(codec(SCHEMA, "id"), (key, compact({"op": "d"})))


def test_keys_of_several_columns_may_stand_in_any_order() -> None:
    reader, after = codec("id INT, part STRING", "id", "part"), {"id": 5, "part": 'a"\n'}
    value = compact({"op": "c", "after": after})
    for key in (compact(after), compact({"part": 'a"\n', "id": 5}), json.dumps(after).encode()):
        assert rows(reader, (key, value))[0]["part"] == 'a"\n'
    assert "its key is no object, and key has id, part" in reason(reader, (b"5", value))


BAD_VALUES: list[tuple[bytes, str]] = [
    (compact({"op": "t", "after": None}), "its op is 't', a truncate"),
    (compact({"op": "m"}), "its op is 'm', a message"),
    (compact({"op": "x" * 99}), f"its op is '{'x' * 20}', and Debezium writes c, u, r and d"),
    (compact({"op": "u", "after": None}), "its op is u, and after is null"),
    (
        compact({"id": 5, "name": "x"}),
        "it has no op, and an envelope of Debezium says with it what was done (it has id",
    ),
    (wrapped(ROW, {"id": 5, "name": "x"}), "it has no op"),
    (b"", "the value is empty"),
    (b"{", "the value is not JSON"),
    (b"[]", "the value is an array"),
    (b"null", "the value is null"),
    (wrapped(VALUE, None), "the value is null"),
    (
        wrapped(VALUE, {"after": {"id": "5"}, "op": "c"}),
        'field after.id should be a whole number of 32 bits, found "5"',
    ),
    (wrapped(VALUE, {"op": "d"})[:-1], "the value is not JSON"),
    (wrapped(VALUE, {"op": 5}), "field op should be a string"),
]


@pytest.mark.parametrize(("value", "why"), BAD_VALUES)
def test_what_is_no_change_of_a_row_is_bad(value: bytes, why: str) -> None:
    reader = codec(SCHEMA, "id")
    assert why in reason(reader, (b"5", value))
    decoded = reader.decode(batch([(b"5", value), changed(1), (b"5", value)]))
    assert ([record.index for record in decoded.bad], decoded.good.tolist()) == ([0, 2], [1])


def test_a_member_behind_the_payload_spoils_only_its_record() -> None:
    key, value = changed(5)
    assert value is not None
    decoded = codec(SCHEMA, "id").decode(batch([changed(1), (key, value[:-1] + b',"more":1}'), changed(2)]))
    assert ([record.index for record in decoded.bad], decoded.good.tolist()) == ([1], [0, 2])


def test_blanks_behind_a_record_change_nothing() -> None:
    key, value = changed(5)
    assert value is not None
    assert [row["id"] for row in rows(codec(SCHEMA, "id"), changed(1), (key, value + b" \n"), changed(2))] == [1, 5, 2]


def test_a_record_with_another_end_is_bad() -> None:
    key, value = changed(5)
    assert value is not None
    assert "the value is not JSON" in reason(codec(SCHEMA, "id"), (key, value[:-1] + b"x"))


def test_no_records_make_no_rows() -> None:
    assert rows(codec(SCHEMA, "id"), (b"5", None)) == [{"id": 5, "name": None, "deleted": True}]
    decoded = codec(SCHEMA, "id").decode(batch([changed(1)]).slice(0, 0))
    assert (decoded.rows.num_rows, decoded.bad) == (0, ())


def test_schemas_nested_without_end_are_bad() -> None:
    for depth in (200, 5_000, 200_000):
        deep = b'{"type":"array","items":' * depth + b'{"type":"string"}' + b"}" * depth
        value = b'{"schema":' + deep + b',"payload":{"op":"c","after":{"id":5}}}'
        assert reason(codec("id INT", "id"), (b"5", value))
        assert reason(codec("id INT", "id"), (b"5", b'{"payload":{},"schema":' + deep + b"}"))


def test_many_schemas_in_a_batch_are_read_in_order() -> None:
    def record(number: int) -> Record:
        schema = {**VALUE, "doc": f"version {number % 150}"}
        return b"%d" % number, wrapped(schema, {"after": {"id": number, "name": "x"}, "op": "c"})

    reader = codec(SCHEMA, "id")
    for _ in range(2):
        assert [row["id"] for row in rows(reader, *map(record, range(300)))] == list(range(300))


def test_a_schema_without_the_column_gives_null() -> None:
    narrow = {"type": "struct", "fields": [{"type": "int32", "field": "id"}]}
    schema = {"type": "struct", "fields": [narrow | {"field": "after"}, {"type": "string", "field": "op"}]}
    older = b"5", wrapped(schema, {"after": {"id": 5}, "op": "r"})
    assert [row["name"] for row in rows(codec(SCHEMA, "id"), older, changed(6))] == [None, "x"]


UNAVAILABLE = "__debezium_unavailable_value"
IN_LETTERS = base64.b64encode(UNAVAILABLE.encode()).decode()
UNAVAILABLES: list[tuple[str, dict[str, Any], Any]] = [
    ("STRING", {"type": "string"}, UNAVAILABLE),
    ("STRING", {"type": "string"}, IN_LETTERS),
    ("STRING", {"type": "string"}, UNAVAILABLE.encode().hex()),
    ("STRING", {"type": "string"}, f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}'),
    ("BINARY", {"type": "bytes"}, IN_LETTERS),
    ("ARRAY<STRING>", {"type": "array", "items": {"type": "string"}}, [UNAVAILABLE]),
    ("ARRAY<STRING>", {"type": "array", "items": {"type": "string"}}, ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
    ("ARRAY<BINARY>", {"type": "array", "items": {"type": "bytes"}}, [IN_LETTERS]),
    ("ARRAY<BIGINT>", {"type": "array", "items": {"type": "int64"}}, list(UNAVAILABLE.encode())),
    ("ARRAY<DOUBLE>", {"type": "array", "items": {"type": "double"}}, list(map(float, UNAVAILABLE.encode()))),
    ("MAP<STRING, STRING>", {"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}},
     {UNAVAILABLE: UNAVAILABLE}),
]  # fmt: skip


def of_name(kind: dict[str, Any], value: Any) -> Record:
    row = {"type": "struct", "fields": [{"type": "int32", "field": "id"}, kind | {"field": "name"}]}
    schema = {"type": "struct", "fields": [row | {"field": "after"}, {"type": "string", "field": "op"}]}
    return b"5", wrapped(schema, {"after": {"id": 5, "name": value}, "op": "u"})


@pytest.mark.parametrize(("column", "kind", "value"), UNAVAILABLES)
def test_a_value_that_debezium_does_not_have_is_bad(column: str, kind: dict[str, Any], value: Any) -> None:
    reader = codec(f"id INT, name {column}", "id")
    assert "set REPLICA IDENTITY FULL" in reason(reader, of_name(kind, value))
    other = value if isinstance(value, str | dict) else value[:-1]
    other = dict.fromkeys(["a"], "b") if isinstance(other, dict) else other[4:] if isinstance(other, str) else other
    assert len(rows(reader, of_name(kind, other), of_name(kind, None))) == 2


BARE: list[tuple[str, Any, str]] = [
    ("TIMESTAMP", 86_400_000_000, "field after.v should be a string, found 86400000000"),
    ("TIMESTAMP", 0, "field after.v should be a string, found 0"),
    ("DECIMAL(9,2)", "1234", "field after.v holds 1234, a number as text that has a point"),
    ("DECIMAL(9,2)", "BNI=", "field after.v holds BNI="),
    ("DATE", 20_000, "field after.v should be a date"),
    ("TIME", 5, "field after.v should be null"),
    ("BINARY", "deadbeef", "field after.v holds deadbeef, letters that may be base64 or hexadecimal"),
    ("ARRAY<BINARY>", [None, "AAEC", "", "012345670123", "AA=="], "field after.v[] holds 012345670123"),
    ("ARRAY<TIMESTAMP>", [5], "field after.v"),
]


@pytest.mark.parametrize(("column", "value", "why"), BARE)
def test_without_a_schema_what_only_one_tells_is_refused(column: str, value: Any, why: str) -> None:
    record = b"5", compact({"op": "c", "after": {"id": 5, "v": value}})
    text = reason(codec(f"id INT, v {column}", "id"), record)
    assert why in text
    assert "set schemas.enable=true of the converter" in text


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("DECIMAL(9,2)", 1234, "1234.00"),
        ("DECIMAL(9,2)", -0.5, "-0.50"),
        ("DECIMAL(9,2)", "1234.5", "1234.50"),
        ("BINARY", "3q2+7w==", "b'\\xde\\xad\\xbe\\xef'"),
        ("ARRAY<BINARY>", ["3q2+", "", None, "abcA"], "[b'\\xde\\xad\\xbe', b'', None, b'i\\xb7\\x00']"),
        ("DATE", "2026-01-02", "2026-01-02"),
        ("TIMESTAMP", "2026-01-02T03:04:05+01:00", "2026-01-02 02:04:05+00:00"),
        ("STRUCT<at: TIMESTAMP_NTZ>", {"at": "2026-01-02T03:04:05Z"}, "{'at': datetime.datetime(2026, 1, 2, 3, 4, 5)}"),
        ("BIGINT", 86_400_000_000, "86400000000"),
    ],
)
def test_without_a_schema_what_is_plain_is_read(column: str, value: Any, text: str) -> None:
    record = b"5", compact({"op": "c", "after": {"id": 5, "v": value}})
    assert str(rows(codec(f"id INT, v {column}", "id"), record)[0]["v"]) == text
