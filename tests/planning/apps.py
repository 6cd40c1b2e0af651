"""Small apps for tests, built from the parts a test is about."""

from typing import Any

from holdfast.planning.plan import Plan, PlanningFacts, plan
from holdfast.planning.problems import Problem
from holdfast.reasons import Reason
from holdfast.spec.app import StreamApp
from holdfast.spec.parse import parse_app
from tests.planning.specs import app_tree

SCHEMA = "k STRING, v BIGINT, ts TIMESTAMP"


def stream(name: str, partitions: int | None = 4, **fields: Any) -> dict[str, Any]:
    """A stream keyed by k with an event time, unless told otherwise; a field given as None is left out."""
    made = {
        "name": name,
        "system": "log",
        "partitions": partitions,
        "key": ["k"],
        "schema": SCHEMA,
        "eventTime": {"column": "ts"},
        **fields,
    }
    return {field: value for field, value in made.items() if value is not None}


def step(name: str, *inputs: str, **verb: Any) -> dict[str, Any]:
    """A step."""
    return {"name": name, "from": list(inputs), **verb}


def join(name: str, left: str, right: str, on: tuple[str, ...] = ("k",), **fields: Any) -> dict[str, Any]:
    """A join that lets out the left row."""
    select = [*on, *(f"left.{column} AS {column}" for column in ("k", "v", "ts") if column not in on)]
    return step(name, left, right, join={"by": list(on), "within": "10m", "select": select, **fields})


def lookup(name: str, source: str, table: str) -> dict[str, Any]:
    """A look-up by k that lets out the left row."""
    return step(name, source, lookup={"table": table, "by": ["k"], "select": ["k", "left.v AS v", "left.ts AS ts"]})


def app_of(streams: list[dict[str, Any]], steps: list[dict[str, Any]], **spec: Any) -> StreamApp:
    """An app on the embedded log."""
    return parse_app(app_tree({"systems": [{"name": "log", "log": {}}], "streams": streams, "steps": steps, **spec}))


def plan_of(
    streams: list[dict[str, Any]], steps: list[dict[str, Any]], known: PlanningFacts | None = None, **spec: Any
) -> Plan:
    """Its plan."""
    return plan(app_of(streams, steps, **spec), known)


def reasons(result: Plan) -> list[Reason]:
    """The reasons of its problems."""
    return [problem.reason for problem in result.problems]


def warned(result: Plan) -> set[Reason]:
    """The reasons of its warnings."""
    return {warning.reason for warning in result.warnings}


def only(result: Plan) -> Problem:
    """Its one problem."""
    assert len(result.problems) == 1, [problem.message for problem in result.problems]
    return result.problems[0]


def made(result: Plan) -> dict[str, int]:
    """Counts of intermediate streams."""
    return {one.name: one.count.partitions for one in result.streams if one.role == "intermediate" and one.count}
