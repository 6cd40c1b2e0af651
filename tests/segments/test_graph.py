"""Steps run in as few segments as possible, and exactly the rows that are needed travel between them."""

import pickle

import pyarrow as pa
import pytest
from hypothesis import given

from holdfast.errors import UserActionError
from holdfast.planning.sql.plain.expressions import PlainColumn
from holdfast_runtime.segments.graph import CompiledGraph, GraphNode
from holdfast_runtime.steps.plain.plain_sql import pick
from holdfast_runtime.steps.timed_rows import TimedRows
from tests.error_codes import has_code
from tests.planning.apps import step
from tests.segments.graphs import compiled, graphs, read, written

OUT = step("out-step", "x", to="out")


def levels(graph: CompiledGraph) -> dict[str, int]:
    return {node.name: node.level for node in graph.nodes}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([step("x", "a", filter="v > 5e-1")], {"x": 1, "out-step": 2}),
        ([step("f", "a", filter="v > 5e-1"), step("g", "f", select=["*"]), step("x", "g", filter="v > 1")],
         {"f": 1, "g": 1, "x": 1, "out-step": 2}),
        ([step("x", "a", apply={"function": "m:f"})], {"x": 0, "out-step": 0}),
        ([step("f", "a", filter="v > 5e-1"), step("p", "f", apply={"function": "m:f"}),
          step("x", "p", process={"function": "m:f", "by": ["k"]})], {"f": 1, "p": 2, "x": 2, "out-step": 2}),
        ([step("f", "a", filter="v > 5e-1"), step("x", "f", "a", merge={})], {"f": 1, "x": 1, "out-step": 2}),
        ([step("f", "a", filter="v > 5e-1"), step("x", "f", "b", merge={})], {"f": 1, "x": 2, "out-step": 2}),
        ([step("f", "a", filter="v > 5e-1"), step("m", "f", "a", merge={}), step("x", "m", filter="v > 1")],
         {"f": 1, "m": 1, "x": 1, "out-step": 2}),
        ([step("f", "a", filter="v > 5e-1"), step("m", "f", "b", merge={}), step("x", "m", "a", merge={})],
         {"f": 1, "m": 2, "x": 2, "out-step": 2}),
        ([step("x", "a", "b", merge={})], {"x": 0, "out-step": 0}),
        ([step("p", "a", apply={"function": "m:f"}), step("x", "p", filter="v > .5")], {"p": 0, "x": 1, "out-step": 2}),
        ([step("x", "a", select=["v AS w", "k"])], {"x": 0, "out-step": 0}),
        ([step("x", "a", select=["k", "v + 1 AS v"])], {"x": 1, "out-step": 2}),
        ([step("s", "a", select=["k", "v"]), step("f", "s", filter="v > 5e-1"), step("x", "f", select=["k"])],
         {"s": 0, "f": 1, "x": 1, "out-step": 2}),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)  # fmt: skip
def test_a_step_runs_as_early_as_inputs_and_language_allow(
    steps: list[dict[str, object]], expected: dict[str, int]
) -> None:
    graph = compiled([read("a"), read("b"), written()], [*steps, OUT])
    assert levels(graph) == {"a": 0, "b": 0} | expected if "b" in levels(graph) else {"a": 0} | expected


def test_rows_without_spark_sql_bypass_it_beside_a_filtered_input() -> None:
    steps = [step("f", "a", filter="v > 5e-1"), step("x", "f", "b", merge={}), OUT]
    graph = compiled([read("a"), read("b"), written()], steps)
    names = {node.index: node.name for node in graph.nodes}
    assert [[names[node] for node in graph.layout(level).shape_of] for level in (0, 1)] == [["a"], ["f"]]
    assert [[node.name for node in graph.sealed(level)] for level in (0, 1)] == [["b"], ["b"]]


