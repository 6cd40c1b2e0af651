"""Streams of a database's changes: what the planner lets a table do with them, and what it refuses."""

from typing import Any

import pytest

from holdfast.planning.plan import Plan
from holdfast.reasons import Reason
from tests.planning.apps import plan_of, step, stream

CHANGES = {
    "key": ["id"],
    "schema": "id INT, part INT, at STRUCT<id: INT>, name STRING",
    "eventTime": None,
    "changes": "debezium",
}
TABLE = {"name": "t", "sources": ["changes"], "key": ["id"], "distribution": "Broadcast"}


def planned(
    declared: dict[str, Any] | None = None, table: dict[str, Any] | None = None, *steps: dict[str, Any], **spec: Any
) -> Plan:
    """The plan of an app that looks rows up in a table of changes."""
    streams = [
        stream("orders", key=["order"], schema="order STRING, id INT", eventTime=None),
        stream("changes", **(CHANGES | (declared or {}))),
        stream("out", key=["order"], schema=None, eventTime=None),
    ]
    table = {name: value for name, value in (TABLE | (table or {})).items() if value is not None}
    by = table["key"]
    look_up = [step("found", "orders", lookup={"table": "t", "by": ["id"]}), step("w", "found", to="out")]
    steps_of_app = [*(look_up if by == ["id"] else [step("w", "orders", to="out")]), *steps]
    return plan_of(streams, steps_of_app, tables=[table], **spec)


def refusals(plan: Plan) -> list[str]:
    return [problem.message for problem in plan.problems if problem.reason is Reason.CHANGES_INVALID]


def test_a_broadcast_table_by_the_primary_key_is_valid() -> None:
    assert planned().valid
    assert planned(table={"select": ["id", "name"]}).valid
    assert planned(
        {"key": ["id", "part"]}, {"select": ["part AS p", "ID AS number", "name"], "key": ["number", "p"]}
    ).valid


READ = step("read", "changes", filter="true")
REFUSED: list[tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]], str]] = [
    ({}, {"sources": None, "schema": "id INT", "distribution": None}, [READ], "step read reads it: let a table have"),
    ({}, {"distribution": None}, [], "make table t Broadcast"),
    ({}, {"versioned": True}, [], "table t is versioned"),
    ({}, {"key": ["name"]}, [], "table t has the key (name) and its source changes (id)"),
    ({}, {"key": ["id", "part"]}, [], "table t has the key (id, part) and its source changes (id)"),
    ({"key": ["id", "part"]}, {}, [], "table t has the key (id) and its source changes (id, part)"),
    ({}, {"select": ["id + 1 AS id", "name"]}, [], "table t has the key (id)"),
    ({}, {"select": ["part AS id", "name"]}, [], "table t has the key (id)"),
    ({"key": ["at.id"]}, {"select": ["at.id AS id", "name"]}, [], "a primary key consists of whole columns"),
    ({"format": "avro"}, {}, [], "name the registry of system log"),
]


def copied(declared: dict[str, Any] | None = None, *steps: dict[str, Any], **target: Any) -> Plan:
    """The plan of an app that copies changes."""
    streams = [
        stream("changes", **(CHANGES | (declared or {}))),
        stream("copy", **{"key": ["id"], "schema": None, "eventTime": None, **target}),
        *([stream("again", key=["id"], schema=None, eventTime=None)] if steps else []),
    ]
    return plan_of(streams, [step("w", "changes", to="copy"), *steps])


def test_a_step_may_copy_changes_by_their_key() -> None:
    assert copied().valid
    assert copied({"key": ["id", "part"]}, key=["PART", "id"]).valid
    assert copied({"schema": "id INT, name STRING"}, format="csv", schema="id INT, name STRING").valid


@pytest.mark.parametrize(
    ("target", "steps", "why"),
    [
        ({"key": ["name"]}, [], "whose key is (name) and not the primary key (id)"),
        ({"key": None}, [], "whose key is () and not the primary key (id)"),
        ({"partitioner": "none"}, [], "where partitioner is none"),
        ({"control": True}, [], "let another app read the copy, without control: true"),
        (
            {"schema": CHANGES["schema"]},
            [step("f", "copy", filter="true"), step("v", "f", to="again")],
            "let another app read the copy",
        ),
        ({"format": "binary"}, [], "whose format is binary, and rows have columns"),
    ],
)
def test_a_copy_that_would_lose_changes_is_refused(
    target: dict[str, Any], steps: list[dict[str, Any]], why: str
) -> None:
    messages = refusals(copied({}, *steps, **target))
    assert any(why in message for message in messages), messages


@pytest.mark.parametrize(("declared", "table", "steps", "why"), REFUSED)
def test_what_would_give_wrong_rows_is_refused(
    declared: dict[str, Any], table: dict[str, Any], steps: list[dict[str, Any]], why: str
) -> None:
    messages = refusals(planned(declared, table, *steps))
    assert any(why in message for message in messages), messages


def test_a_stream_that_the_app_writes_has_no_changes() -> None:
    plan = planned({}, {"sources": None, "schema": "id INT", "distribution": None}, step("w2", "orders", to="changes"))
    assert any("this app would write it, too" in message for message in refusals(plan))
