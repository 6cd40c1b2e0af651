"""Streams of Avro: the columns that their schema says, and what the planner refuses."""

import json
from typing import Any

import pytest

from holdfast.planning.plan import Plan
from holdfast.reasons import Reason
from tests.planning.apps import only, plan_of, step, stream

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "amount", "type": ["null", "double"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "x", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}


def planned(read: dict[str, Any], written: dict[str, Any] | None = None, *select: str) -> Plan:
    """The plan of an app that writes what it selects from a stream."""
    source = stream("in", 4, **({"key": None, "schema": None, "eventTime": None, "format": "avro"} | read))
    out = stream("out", 4, **({"key": None, "schema": None, "eventTime": None} | (written or {})))
    return plan_of([source, out], [step("picked", "in", select=list(select or ["*"])), step("w", "picked", to="out")])


def avro(schema: object) -> dict[str, Any]:
    """The field of a stream with this schema."""
    return {"avro": {"schema": json.dumps(schema)}}


def test_columns_are_those_of_the_schema() -> None:
    plan = planned(avro(ORDER) | {"eventTime": {"column": "at"}})
    assert plan.valid
    assert [f"{column.name} {column.type}" for column in plan.stream("in").rows.columns] == [
        "id STRING",
        "amount DOUBLE",
        "at TIMESTAMP",
    ]


@pytest.mark.parametrize(
    ("kind", "name", "column"),
    [
        ("int", "Date", "DATE"),
        ("int", "Time", "TIME(6)"),
        ("long", "MicroTime", "TIME(6)"),
        ("long", "Timestamp", "TIMESTAMP"),
        ("long", "MicroTimestamp", "TIMESTAMP"),
        ("long", "NanoTimestamp", "TIMESTAMP"),
        ("long", "Date", "BIGINT"),
        ("int", "Year", "INT"),
    ],
)
def test_times_by_the_names_of_debezium_are_times(kind: str, name: str, column: str) -> None:
    time = {"type": kind, "connect.version": 1, "connect.name": f"io.debezium.time.{name}"}
    schema = {"type": "record", "name": "Row", "fields": [{"name": "at", "type": ["null", time]}]}
    assert planned(avro(schema)).stream("in").rows.columns[0].type == column


REFUSED: list[tuple[dict[str, Any], Reason, str]] = [
    ({}, Reason.SCHEMA_MISSING, "is read, so its columns must be known"),
    ({"avro": {"schema": "{"}}, Reason.SCHEMA_INVALID, "the Avro schema is no JSON"),
    (avro({"type": "record", "name": "A", "fields": 5}), Reason.SCHEMA_INVALID, "record A has no list of fields"),
    (avro(["null", "int", "string"]), Reason.SCHEMA_INVALID, "for which there is no one type"),
    (avro(NODE), Reason.SCHEMA_INVALID, "again, inside of itself, which no column can hold"),
    (avro(ORDER) | {"schema": "id BIGINT"}, Reason.SCHEMA_MISMATCH, "id is string, and column id is BIGINT; declare"),
    (avro(ORDER) | {"schema": "amout DOUBLE"}, Reason.SCHEMA_MISMATCH, "amout; did you mean amount?"),
]


@pytest.mark.parametrize(("read", "reason", "why"), REFUSED, ids=[why for _, _, why in REFUSED])
def test_a_schema_that_fills_no_columns_is_refused(read: dict[str, Any], reason: Reason, why: str) -> None:
    problem = only(planned(read))
    assert (problem.reason, problem.stream) == (reason, "in")
    assert why in problem.message


def test_declared_columns_may_be_some_of_the_schema() -> None:
    assert planned(avro(ORDER) | {"schema": "amount DOUBLE, at TIMESTAMP"}).valid
    assert planned(avro(NODE) | {"schema": "next STRUCT<x: INT, next: STRUCT<x: BIGINT>>"}).valid


WRITTEN: list[tuple[dict[str, Any], tuple[str, ...], str | None]] = [
    ({}, ("id", "amount"), None),
    ({}, ("id AS `order id`",), "column order id can't be a field of an Avro record"),
    (avro(ORDER), ("id", "at"), None),
    (avro(ORDER), ("at", "id", "CAST(amount AS FLOAT) AS amount"), None),
    (avro(ORDER), ("at",), "field id is string, and has no default: no column is called id"),
    (avro(ORDER), ("id", "at", "amount AS amont"), "column amont is no field of Order; did you mean amount?"),
    (avro(ORDER), ("id", "at", "1 AS amount"), "column amount is INT, and no branch of field amount"),
    (avro(ORDER), ("5 AS id", "at"), "column id is INT, and field id is string, which does not take all of it"),
    (avro(ORDER) | {"metadata": ["key"]}, ("id", "at", "id AS key"), None),
]


@pytest.mark.parametrize(("written", "select", "refusal"), WRITTEN)
def test_rows_fit_the_schema_they_are_written_with(
    written: dict[str, Any], select: tuple[str, ...], refusal: str | None
) -> None:
    plan = planned({"schema": "id STRING, amount DOUBLE, at TIMESTAMP"}, {"format": "avro"} | written, *select)
    if refusal is None:
        assert plan.valid, plan.problems
    else:
        assert refusal in only(plan).message
