"""What needs Spark SQL is named as the user wrote it, by step or table."""

from typing import Any

import pytest

from holdfast.planning.plan import plan
from holdfast_runtime.inspection.spark_need import SparkNeed, spark_need
from holdfast_runtime.segments.compiling import compile_graph
from tests.planning.apps import app_of, step
from tests.segments.graphs import read, same, written

COLUMNS = "k STRING, name STRING, v BIGINT, x DECIMAL(10,2), d DOUBLE, ts TIMESTAMP"
STREAMS = [read("a", schema=COLUMNS, key=["k"]), read("b", schema=COLUMNS, key=["k"]), written(), written("letters")]
OUT = step("last", "z", to="out")
LETTERS = {"onError": "DeadLetter", "deadLetter": "letters"}


def needs(*steps: dict[str, Any], **spec: Any) -> SparkNeed:
    app = app_of(STREAMS, [*steps, OUT], **spec)
    app_plan = plan(app)
    assert app_plan.valid, [problem.message for problem in app_plan.problems]
    need = spark_need(app.spec, app_plan)
    assert need is not None
    return need


def named(need: SparkNeed) -> list[str]:
    assert need.complete
    return list(map(str, need.expressions))


def table(distribution: str, *items: str) -> dict[str, Any]:
    return {"name": "t", "sources": ["b"], "key": ["k"], "distribution": distribution, "select": ["k", *items]}


@pytest.mark.parametrize(
    ("verb", "texts"),
    [
        ({"filter": "v > 1"}, []),
        ({"filter": "v > 1", **LETTERS}, []),
        ({"filter": "x / 2.0 > 1"}, ['filter: "x / 2.0 > 1"']),
        ({"filter": "round(d) > 1", **LETTERS}, ['filter: "round(d) > 1"']),
        ({"select": ["k", "initcap(name) AS n", "v % 9 AS w"]}, ['select: "initcap(name) AS n"']),
        ({"select": ["*", "round(d) AS r", "initcap(name) AS n"], **LETTERS}, [
            'select: "round(d) AS r"',
            'select: "initcap(name) AS n"',
        ]),
        ({"aggregate": {"by": ["k"], "window": "1h", "compute": ["sum(v) AS s", "count(*) AS n"]}}, []),
        ({"aggregate": {"by": ["k"], "window": "1h", "compute": [
            "sum(x / v) AS s", "max(X / V) AS m", "sum(v) FILTER (WHERE round(d) > 1) AS f", "count(*) AS n",
        ]}}, [
            'aggregate: "sum(x / v) AS s"',
            'aggregate: "max(X / V) AS m"',
            'aggregate: "sum(v) FILTER (WHERE round(d) > 1) AS f"',
        ]),
        ({"aggregate": {"by": ["k"], "window": "1h", "compute": ["count(*) AS n", "round(avg(d)) AS mean"]}}, [
            'aggregate: "round(avg(d)) AS mean"',
        ]),
    ],
    ids=str,
)  # fmt: skip
def test_a_step_is_named_with_what_it_costs(verb: dict[str, Any], texts: list[str]) -> None:
    assert named(needs(step("z", "a", **verb))) == [f"step z, {text}" for text in texts]


def test_a_join_is_named_with_its_own_items() -> None:
    items = ["k", "initcap(left.name) AS n", "right.v AS v", "round(left.d + right.d) AS total"]
    need = needs(step("z", "a", "b", join={"by": ["k"], "within": "10m", "select": items}))
    assert named(need) == [
        'step z, join: "initcap(left.name) AS n"',
        'step z, join: "round(left.d + right.d) AS total"',
    ]


@pytest.mark.parametrize("select", [["k", "nice AS n"], ["k", "nice AS n", "round(left.d) AS r"]], ids=str)
@pytest.mark.parametrize("distribution", ["Broadcast", "Partitioned"])
def test_a_tables_item_is_named_as_its_own(distribution: str, select: list[str]) -> None:
    t = table(distribution, "name AS plain", "initcap(name) AS nice")
    need = needs(step("z", "a", lookup={"table": "t", "by": ["k"], "select": select}), tables=[t])
    in_lookup = [f'step z, lookup: "{item}"' for item in select[2:]]
    assert named(need) == ['table t, select: "initcap(name) AS nice"', *in_lookup]


def test_what_no_lookup_takes_of_broadcast_tables_costs_nothing() -> None:
    lookup = step("z", "a", lookup={"table": "t", "by": ["k"], "select": ["k", "plain"]})
    assert named(needs(lookup, tables=[table("Broadcast", "v AS plain", "initcap(name) AS nice")])) == []


def test_plain_steps_behind_spark_sql_are_not_blamed() -> None:
    steps = [step("x", "a", select=["k", "initcap(name) AS n"]), step("y", "x", filter="k = 'a'")]
    assert named(needs(*steps, step("z", "y", filter="initcap(n) = n"))) == [
        'step x, select: "initcap(name) AS n"',
        'step z, filter: "initcap(n) = n"',
    ]


def test_steps_behind_columns_that_only_spark_knows_are_left_out() -> None:
    unknown = "from_csv(k, schema_of_csv('1')) AS c"
    need = needs(step("x", "a", select=["k", "name", unknown]), step("z", "x", filter="initcap(name) = 'A'"))
    assert [str(expression) for expression in need.expressions] == [f'step x, select: "{unknown}"']
    assert not need.complete


@pytest.mark.parametrize("verb", [{"filter": "d > 5e-1"}, {"select": ["k", "round(d) AS r"]}, {"filter": "v > 1"}])
def test_a_graph_with_spark_sql_says_what_for(verb: dict[str, Any]) -> None:
    app = app_of(STREAMS, [step("z", "a", **verb), OUT])
    expressions: list[object] = []
    compiled = compile_graph(app.spec, plan(app), same, expressions.append)
    assert compiled.has_sql == bool(expressions)
