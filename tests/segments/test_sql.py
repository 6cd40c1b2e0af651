"""A Spark SQL segment gives every node the rows that plain Spark gives it, step by step."""

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.errors import UserActionError
from holdfast_runtime.segments import compiling
from holdfast_runtime.segments.catalyst import select_schema
from holdfast_runtime.segments.graph import CompiledGraph
from holdfast_runtime.segments.sql import sql_segment
from holdfast_runtime.steps.timed_rows import TimedRows
from tests.codecs.schemas import schema
from tests.error_codes import has_code
from tests.planning.apps import step
from tests.segments.graphs import compiled, read, written

COLUMNS = "a INT, b INT, s STRING, arr ARRAY<INT>, st STRUCT<x: INT, `y z`: STRING>"
SCHEMA = schema(COLUMNS)
Row = dict[str, Any]
Came = list[tuple[int, Row]]
"""Event time and row, in order."""


@pytest.fixture(autouse=True, scope="module")
def nothing_is_plain() -> Iterator[None]:
    """Filters are Spark's here, also those that could do without it."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("plain_filter", "plain_select"):
            patched.setattr(compiling, name, lambda *_: None)
        yield


def row(**columns: Any) -> Row:
    return {"a": 1, "b": 1, "s": "x", "arr": [1, 2], "st": {"x": 1, "y z": "z"}} | columns


def graph_of(spark: SparkSession, steps: Sequence[dict[str, Any]], sources: Sequence[str] = ("in",)) -> CompiledGraph:
    """All that nobody else reads is written."""
    streams = [*(read(name, COLUMNS, eventTime=None) for name in sources)]
    used = {name for app_step in steps for name in app_step["from"]}
    ends = [str(one["name"]) for one in steps if one["name"] not in used]
    sinks = [step(f"to-{name}", name, to=f"out-{name}") for name in ends]
    return compiled([*streams, *(written(f"out-{name}") for name in ends)], [*steps, *sinks], select_schema(spark))


def union(spark: SparkSession, graph: CompiledGraph, tasks: Sequence[dict[str, list[Row]]]) -> DataFrame:
    """The rows of some tasks; event times number them all, and a note ends each task."""
    layout, batches, time = graph.layout(0), list[pa.RecordBatch](), 0
    for task, streams in enumerate(tasks):
        for node in graph.crossing(0):
            rows = streams.get(node.name, [])
            times = pa.array(range(time, time + len(rows)), pa.int64())
            time += len(rows)
            batches += layout.packed(task, node.index, TimedRows(pa.RecordBatch.from_pylist(rows, node.schema), times))
        batches.append(layout.pack_note(task, b"end of %d" % task))
    return spark.range(0, 1, 1, 1).mapInArrow(lambda _: iter(batches), from_arrow_schema(layout.arrow_schema))


def through(graph: CompiledGraph, frame: DataFrame) -> list[dict[str, Came]]:
    """What comes out of the segment, for each task: node -> rows."""
    layout, names = graph.layout(1), {node.index: node.name for node in graph.nodes}

    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle  # noqa: PLC0415 - travels to a worker

        for task, by_node, notes in layout.gathered(batches):
            came = {
                names[node]: list(zip(timed_rows.times.to_pylist(), timed_rows.rows.to_pylist(), strict=True))
                for node, timed_rows in by_node.items()
            }
            yield pa.RecordBatch.from_pydict({"told": [pickle.dumps((task, came, notes))]})

    out = [pickle.loads(one.told) for one in sql_segment(frame, graph, 1).mapInArrow(told, "told BINARY").collect()]  # noqa: S301
    assert [task for task, _, _ in out] == list(range(len(out)))
    assert [notes for _, _, notes in out] == [[b"end of %d" % task] for task in range(len(out))]
    return [came for _, came, _ in out]


def run(
    spark: SparkSession, steps: Sequence[dict[str, Any]], *rows: Row, sources: Sequence[str] = ("in",)
) -> dict[str, list[Row]]:
    """What comes out for rows that all sources bring."""
    graph = graph_of(spark, steps, sources)
    (came,) = through(graph, union(spark, graph, [{name: list(rows) for name in sources}]))
    return {name: [row_values for _, row_values in timed_rows] for name, timed_rows in came.items()}


def values(rows: list[Row]) -> list[Any]:
    """Of rows with one column."""
    return [value for row_values in rows for value in row_values.values()]


SELECTED = [
    ("a", "A AS one", [1, None]),
    ("backquotes", "`a` + 1 AS `odd name`", [2, None]),
    ("a name of the union's own", "a AS task", [1, None]),
    ("a field of a struct", "st.x AS x", [7, None]),
    ("a field with an odd name", "ST.`Y Z` AS x", ["z", None]),
    ("a lambda variable that hides a column", "transform(arr, a -> a * b) AS x", [[2, 6], None]),
    ("two variables", "aggregate(arr, 0, (s, b) -> s + b) AS x", [4, None]),
    ("all columns in a function", "size(array(struct(*))) AS x", [1, 1]),
    ("a struct without a null", "struct(1 AS one, struct('x' AS y) AS two) AS x", [{"one": 1, "two": {"y": "x"}}] * 2),
    ("a list without a null", "array(1, 2) AS x", [[1, 2], [1, 2]]),
    ("a map without a null", "map('k', struct(2 AS v)) AS x", [[("k", {"v": 2})]] * 2),
    ("a quoted text with a column's name in it", "concat('a', \"b\", s) AS x", ["abx", None]),
    ("nullif", "nullif(a, 1) AS x", [None, None]),
    ("between", "a + b BETWEEN 2 AND 3 AS x", [True, None]),
    ("case", "CASE a WHEN 1 THEN 'one' ELSE s END AS x", ["one", None]),
    ("in", "a IN (1, 2) AS x", [True, None]),
    ("interval", "TIMESTAMP '2026-01-01 00:00:00' + INTERVAL 1 DAY > TIMESTAMP '2026-01-01 12:00:00' AS x", [True] * 2),
    ("void", "NULL AS x", [None, None]),
    ("a cast", "a :: STRING AS x", ["1", None]),
]


@pytest.mark.parametrize(("item", "expected"), [case[1:] for case in SELECTED], ids=[case[0] for case in SELECTED])
def test_a_text_means_what_it_means_in_spark(spark: SparkSession, item: str, expected: list[Any]) -> None:
    rows = [row(a=1, b=2, arr=[1, 3], st={"x": 7, "y z": "z"}), dict.fromkeys(SCHEMA.names)]
    # Behind a filter: a column alone would not come to Spark.
    steps = [step("f", "in", filter="1 = 1"), step("x", "f", select=[item])]
    assert values(run(spark, steps, *rows)["x"]) == expected


def test_a_star_stands_for_the_columns_of_the_step_alone(spark: SparkSession) -> None:
    steps = [step("x", "in", select=["* EXCEPT (arr, ST)", "st.*", "a AS task"])]
    assert run(spark, steps, row(b=3)) == {"x": [{"a": 1, "b": 3, "s": "x", "x": 1, "y z": "z", "task": 1}]}


GUARDED = [
    ("a division", [{"filter": "b <> 0"}, {"select": ["a / b AS q"]}], [0.5]),
    ("a division in a filter", [{"filter": "b <> 0"}, {"filter": "a / b > 0"}, {"select": ["b"]}], [2]),
    ("a common part", [{"filter": "b <> 0"}, {"select": ["(a / b) + (a / b) AS q"]}, {"filter": "q > 0"}], [1.0]),
    ("nullif", [{"filter": "b <> 0"}, {"select": ["nullif(1 / b, 7D) AS q"]}], [0.5]),
    ("between", [{"filter": "b <> 0"}, {"select": ["(1 / b) BETWEEN 0 AND 1 AS q"]}], [True]),
    ("an error of the user's own", [{"filter": "b <> 0"}, {"select": ["if(b = 0, raise_error('no'), b) AS x"]}], [2]),
    ("a function given a null", [{"filter": "b <> 0"}, {"select": ["1 / coalesce(b, 0) AS x"]}], [0.5]),
    ("an error told by hand", [{"filter": "b <> 0"}, {"select": ["coalesce(b, raise_error('null')) AS x"]}], [2]),
    ("a cast", [{"filter": "s = '5'"}, {"select": ["CAST(s AS INT) AS x"]}], [5]),
    ("a lambda", [{"filter": "b <> 0"}, {"select": ["transform(array(4D), x -> x / b) AS x"]}], [[2.0]]),
    ("an index", [{"filter": "size(arr) > 1"}, {"select": ["arr[1] AS x"]}], [9]),
    ("elements", [{"filter": "b <> 0"}, {"select": ["explode(array(1 / b, 0D)) AS x"]}], [0.5, 0.0]),
    ("beside elements", [{"filter": "b <> 0"}, {"select": ["1 / b AS y", "explode(arr) AS z"]}, {"select": ["y"]}],
     [0.5, 0.5]),
]  # fmt: skip


@pytest.mark.parametrize(("verbs", "expected"), [case[1:] for case in GUARDED], ids=[case[0] for case in GUARDED])
@pytest.mark.parametrize("shape", ["alone", "beside another node", "beside a branch", "in a diamond"])
def test_an_expression_sees_only_rows_that_reached_its_step(
    spark: SparkSession, verbs: list[dict[str, Any]], expected: list[Any], shape: str
) -> None:
    chain = [step(f"x{at}", "in" if not at else f"x{at - 1}", **verb) for at, verb in enumerate(verbs)]
    end = f"x{len(verbs) - 1}"
    beside = {
        "alone": [],
        "beside another node": [step("y", "other", filter="b IS NULL")],
        "beside a branch": [step("y", "in", filter="b = 0"), step("z", "x0", select=["1 AS one"])],
        "in a diamond": [step("y", end, "again", merge={}), step("again", end, filter="1 / 1 > 0")],
    }[shape]
    sources = ["in", "other"] if shape == "beside another node" else ["in"]
    rows = [row(b=0, arr=[8]), row(b=2, s="5", arr=[8, 9]), row(b=None, s="no", arr=None)]
    out = run(spark, [*chain, *beside], *rows, sources=sources)
    if shape == "in a diamond":
        assert sorted(map(repr, values(out["y"]))) == sorted(map(repr, expected * 2))
    else:
        assert values(out[end]) == expected


def test_explode_outer_keeps_a_row_without_elements(spark: SparkSession) -> None:
    steps = [step("x", "in", select=["a", "explode_outer(arr) AS e"])]
    rows = [row(a=1, arr=[5, None]), row(a=2, arr=[]), row(a=3, arr=None)]
    came = [tuple(one.values()) for one in run(spark, steps, *rows)["x"]]
    assert came == [(1, 5), (1, None), (2, None), (3, None)]


def test_a_merge_gives_a_row_once_for_each_way(spark: SparkSession) -> None:
    steps = [
        step("small", "in", filter="a < 3"),
        step("odd", "in", filter="a % 2 = 1"),
        step("both", "small", "odd", "in", merge={}),
        step("x", "both", select=["a"]),
    ]
    assert values(run(spark, steps, row(a=1), row(a=2), row(a=3), row(a=4))["x"]) == [1, 1, 1, 2, 2, 3, 3, 4]


def test_merged_rows_take_names_and_order_of_the_first_input(spark: SparkSession) -> None:
    steps = [
        step("one", "in", select=["a + 0 AS a", "s"]),
        step("two", "other", select=["concat(s, '!') AS S", "a * 10 AS A"]),
        step("x", "one", "two", merge={}),
    ]
    out = run(spark, steps, row(), sources=["in", "other"])
    assert out == {"x": [{"a": 1, "s": "x"}, {"a": 10, "s": "x!"}]}


def test_a_node_may_leave_as_it_came_and_through_steps(spark: SparkSession) -> None:
    steps = [step("x", "in", filter="a > 1"), step("w", "in", to="out")]
    graph = compiled(
        [read("in", COLUMNS, eventTime=None), written(), written("more")],
        [*steps, step("y", "x", to="more")],
        select_schema(spark),
    )
    (came,) = through(graph, union(spark, graph, [{"in": [row(a=1), row(a=2)]}]))
    assert {name: [time for time, _ in timed_rows] for name, timed_rows in came.items()} == {"in": [0, 1], "x": [1]}


def test_the_plan_moves_no_rows(spark: SparkSession) -> None:
    steps = [
        step("f", "in", filter="b <> 0"),
        step("e", "f", select=["a", "explode(arr) AS e"]),
        step("g", "in", select=["a", "b AS e"]),
        step("x", "e", "g", "g2", merge={}),
        step("g2", "g", filter="a > 0"),
    ]
    graph = graph_of(spark, steps)
    out = sql_segment(union(spark, graph, [{"in": [row()]}]), graph, 1)
    plan = out._jdf.queryExecution().executedPlan().toString()  # noqa: SLF001
    assert "Exchange" not in plan
    assert "Sort" not in plan
    assert out.rdd.getNumPartitions() == 1


def test_an_expression_is_computed_once_however_many_read_it(spark: SparkSession) -> None:
    text = "raise_error(concat('seen ', s))"
    steps = [
        step("x", "in", select=[f"if(a < 0, {text}, s) AS t", "a"]),
        *(step(f"y{at}", "x", filter=f"t <> '{at}'") for at in range(4)),
        step("z", "x", select=["concat(t, t, t) AS u", "length(t) AS v"]),
    ]
    graph = graph_of(spark, steps)
    out = sql_segment(union(spark, graph, [{"in": [row()]}]), graph, 1)
    plan = out._jdf.queryExecution().executedPlan().toString()  # noqa: SLF001
    assert plan.count("raise_error") == 1


def test_a_condition_spark_refuses_is_told_with_its_text(spark: SparkSession) -> None:
    graph = graph_of(spark, [step("x", "in", filter="try_variant_get(parse_json(s), '$', 'INT')")])
    frame = union(spark, graph, [{"in": [row()]}])
    with pytest.raises(UserActionError, match="Spark refuses try_variant_get", check=has_code("TextRefusedError")):
        sql_segment(frame, graph, 1)


# Each keeps names and types, so that any can stand behind any other and be merged.
STEPS: list[dict[str, Any]] = [
    {"filter": "b <> 0"},
    {"filter": "a / b >= 1"},
    {"filter": "a % 2 = 0 OR s IS NULL"},
    {"filter": "true"},
    {"select": ["s", "b", "a + b AS a", "st", "arr"]},
    {"select": ["* EXCEPT (a, b)", "b AS a", "a AS b"]},
    {"select": ["a", "a % 3 AS B", "upper(s) AS s", "transform(arr, a -> a + 1) AS arr", "st"]},
    {"select": ["*"]},
    {"select": ["explode(arr) AS a", "b", "s", "arr", "st"]},
    {"select": ["a", "explode_outer(arr) AS b", "s", "arr", "named_struct('x', a, 'y z', s) AS st"]},
    {"select": ["CAST(1000 / b AS INT) AS a", "b", "s", "array(a, b) AS arr", "st"]},
]
ROWS = st.lists(
    st.builds(
        row,
        a=st.one_of(st.none(), st.integers(-3, 9)),
        b=st.one_of(st.none(), st.integers(-1, 3)),
        s=st.one_of(st.none(), st.sampled_from(["x", ""])),
        arr=st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=3)),
        st=st.one_of(st.none(), st.just({"x": None, "y z": "q"})),
    ),
    max_size=6,
)


@dataclass(frozen=True)
class Drawn:
    steps: list[dict[str, Any]]
    tasks: list[dict[str, list[Row]]]


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    heads, steps = ["one", "two"], []
    for number in range(draw(st.integers(1, 6))):
        name = f"x{number}"
        if draw(st.integers(0, 3)) == 0:
            inputs = draw(st.lists(st.sampled_from(heads), min_size=2, max_size=3, unique=True))
            steps.append(step(name, *inputs, merge={}))
        else:
            # Mostly chains: the last step is read more often than the first.
            head = draw(st.one_of(st.just(heads[-1]), st.sampled_from(heads)))
            steps.append(step(name, head, **draw(st.sampled_from(STEPS))))
        heads.append(name)
    for number, name in enumerate(draw(st.lists(st.sampled_from(heads), min_size=1, max_size=3, unique=True))):
        steps.append(step(f"w{number}", name, to=f"out{number}"))
    tasks = draw(st.lists(st.fixed_dictionaries({"one": ROWS, "two": ROWS}), min_size=1, max_size=2))
    return Drawn(steps, tasks)


def paths(graph: CompiledGraph, end: int) -> list[list[int]]:
    """All ways from what comes in to a node."""
    node = graph.nodes[end]
    if node.level == 0:
        return [[end]]
    return [[*path, end] for source in node.inputs for path in paths(graph, source)]


def plainly(spark: SparkSession, graph: CompiledGraph, path: list[int], rows: Came) -> Came:
    """What plain Spark gives when the steps of a path are applied one by one; raises what Spark raises."""
    columns = graph.nodes[path[0]].schema.append(pa.field("the time", pa.int64()))
    table = pa.Table.from_pylist([row_values | {"the time": time} for time, row_values in rows], columns)
    frame = spark.createDataFrame(table).coalesce(1)
    for at in path[1:]:
        app_step = graph.nodes[at].step
        assert app_step is not None
        if app_step.filter is not None:
            frame = frame.filter(app_step.filter)
        elif app_step.select is not None:
            frame = frame.selectExpr(
                *app_step.select, *([] if any("*" in text for text in app_step.select) else ["`the time`"])
            )
        elif app_step.merge is not None:
            frame = frame.selectExpr(*(f"`{name}`" for name in graph.nodes[at].schema.names), "`the time`")
        # Spark may not look through: each step gets what the one before it gave.
        frame = frame.localCheckpoint()
    names = graph.nodes[path[-1]].schema.names
    came = (one.asDict(recursive=True) for one in frame.collect())
    return [(one["the time"], {name: one[name] for name in names}) for one in came]


@settings(max_examples=20)
@given(drawn())
def test_a_segment_gives_what_plain_spark_gives_step_by_step(spark: SparkSession, drawn: Drawn) -> None:
    ends = [one for one in drawn.steps if "to" in one]
    streams = [*(read(name, COLUMNS, eventTime=None) for name in ("one", "two")), *(written(one["to"]) for one in ends)]
    graph = compiled(streams, drawn.steps, select_schema(spark))
    if not graph.has_sql:
        return
    tasks = [{node.name: rows.get(node.name, rows["one"]) for node in graph.crossing(0)} for rows in drawn.tasks]
    expected: dict[tuple[int, str], list[Came]] = {}
    time = 0
    try:
        for task, rows in enumerate(tasks):
            timed: dict[int, Came] = {}
            for node in graph.crossing(0):
                timed[node.index] = [(time + at, row_values) for at, row_values in enumerate(rows[node.name])]
                time += len(rows[node.name])
            for node in graph.crossing(1):
                ways = paths(graph, node.index)
                expected[task, node.name] = [plainly(spark, graph, way, timed[way[0]]) for way in ways]
    except PySparkException:
        return  # a row the user's own expression fails on
    came = through(graph, union(spark, graph, tasks))
    for (task, name), came_by in expected.items():
        segment_rows = came[task].get(name, [])
        every = [timed_row for way in came_by for timed_row in way]
        assert sorted(map(repr, segment_rows)) == sorted(map(repr, every))
        if len(came_by) == 1:
            assert segment_rows == every
        for way in came_by:
            times = [at for at, _ in way]
            assert times == sorted(times)
    assert {(task, name) for task, by_name in enumerate(came) for name in by_name} <= set(expected)
