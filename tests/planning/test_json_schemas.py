"""JSON schemas: which members they say an object has, whether columns fit them, and those that are made of columns."""

import json
from typing import Any

import pytest

from holdfast.planning.problems import ExpressionError
from holdfast.planning.types.ddl import parse_schema
from holdfast.planning.types.json_schema import (
    absent_columns,
    json_schema_of,
    parse_json_schema,
    unwritable_columns,
)
from holdfast.reasons import Reason
from tests.planning.apps import only, plan_of, step, stream

ORDER = {"type": "object", "properties": {"id": {"type": "string"}, "amount": {"type": ["number", "null"]}}}
KAFKA = {"name": "log", "kafka": {"bootstrapServers": "kafka:9092", "registry": {"url": "http://registry"}}}


def absent(schema: object, columns: str) -> tuple[str, ...]:
    return tuple(map(str, absent_columns(parse_json_schema(json.dumps(schema)), parse_schema(columns))))


def unwritable(schema: object, columns: str) -> tuple[str, ...]:
    return tuple(map(str, unwritable_columns(parse_json_schema(json.dumps(schema)), parse_schema(columns))))


def test_a_column_that_is_no_property_has_the_nearest_name() -> None:
    assert absent(ORDER, "id STRING, amount DOUBLE") == ()
    assert absent(ORDER, "amunt DOUBLE") == ("amunt; did you mean amount?",)
    assert absent({**ORDER, "additionalProperties": False}, "other INT") == ("other (there are: amount, id)",)


@pytest.mark.parametrize(
    "more",
    [
        {"additionalProperties": True},
        {"additionalProperties": {"type": "string"}},
        {"unevaluatedProperties": True},
        {"patternProperties": {"^x": {}}},
        {"allOf": [{"$ref": "other.json"}]},
        {"$ref": "#/definitions/nowhere"},
    ],
)
def test_other_members_may_come_where_the_schema_says_so(more: dict[str, Any]) -> None:
    assert absent(ORDER | more, "other INT") == ()


def test_members_are_found_where_schemas_are_of_the_same_object() -> None:
    schema = {
        "$ref": "#/definitions/base",
        "definitions": {"base": {"properties": {"id": {}}, "allOf": [{"$ref": "#/definitions/base"}]}},
        "oneOf": [{"properties": {"card": {}}}, {"properties": {"cash": {}}}],
        "if": {"properties": {"kind": {}}},
        "then": {"properties": {"more": {}}},
        "else": True,
    }
    assert absent(schema, "id INT, card INT, cash INT, kind INT, more INT, base INT") == (
        "base (there are: card, cash, id, kind, more)",
    )


UNWRITABLE: list[tuple[dict[str, Any], str, str]] = [
    ({}, "id STRING, amout DOUBLE", "no properties have column amout; did you mean amount?"),
    ({"required": ["id"]}, "amount DOUBLE", "member id is required, and no column"),
    ({}, "id BIGINT", "column id is BIGINT, and member id is string"),
    ({}, "amount STRING", "column amount is STRING, and member amount is null or number"),
]


@pytest.mark.parametrize(("more", "columns", "why"), UNWRITABLE)
def test_rows_that_would_break_the_schema_are_refused(more: dict[str, Any], columns: str, why: str) -> None:
    assert unwritable(ORDER | more, columns) == (why,)


def test_rows_of_fitting_types_are_written() -> None:
    schema = {"properties": {"a": {"type": "integer"}, "b": {"type": "object"}, "c": {"enum": [1]}, "d": True}}
    assert unwritable(schema, "a SMALLINT, b MAP<STRING, INT>, c ARRAY<INT>, d DATE") == ()
    other_types = {"oneOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"a": {"type": "array"}}}]}
    assert unwritable(other_types, "a STRING") == unwritable(other_types, "a ARRAY<INT>") == ()
    mixed = {"oneOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"a": {}}}]}
    assert unwritable(mixed, "a INT") == ()


@pytest.mark.parametrize(("text", "why"), [("{", "is no JSON"), ("[]", "neither an object"), ("[" * 99, "levels")])
def test_what_is_no_schema_is_refused(text: str, why: str) -> None:
    with pytest.raises(ExpressionError, match=why):
        parse_json_schema(text)


def test_a_schema_that_is_made_takes_the_columns() -> None:
    columns = "id STRING, n BIGINT, at TIMESTAMP, s STRUCT<a: ARRAY<BOOLEAN>, m: MAP<STRING, DOUBLE>>, b BINARY"
    text = json_schema_of(parse_schema(columns), "orders")
    tree = json.loads(text)
    assert tree["title"] == "orders"
    assert tree["properties"]["s"]["properties"]["a"] == {"type": "array", "items": {"type": ["boolean", "null"]}}
    assert tree["properties"]["at"] == {"type": "string", "format": "date-time"}
    assert unwritable(tree, columns) == ()
    assert absent(tree, "ids INT") == ("ids; did you mean id?",)


def test_records_with_ids_need_a_registry() -> None:
    read = stream("in", 4, format="json-schema")
    steps = [step("kept", "in", filter="true"), step("w", "kept", to="out")]
    problem = only(plan_of([read, stream("out", 4)], steps))
    assert (problem.reason, problem.stream) == (Reason.SCHEMA_INVALID, "in")
    assert "system log has none; name it in kafka.registry, or set format: json" in problem.message


def test_a_declared_schema_has_all_columns() -> None:
    def problems(**fields: Any) -> list[str]:
        read = stream("in", None, format="json-schema", jsonSchema={"schema": json.dumps(ORDER)}, **fields)
        out = stream("out", None, key=None, schema=None, eventTime=None)
        steps = [step("kept", "in", select=["id"]), step("w", "kept", to="out")]
        plan = plan_of([read, out], steps, systems=[KAFKA])
        return [problem.message for problem in plan.problems if problem.reason is not Reason.PARTITION_COUNT_UNKNOWN]

    declared = {"key": None, "eventTime": None}
    assert problems(schema="id STRING", **declared) == []
    assert problems(schema="id STRING, amout DOUBLE", **declared) == [
        "schema has a column that jsonSchema.schema lacks: amout; did you mean amount?"
    ]
    (message,) = problems(schema=None, **declared)
    assert "is read, so its columns must be known" in message