def test_a_select_of_columns_alone_takes_them_without_spark() -> None:
    def ask(*_: object) -> pa.Schema:
        raise AssertionError

    steps = [step("x", "a", select=["V AS `an odd name`", "*"]), OUT]
    (source, picked, _) = compiled([read("a"), written()], steps, ask).nodes
    assert picked.plain == tuple(map(PlainColumn, ("v", "k", "v", "ts")))
    assert picked.schema == pa.schema([source.schema.field("v").with_name("an odd name"), *source.schema])
    batch = pa.RecordBatch.from_pylist([{"k": "a", "v": 1}, {"k": "b", "v": None}], source.schema)
    rows = TimedRows(batch, pa.array([5, None], pa.int64()))
    made = pick(rows, picked.plain, picked.schema)
    assert made.times == rows.times
    assert made.rows.to_pylist() == [{"an odd name": row["v"], **row} for row in batch.to_pylist()]


def test_who_reads_a_written_step_reads_what_it_wrote() -> None:
    graph = compiled([read("a"), written()], [step("w", "a", to="out"), step("x", "w", filter="v > 5e-1"), OUT])
    assert [node.inputs for node in graph.nodes] == [(), (0,), (0,), (2,)]
    assert [node.name for node in graph.crossing(0)] == ["a"]


def test_a_reader_of_a_repartition_starts_from_its_stream() -> None:
    steps = [step("r", "a", repartition={"by": ["k"]}), step("x", "r", filter="v > 5e-1"), OUT]
    graph = compiled([read("a"), written()], steps)
    assert [node.name for node in graph.sources] == ["a", "r"]
    source = graph.sources[1]
    sink, reader = graph.sinks[0], graph.at(1)[0]
    assert (sink.name, sink.inputs, sink.level, reader.inputs) == ("r", (0,), 2, (source.index,))


def test_an_intermediate_stream_has_the_columns_that_flow_into_it() -> None:
    schema = pa.schema([("k", pa.string()), ("u", pa.int8())])
    steps = [
        step("s", "a", select=["k", "from_json(k, 'x INT') AS u"]),
        step("r", "s", repartition={"by": ["k"]}),
        step("x", "r", filter="u IS NOT NULL"),
        OUT,
    ]
    graph = compiled([read("a"), written()], steps, lambda _, __: schema)
    assert {node.name: node.schema for node in graph.nodes if node.name != "a"} == dict.fromkeys(
        ("s", "r", "x", "out-step"), schema
    )


def test_a_function_gives_the_columns_its_schema_says() -> None:
    steps = [step("x", "a", apply={"function": "m:f", "schema": "k STRING, n INT"}), OUT]
    graph = compiled([read("a"), written()], steps)
    assert graph.at(0)[0].schema == pa.schema([("k", pa.string()), ("n", pa.int32())])


def test_steps_whose_rows_go_nowhere_are_left_out_and_named() -> None:
    steps = [
        step("x", "a", filter="v > 5e-1"),
        step("idle", "b", filter="v > 5e-1"),
        step("more", "idle", merge={}),
        OUT,
    ]
    graph = compiled([read("a"), read("b"), written()], steps)
    assert graph.dropped == ("idle", "more")
    assert [node.name for node in graph.nodes] == ["a", "b", "x", "out-step"]


def test_a_step_with_state_stays_though_its_rows_go_nowhere() -> None:
    steps = [step("x", "a", filter="v > 5e-1"), step("p", "x", process={"function": "m:f", "by": ["k"]})]
    graph = compiled([read("a", key=["k"])], steps)
    assert (graph.dropped, graph.last, [node.name for node in graph.at(2)]) == ((), 2, ["p"])


def test_a_look_up_runs_behind_the_writers_of_its_table() -> None:
    steps = [
        step("late", "a", filter="v > 5e-1"),
        step("w", "late", toTable="t"),
        step("x", "b", lookup={"table": "t", "by": ["k"], "select": ["k", "left.v"]}),
        OUT,
    ]
    streams = [read("a", key=["k"]), read("b", key=["k"]), written()]
    graph = compiled(streams, steps, tables=[{"name": "t", "key": ["k"]}])
    assert [node.name for node in graph.at(2)] == ["w", "x", "out-step"]


