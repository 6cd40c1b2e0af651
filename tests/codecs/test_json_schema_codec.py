"""Records of `format: json-schema`: objects behind the id of their schema."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.planning.types.json_schema import JsonSchema
from holdfast_runtime.streams.codecs import EncodeError, JsonCodec
from holdfast_runtime.streams.codecs.json_schema_codec import JsonSchemaCodec
from holdfast_runtime.streams.codecs.record_schemas import WrittenSchema

COLUMNS = pa.schema([("id", pa.int64()), ("shop", pa.string())])
NESTED = pa.schema([*COLUMNS, ("more", pa.struct([("n", pa.int64())]))])


class Registry:
    """Knows one id."""

    framed = True

    def __init__(self) -> None:
        self.asked_ids: list[int] = []

    def schema(self, number: int, /) -> JsonSchema | str:
        self.asked_ids.append(number)
        return JsonSchema() if number == 7 else f"its schema id {number} is not in the registry"


def framed(number: int, tree: Any) -> bytes:
    return b"\0" + number.to_bytes(4) + json.dumps(tree).encode()


def codec(registry: Registry | None = None) -> JsonSchemaCodec:
    return JsonSchemaCodec(COLUMNS, registry or Registry(), WrittenSchema(JsonSchema(), b"\0\0\0\0\x07"))


def test_objects_behind_a_known_id_are_rows() -> None:
    registry = Registry()
    reader = codec(registry)
    values = pa.array([framed(7, {"id": 1, "shop": "north"}), None, framed(7, {"id": 2})], pa.binary())
    for part in (values, values.slice(1)):
        decoded = reader.decode(part)
        assert not decoded.bad
        assert decoded.nulls.tolist() == [part.to_pylist().index(None)]
    assert decoded.rows.to_pylist() == [{"id": 2, "shop": None}]
    assert registry.asked_ids == [7]


@given(
    st.lists(
        st.one_of(
            st.builds(
                lambda number, shop: json.dumps({"id": number, "shop": shop}), st.integers(-9, 9), st.text(max_size=3)
            ),
            st.sampled_from(
                ['{"id": 1', '{"id": 1e0, "shop": "\\u00e9"}', "[]", "", " ", '{"i\\u0064": 2}', '{"id": "x"}']
            ),
        ),
        max_size=40,
    )
)
def test_ids_change_nothing_of_what_objects_say(texts: list[str]) -> None:
    objects = [text.encode() for text in texts]
    for columns in (COLUMNS, NESTED):
        plain, behind = JsonCodec(columns), JsonSchemaCodec(columns, Registry(), None)
        expected = plain.decode(pa.array(objects, pa.binary()))
        decoded = behind.decode(pa.array([b"\0\0\0\0\x07" + raw for raw in objects], pa.binary()))
        assert decoded.rows.equals(expected.rows)
        assert decoded.good.tolist() == expected.good.tolist()
        assert [record.index for record in decoded.bad] == [record.index for record in expected.bad]


def test_bad_records_leave_their_neighbours_alone() -> None:
    values = [
        framed(8, {"id": 1}),
        framed(7, {"id": 2}),
        b'{"id": 3}',
        framed(7, {"id": "x"}),
        None,
        b"",
        b"\0\0\0\0",
        framed(7, {"id": 4})[:-1],
        framed(7, {"id": 5}),
        b"\0\0\0\0\x07",
    ]
    decoded = codec().decode(pa.array(values, pa.binary()))
    assert decoded.rows.column("id").to_pylist() == [2, 5]
    assert decoded.good.tolist() == [1, 8]
    assert decoded.nulls.tolist() == [4]
    reasons = {record.index: record.reason for record in decoded.bad}
    assert list(reasons) == [0, 2, 3, 5, 6, 7, 9]
    assert reasons[0] == "its schema id 8 is not in the registry"
    assert "it begins with 0x7b ('{')" in reasons[2]
    assert "id" in reasons[3]
    assert "the value is empty" in reasons[5]
    assert "it has 4 bytes" in reasons[6]


def test_an_unknown_id_is_asked_for_again() -> None:
    registry = Registry()
    reader = codec(registry)
    for _ in range(2):
        assert reader.decode(pa.array([framed(8, {})] * 5, pa.binary())).bad
    assert registry.asked_ids == [8, 8]


def test_rows_are_written_behind_the_id() -> None:
    rows = pa.RecordBatch.from_pylist([{"id": 1, "shop": "é"}, {"id": None, "shop": None}], COLUMNS)
    written = codec().encode(rows)
    assert written.to_pylist() == [b"\0\0\0\0\x07" + value for value in JsonCodec(COLUMNS).encode(rows).to_pylist()]
    assert codec().decode(written).rows == rows
    with pytest.raises(EncodeError, match="no JSON schema"):
        JsonSchemaCodec(COLUMNS, Registry(), None).encode(rows)


def test_a_batch_without_records_has_no_rows() -> None:
    decoded = codec().decode(pa.array([], pa.binary()))
    assert decoded.rows.num_rows == len(decoded.bad) == 0
