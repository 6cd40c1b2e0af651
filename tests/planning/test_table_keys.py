"""Computed keys of Broadcast tables, and what functions may look up: what hosts can't do is refused in the plan."""

from typing import Any

import pytest

from holdfast.planning.picture.model import picture_of
from holdfast.planning.plan import Plan, plan
from holdfast.reasons import Reason
from holdfast.spec.app import StreamApp
from tests.planning.apps import app_of, only, plan_of, step, stream, warned

SCHEMA = "k STRING, n INT, big DECIMAL(10, 2), after STRUCT<id: STRING, tags: ARRAY<STRING>>, raw BINARY, price DOUBLE"

PRICED = "CASE WHEN price > 2.5 THEN 'dear' ELSE k END AS id"


def refused(select: list[str], **table: Any) -> list[str]:
    fed = {"name": "t", "sources": ["changes"], "key": ["id"], "distribution": "Broadcast", "select": select, **table}
    steps = [
        step("named", "in", select=["k AS id", "ts"]),
        step("found", "named", lookup={"table": "t", "by": ["id"], "select": ["left.ts AS ts"]}),
        step("last", "found", to="out"),
    ]
    changes = stream("changes", schema=SCHEMA, eventTime=None)
    streams = [stream("in"), changes, stream("out", schema=None, eventTime=None, key=None)]
    result = plan_of(streams, steps, tables=[fed])
    return [one.message for one in result.problems if one.reason is Reason.TABLE_KEY_COMPUTED]


@pytest.mark.parametrize(
    "key", ["k AS id", "after.id AS id", "concat(k, '!', after.id) AS id", "k || 'x' AS id", PRICED]
)
def test_what_hosts_compute_themselves_may_be_a_key(key: str) -> None:
    assert refused([key, "n"]) == []


@pytest.mark.parametrize("key", ["md5(k) AS id", "reverse(after.id) AS id", "after.tags[0] AS id", "base64(raw) AS ID"])
def test_what_only_spark_computes_is_refused_with_a_cure(key: str) -> None:
    (message,) = refused([key, "n"])
    assert message.startswith(f"the key id of table t is {key}, which only Spark SQL computes")
    assert "distribution: Partitioned" in message


def test_columns_beside_the_key_may_be_computed_by_spark() -> None:
    assert refused(["k AS id", "md5(k) AS hash"]) == []


def test_a_partitioned_table_may_have_any_key() -> None:
    assert refused(["md5(k) AS id", "n"], distribution="Partitioned") == []


def test_a_table_of_files_is_judged_alike() -> None:
    files: dict[str, Any] = {
        "files": {"location": "file:///data", "format": "json"},
        "schema": SCHEMA,
        "versioned": True,
    }
    (message,) = refused(["md5(k) AS id", "n"], sources=None, **files)
    assert message.startswith("the key id of table t is md5(k) AS id")


def asking_app(**table: Any) -> StreamApp:
    """An app whose function looks rows up in a table."""
    asking = {"function": "m:f", "by": ["k"], "tables": ["t"]}
    streams = [stream("in"), stream("changes", schema=SCHEMA, eventTime=None), stream("out", schema=None, key=None)]
    steps = [step("asking", "in", process=asking), step("last", "asking", to="out")]
    fed = {"name": "t", "sources": ["changes"], "key": ["k"], "distribution": "Broadcast", **table}
    steps += [step("kept", "in", toTable="t")] if fed["sources"] is None else []
    return app_of(streams, steps, tables=[{name: value for name, value in fed.items() if value is not None}])


def asked_for(**table: Any) -> Plan:
    """The plan of such an app."""
    return plan(asking_app(**table))


@pytest.mark.parametrize("select", [None, ["k", "after.id AS id"], ["k", "concat(k, '!') AS loud"], ["k", PRICED]])
def test_a_function_may_ask_for_rows_that_hosts_compute(select: list[str] | None) -> None:
    result = asked_for(select=select)
    assert result.valid
    assert Reason.ROWS_UNUSED not in warned(result)


def test_a_picture_shows_which_function_reads_a_table() -> None:
    app = asking_app()
    edges = [(edge.source, edge.target) for edge in picture_of(plan(app), app).edges if edge.kind == "looks up"]
    assert edges == [("table:t", "step:asking")]


def test_a_function_may_not_ask_for_what_spark_computes() -> None:
    problem = only(asked_for(select=["k", "md5(k) AS hash"]))
    assert (problem.reason, problem.step) == (Reason.TABLE_OUT_OF_REACH, "asking")
    assert problem.message.startswith("column hash of table t is md5(k) AS hash, which only Spark SQL computes")


@pytest.mark.parametrize(
    ("sources", "cure"),
    [
        (["changes"], "set distribution: Broadcast, or put a lookup step before this one"),
        (None, "may ask for any: put a lookup step before this one"),
    ],
)
def test_a_function_may_not_ask_for_rows_of_other_tasks(sources: list[str] | None, cure: str) -> None:
    problem = only(asked_for(distribution=None, sources=sources))
    assert (problem.reason, problem.step) == (Reason.TABLE_OUT_OF_REACH, "asking")
    assert problem.message.startswith("tasks have only their own rows of table t")
    assert problem.message.endswith(cure)