def test_merged_types_only_spark_could_tell_apart_are_refused() -> None:
    def ask(_: pa.Schema, texts: tuple[str, ...]) -> pa.Schema:
        return pa.schema([("u", pa.int8() if "one" in texts[0] else pa.int16())])

    steps = [
        step("one", "a", select=["from_csv('one', k) AS u"]),
        step("two", "a", select=["from_csv('two', k) AS u"]),
        step("x", "one", "two", merge={}),
        OUT,
    ]
    with pytest.raises(
        UserActionError, match="u is int8 in one and is int16 in two", check=has_code("ColumnsMismatchError")
    ):
        compiled([read("a"), written()], steps, ask)


def test_rows_without_columns_are_refused() -> None:
    with pytest.raises(UserActionError, match="step x selects no column", check=has_code("ColumnsMismatchError")):
        compiled(
            [read("a"), written()], [step("x", "a", select=["* EXCEPT (k, v, ts)"]), OUT], lambda _, __: pa.schema([])
        )


@given(graphs())
def test_every_edge_goes_up_or_stays(graph: CompiledGraph) -> None:
    for node in graph.nodes:
        assert node.index == graph.nodes.index(node)
        assert all(graph.nodes[source].level <= node.level for source in node.inputs)
        assert all(graph.nodes[source].verb != "to" for source in node.inputs)
        assert node.verb not in ("filter", "select") or node.level % 2 == 1
        assert node.verb not in ("source", "apply", "process", "to", "repartition") or node.level % 2 == 0


@given(graphs())
def test_there_are_as_few_segments_as_possible(graph: CompiledGraph) -> None:
    assert graph.last % 2 == 0
    assert graph.last == max((node.level + node.level % 2 for node in graph.nodes), default=0)
    assert not any(fits(graph.nodes, 0, {}, last) for last in range(0, graph.last, 2))


@given(graphs())
def test_what_travels_is_what_is_needed(graph: CompiledGraph) -> None:
    available: set[int] = set()
    for level in range(graph.last + 1):
        available |= {node.index for node in graph.sources if level == 0}
        used: set[int] = set()
        for node in graph.at(level):
            assert available.issuperset(node.inputs)
            used |= set(node.inputs)
            available.add(node.index)
        crossing = {node.index for node in graph.crossing(level)}
        assert crossing <= available
        behind = {source for node in graph.nodes if node.level > level for source in node.inputs}
        assert crossing == behind & available
        sealed = {node.index for node in graph.sealed(level)}
        assert sealed == crossing - set(graph.layout(level).shape_of)
        if level % 2:
            assert all(node.index not in sealed and not sealed & set(node.inputs) for node in graph.at(level))
        available = crossing
    assert available == set()


@given(graphs())
def test_a_compiled_graph_survives_the_trip_to_a_task(graph: CompiledGraph) -> None:
    assert pickle.loads(pickle.dumps(graph)) == graph  # noqa: S301 - its own


def fits(nodes: tuple[GraphNode, ...], at: int, chosen: dict[int, int], last: int) -> bool:
    """Whether any arrangement of the nodes from `at` on gets by with these levels."""
    if at == len(nodes):
        return True
    node = nodes[at]
    low = max((chosen[source] for source in node.inputs), default=0)
    allowed = {
        "source": [0],
        "filter": range(1, last, 2),
        "select": range(1, last, 2),
        "merge": range(last + 1),
        "to": [last],
        "repartition": [last],
    }.get(node.verb, range(0, last + 1, 2))
    return any(fits(nodes, at + 1, chosen | {node.index: level}, last) for level in allowed if level >= low)
