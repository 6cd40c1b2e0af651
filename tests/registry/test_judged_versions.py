"""Any columns and any version of a schema: `holdfast diff --schema` says what the start of an attempt says of them.

And what the codec makes of records of that version.
"""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.planning.types.ddl import parse_schema
from holdfast.planning.types.protobuf.columns import columns_of
from holdfast.planning.types.protobuf.text import parse_proto
from holdfast.planning.types.record_formats import RECORD_FORMATS
from holdfast.planning.types.spark_types import Column, RowType
from holdfast.planning.version_effects import Effect, Role, VersionEffect
from holdfast_runtime.streams.codecs import JsonCodec, arrow_schema
from holdfast_runtime.streams.codecs.codec import Codec
from holdfast_runtime.streams.codecs.protobuf.wire import varint
from tests.codecs.avro.drawn import Drawn, drawn
from tests.codecs.avro.records import by_fastavro, codec_of, record_schema
from tests.codecs.protobuf.drawn import Case, cases
from tests.codecs.protobuf.messages import codec_of as protobuf_codec
from tests.registry.judged import TYPES, Judges, changed_columns, judging

ROLES = st.sampled_from([Role.READ, Role.WRITTEN])


@pytest.fixture(scope="module")
def judges() -> Iterator[Judges]:
    with judging() as running:
        yield running


def ddl(rows: RowType) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in rows.columns)


def check_records(effect: VersionEffect, codec: Codec, values: pa.BinaryArray, *, misfits: bool) -> None:
    """That records are bad as the effect says: all where types don't fit, none where there is no doubt."""
    bad = len(codec.decode(values).bad)
    if misfits:
        assert bad == len(values)
    elif all(field.effect is not Effect.DOUBTFUL for field in effect.fields):
        assert not bad


@given(drawn() | drawn(exact=True), st.data())
def test_avro_is_refused_where_the_start_refuses(judges: Judges, case: Drawn, data: st.DataObject) -> None:
    rows, text = data.draw(changed_columns(case.columns)), json.dumps(case.tree)
    read = judges.judged("avro", text, rows, Role.READ)
    assert read.effect.refusal == read.start
    misfits = RECORD_FORMATS["avro"].unread(RECORD_FORMATS["avro"].parse(text, (), None), rows).misfits
    check_records(read.effect, codec_of(case.tree, rows), by_fastavro(case.tree, *case.records), misfits=bool(misfits))
    written = judges.judged("avro", text, rows, Role.WRITTEN, register=data.draw(st.booleans()))
    assert written.effect.refusal == written.start


@given(cases(), st.data())
def test_protobuf_is_refused_where_the_start_refuses(judges: Judges, case: Case, data: st.DataObject) -> None:
    schema = parse_proto(case.text, message="Root")
    rows = data.draw(changed_columns(columns_of(schema)))
    read = judges.judged("protobuf", case.text, rows, Role.READ, message="Root")
    assert read.effect.refusal == read.start
    misfits = RECORD_FORMATS["protobuf"].unread(schema, rows).misfits
    values = pa.array([message.SerializeToString() for message in case.messages], pa.binary())
    check_records(read.effect, protobuf_codec(schema, ddl(rows)), values, misfits=bool(misfits))
    written = judges.judged("protobuf", case.text, rows, Role.WRITTEN, message="Root")
    assert written.effect.refusal == written.start


DOUBTS = [
    ("int", "SMALLINT", 7, 70_000),
    ("bytes", "STRING", b"a", b"\xff"),
    (["null", "string", "long"], "STRING", "a", 7),
    (["int", "double"], "INT", 7, 1.5),
    ({"type": "array", "items": ["int", "string"]}, "ARRAY<INT>", [7], [7, "a"]),
]


@pytest.mark.parametrize(("tree", "column", "good", "bad"), DOUBTS)
def test_a_doubt_of_avro_is_what_makes_records_bad(judges: Judges, tree: Any, column: str, good: Any, bad: Any) -> None:
    schema, rows = record_schema(a=tree), parse_schema(f"a {column}")
    read = judges.judged("avro", json.dumps(schema), rows, Role.READ)
    assert (read.start, [field.effect for field in read.effect.fields]) == (None, [Effect.DOUBTFUL])
    decoded = codec_of(schema, rows).decode(by_fastavro(schema, {"a": good}, {"a": bad}))
    assert [record.index for record in decoded.bad] == [1]


@pytest.mark.parametrize(
    ("kind", "column", "good", "bad"),
    [("int32", "TINYINT", 7, 200), ("uint64", "BIGINT", 7, 1 << 63), ("Kind", "STRING", 1, 5)],
)
def test_a_doubt_of_protobuf_is_what_makes_messages_bad(
    judges: Judges, kind: str, column: str, good: int, bad: int
) -> None:
    text = f'syntax = "proto3"; enum Kind {{ NEW = 0; OLD = 1; }} message M {{ {kind} a = 1; }}'
    rows = parse_schema(f"a {column}")
    read = judges.judged("protobuf", text, rows, Role.READ)
    assert (read.start, [field.effect for field in read.effect.fields]) == (None, [Effect.DOUBTFUL])
    values = pa.array([b"\x08" + varint(number) for number in (good, bad)], pa.binary())
    decoded = protobuf_codec(parse_proto(text), ddl(rows)).decode(values)
    assert [record.index for record in decoded.bad] == [1]


MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "integer": st.integers(-128, 127),
    "number": st.floats(-1, 1, width=16),
    "boolean": st.booleans(),
    "string": st.text(st.characters(codec="ascii"), max_size=3),
    "null": st.none(),
}
TAKING = [kind for kind in TYPES if kind not in ("BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")]
"""Columns that take all of a JSON type or none, but for how large it is."""


@st.composite
def json_cases(draw: st.DrawFn) -> tuple[dict[str, Any], RowType, list[dict[str, Any]]]:
    types = draw(st.dictionaries(st.sampled_from("abcd"), st.sets(st.sampled_from([*MEMBERS]), min_size=1)))
    schema = {
        "type": "object",
        "properties": {name: {"type": sorted(words)} for name, words in types.items()},
        "required": draw(st.lists(st.sampled_from([*types] or ["a"]), max_size=2)),
        "additionalProperties": draw(st.booleans()),
    }
    names = draw(st.lists(st.sampled_from("abcde"), min_size=1, unique=True))
    rows = RowType(tuple(Column(name, draw(st.sampled_from(TAKING))) for name in names))
    members = {name: st.one_of([MEMBERS[word] for word in sorted(words)]) for name, words in types.items()}
    return schema, rows, draw(st.lists(st.fixed_dictionaries(members), max_size=4))


@given(json_cases(), st.booleans())
def test_json_is_refused_where_the_start_refuses(
    judges: Judges, case: tuple[dict[str, Any], RowType, list[dict[str, Any]]], register: bool
) -> None:
    schema, rows, objects = case
    read = judges.judged("json-schema", json.dumps(schema), rows, Role.READ)
    assert read.effect.refusal == read.start
    values = pa.array([json.dumps(tree).encode() for tree in objects], pa.binary())
    check_records(read.effect, JsonCodec(arrow_schema(rows)), values, misfits=False)
    written = judges.judged("json-schema", json.dumps(schema), rows, Role.WRITTEN, register=register)
    assert written.effect.refusal == written.start
