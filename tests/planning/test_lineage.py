"""From which columns of inputs each column is made, verb by verb, and for any app that can be drawn."""

import random
from typing import Any

import pytest
from hypothesis import given, settings

from holdfast.planning.lineage import ColumnUse, Lineage, column_lineage
from holdfast.planning.plan import Plan, plan
from holdfast.spec.app import StreamApp
from holdfast.spec.parse import parse_app
from tests.pipelines.drawn import drawn_app
from tests.planning.apps import app_of, step, stream
from tests.planning.specs import app_tree, specs

OUT = stream("out", schema=None, eventTime=None, key=None)
OTHER = stream("other", schema="k STRING, w BIGINT, ts TIMESTAMP")
SIDE = stream("side", schema="k STRING, price BIGINT, note STRING", eventTime=None)
PRICES = {"name": "prices", "sources": ["side"], "key": ["k"]}
WHOLE = ["in.k TRANSFORMATION", "in.ts TRANSFORMATION", "in.v TRANSFORMATION"]
ANY = {"in.k FILTER", "in.ts FILTER", "in.v FILTER"}


def shown(uses: frozenset[ColumnUse]) -> list[str]:
    return [
        f"{use.input.name}.{use.input.column}" + ("" if use.subtype == "IDENTITY" else f" {use.subtype}")
        for use in sorted(uses)
    ]


def lineage_of(*steps: dict[str, Any], streams: tuple[dict[str, Any], ...] = (), **spec: Any) -> Lineage:
    app = app_of([stream("in"), OTHER, SIDE, OUT, *streams], [*steps], **spec)
    problems = plan(app).problems
    assert not problems, problems
    return column_lineage(app.spec)


def written(*steps: dict[str, Any], **spec: Any) -> tuple[dict[str, list[str]], set[str]]:
    """What `out` gets of the last of these steps: where its columns come from, and its rows."""
    lineage = lineage_of(*steps, step("write", steps[-1]["name"], to="out"), **spec).streams["out"]
    return {name: shown(uses) for name, uses in lineage.columns.items()}, set(shown(lineage.rows))


def test_a_filter_decides_which_rows_there_are() -> None:
    columns, rows = written(step("x", "in", filter="v > 3 AND upper(k) <> 'A'"))
    assert columns == {"k": ["in.k"], "v": ["in.v"], "ts": ["in.ts"]}
    assert rows == {"in.v FILTER", "in.k FILTER"}


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("v AS x", ["in.v"]),
        ("(v) AS x", ["in.v"]),
        ("v + 1 AS x", ["in.v TRANSFORMATION"]),
        ("V + length(k) AS x", ["in.k TRANSFORMATION", "in.v TRANSFORMATION"]),
        ("CASE WHEN v > 1 THEN k END AS x", ["in.k TRANSFORMATION", "in.v TRANSFORMATION"]),
        ("struct(*) AS x", WHOLE),
        ("transform(array(v), one -> one + length(k)) AS x", ["in.k TRANSFORMATION", "in.v TRANSFORMATION"]),
        ("date_add(DAY, 1, ts) AS x", ["in.ts TRANSFORMATION"]),
        ("1 AS x", []),
    ],
)
def test_a_select_takes_what_its_items_name(item: str, expected: list[str]) -> None:
    columns, rows = written(step("x", "in", select=[item]))
    assert (columns, rows) == ({"x": expected}, set())


def test_a_star_and_fields_of_structs_are_followed() -> None:
    nested = stream("nested", schema="k STRING, p STRUCT<a: STRUCT<b: INT>, m: MAP<STRING, INT>>", eventTime=None)
    columns, _ = written(step("x", "nested", select=["k AS key", "p.a.b", "p.m['z'] AS z"]), streams=(nested,))
    assert columns == {"key": ["nested.k"], "b": ["nested.p TRANSFORMATION"], "z": ["nested.p TRANSFORMATION"]}
    columns, _ = written(step("x", "nested", select=["* EXCEPT (p)", "p.*"]), streams=(nested,))
    assert columns == {"k": ["nested.k"], "a": ["nested.p TRANSFORMATION"], "m": ["nested.p TRANSFORMATION"]}


def test_an_exploded_array_decides_how_many_rows_there_are() -> None:
    lists = stream("lists", schema="k STRING, a ARRAY<BIGINT>", eventTime=None)
    columns, rows = written(step("x", "lists", select=["k", "explode(a) AS e"]), streams=(lists,))
    assert (columns, rows) == ({"k": ["lists.k"], "e": ["lists.a TRANSFORMATION"]}, {"lists.a FILTER"})


def test_rows_on_which_a_select_fails_are_left_out() -> None:
    _, rows = written(
        step("x", "in", select=["k", "100 / v AS share"], onError="DeadLetter", deadLetter="dead"),
        streams=(stream("dead", schema=None, key=None, eventTime=None),),
    )
    assert rows == {"in.v FILTER"}


def test_an_aggregate_of_windows_groups_by_key_and_time() -> None:
    compute = ["sum(v) AS total", "count(*) AS n", "upper(k) AS name", "max(v) FILTER (WHERE k > 'a') AS most"]
    columns, rows = written(step("x", "in", aggregate={"by": ["K"], "window": "1m", "compute": compute}))
    assert columns == {
        "k": ["in.k"],
        "window_start": ["in.ts TRANSFORMATION"],
        "window_end": ["in.ts TRANSFORMATION"],
        "total": ["in.v AGGREGATION"],
        "n": [],
        "name": ["in.k TRANSFORMATION"],
        "most": ["in.k AGGREGATION", "in.v AGGREGATION"],
    }
    assert rows == {"in.k GROUP_BY", "in.ts WINDOW"}


def test_an_aggregate_without_a_window_knows_no_time() -> None:
    columns, rows = written(step("x", "in", aggregate={"by": ["k"], "compute": ["max(v) + 1 AS v"]}))
    assert (columns, rows) == ({"k": ["in.k"], "v": ["in.v AGGREGATION"]}, {"in.k GROUP_BY"})


def test_bounds_of_sessions_are_made_of_several_rows() -> None:
    columns, _ = written(step("x", "in", aggregate={"by": ["k"], "session": "1m", "compute": ["count(*) AS n"]}))
    assert columns["window_end"] == ["in.ts AGGREGATION"]


def test_what_was_aggregated_stays_so() -> None:
    columns, rows = written(
        step("sums", "in", aggregate={"by": ["k"], "compute": ["sum(v) AS v"]}),
        step("more", "sums", select=["k", "v * 2 AS twice", "v AS same"]),
        step("x", "more", filter="twice > 10"),
    )
    assert columns == {"k": ["in.k"], "twice": ["in.v AGGREGATION"], "same": ["in.v AGGREGATION"]}
    assert rows == {"in.k GROUP_BY", "in.v FILTER"}


def test_a_join_takes_columns_of_both_sides() -> None:
    join = {"by": ["k"], "within": "1m", "select": ["k", "left.v", "right.w * left.v AS worth"]}
    columns, rows = written(step("x", "in", "other", join=join))
    worth = ["in.v TRANSFORMATION", "other.w TRANSFORMATION"]
    assert columns == {"k": ["in.k", "other.k"], "v": ["in.v"], "worth": worth}
    assert rows == {"in.k JOIN", "other.k JOIN", "in.ts WINDOW", "other.ts WINDOW"}


def test_a_join_without_a_select_takes_all_columns() -> None:
    joined = step("x", "in", "late", join={"by": ["k"], "within": "1m"})
    columns, _ = written(
        step("late", "other", select=["k", "w", "ts AS at"], eventTime={"column": "at"}),
        joined,
    )
    assert columns == {
        "k": ["in.k", "other.k"],
        "v": ["in.v"],
        "ts": ["in.ts"],
        "w": ["other.w"],
        "at": ["other.ts"],
    }


@pytest.mark.parametrize("kind", ["Inner", "Left"])
def test_a_lookup_takes_columns_of_the_tables_stream(kind: str) -> None:
    lookup = {"table": "prices", "by": ["k"], "type": kind, "select": ["k", "v * right.price AS worth", "note"]}
    columns, rows = written(step("x", "in", lookup=lookup), tables=[PRICES])
    assert columns == {
        "k": ["in.k"],
        "worth": ["in.v TRANSFORMATION", "side.price TRANSFORMATION"],
        "note": ["side.note"],
    }
    assert rows == {"in.k JOIN", "side.k JOIN"}


def test_a_table_keeps_what_its_select_takes() -> None:
    table = PRICES | {"select": ["k", "price + 1 AS price"]}
    lineage = lineage_of(step("x", "in", lookup={"table": "prices", "by": ["k"]}), tables=[table]).tables["prices"]
    assert {name: shown(uses) for name, uses in lineage.columns.items()} == {
        "k": ["side.k"],
        "price": ["side.price TRANSFORMATION"],
    }
    assert shown(lineage.rows) == ["side.k GROUP_BY"]


def test_columns_of_files_are_said_to_be_of_files() -> None:
    files = {"location": "file:///data", "format": "csv"}
    table: dict[str, Any] = {"name": "rates", "key": ["k"], "files": files, "schema": "k STRING, rate BIGINT"}
    table |= {"distribution": "Broadcast", "versioned": True}
    lineage = lineage_of(step("x", "in", lookup={"table": "rates", "by": ["k"]}), tables=[table]).steps["x"]
    assert [(use.input.kind, use.input.name, use.input.column) for use in lineage.of("rate")] == [
        ("files", "rates", "rate")
    ]


def test_a_table_may_be_looked_up_before_it_is_written() -> None:
    lineage = lineage_of(
        step("x", "in", lookup={"table": "last", "by": ["k"], "select": ["k", "left.v + right.w AS w"]}),
        step("keep", "x", toTable="last"),
        tables=[{"name": "last", "key": ["k"], "schema": "k STRING, w BIGINT"}],
    )
    assert shown(lineage.tables["last"].of("w")) == ["in.v TRANSFORMATION"]
    assert shown(lineage.steps["x"].rows) == ["in.k JOIN"]


def test_a_deduplicate_decides_by_its_key() -> None:
    columns, rows = written(step("x", "in", deduplicate={"by": ["k"], "within": "1m"}))
    assert columns == {"k": ["in.k"], "v": ["in.v"], "ts": ["in.ts"]}
    assert rows == {"in.k FILTER", "in.ts WINDOW"}


def test_merged_rows_come_from_all_inputs() -> None:
    columns, rows = written(
        step("more", "other", select=["k", "w AS v", "ts"]),
        step("less", "in", filter="v > 1"),
        step("few", "more", filter="v > 2"),
        step("x", "less", "few", merge={}),
    )
    assert columns == {"k": ["in.k", "other.k"], "v": ["in.v", "other.w"], "ts": ["in.ts", "other.ts"]}
    assert rows == {"in.v FILTER", "other.w FILTER"}


@pytest.mark.parametrize("verb", [{"repartition": {"by": ["v"]}}, {"broadcast": {}}])
def test_rows_that_move_stay_what_they_are(verb: dict[str, Any]) -> None:
    columns, rows = written(step("moved", "in", **verb), step("x", "moved", filter="true"))
    assert (columns, rows) == ({"k": ["in.k"], "v": ["in.v"], "ts": ["in.ts"]}, set())


def test_what_a_function_makes_comes_from_all_it_is_given() -> None:
    function = {"function": "a:b", "schema": "k STRING, score DOUBLE", "keeps": ["k"]}
    columns, rows = written(step("x", "in", apply=function))
    assert columns == {"k": ["in.k"], "score": WHOLE}
    assert rows == ANY


def test_a_function_with_state_is_given_time_and_tables() -> None:
    function = {"function": "a:b", "by": ["k"], "keeps": ["k"], "tables": ["prices"]}
    columns, rows = written(
        step("few", "in", select=["k", "v"]),
        step("x", "few", process=function),
        tables=[PRICES | {"distribution": "Broadcast"}],
    )
    sides = [f"side.{name} TRANSFORMATION" for name in ("k", "note", "price")]
    assert columns == {"k": ["in.k"], "v": [*WHOLE, *sides]}
    of_sides = {"side.k FILTER", "side.note FILTER", "side.price FILTER", "side.k JOIN"}
    assert rows == {"in.k FILTER", "in.v FILTER", "in.k GROUP_BY", "in.ts WINDOW"} | of_sides


def test_event_time_is_followed_to_what_it_was_computed_of() -> None:
    times = stream("times", schema="k STRING, p STRUCT<at: BIGINT>", eventTime={"from": "p.at", "unit": "Seconds"})
    windows = {"by": ["k"], "window": "1m", "compute": ["count(*) AS n"]}
    columns, rows = written(step("x", "times", aggregate=windows), streams=(times,))
    assert columns["window_start"] == ["times.p TRANSFORMATION"]
    assert rows == {"times.k GROUP_BY", "times.p WINDOW"}


def test_a_stream_that_is_read_again_passes_inputs_through() -> None:
    middle = stream("middle")
    columns, rows = written(
        step("big", "in", filter="v > 1"),
        step("put", "big", to="middle"),
        step("x", "middle", select=["k", "v + 1 AS v"]),
        streams=(middle,),
    )
    assert (columns, rows) == ({"k": ["in.k"], "v": ["in.v TRANSFORMATION"]}, {"in.v FILTER"})


def test_dead_letters_may_hold_any_column() -> None:
    dead = stream("dead", schema=None, key=None, eventTime=None)
    lineage = lineage_of(
        step("x", "in", filter="100 / v > 1", onError="DeadLetter", deadLetter="dead"),
        step("last", "x", to="out"),
        streams=(dead,),
    ).streams["dead"]
    assert shown(lineage.of("value")) == WHOLE
    assert set(lineage.columns) >= {"reason", "stream", "offset", "value"}


def check(app: StreamApp, result: Plan) -> None:
    """Every column that is written has its lineage, and that names columns of inputs alone."""
    lineage = column_lineage(app.spec)
    inputs = {
        (stream.name, name)
        for stream in result.streams
        for name in stream.rows.names
        if stream.role in ("input", "sideInput")
    }
    for name, rows in (lineage.streams | lineage.tables | lineage.steps).items():
        for uses in (*rows.columns.values(), rows.rows, rows.times):
            assert {(use.input.name, use.input.column) for use in uses} <= inputs, name
    for planned in result.streams:
        if planned.name in lineage.streams and planned.name not in app.spec.dead_letters:
            assert tuple(lineage.streams[planned.name].columns) == planned.rows.names
    for planned_step in result.steps:
        assert set(lineage.steps[planned_step.name].columns) == set(planned_step.rows.names), planned_step.name
    for table in result.tables:
        assert set(lineage.tables[table.name].columns) == set(table.rows.names)


@pytest.mark.parametrize("seed", range(30))
def test_each_column_of_a_drawn_pipeline_has_its_lineage(seed: int) -> None:
    app = parse_app(drawn_app(random.Random(seed), timers=True))  # noqa: S311 - it draws tests
    result = plan(app)
    assert result.valid
    check(app, result)


@settings(max_examples=30)
@given(specs(any_keys=False))
def test_each_column_of_a_valid_spec_has_its_lineage(spec: dict[str, Any]) -> None:
    app = parse_app(app_tree(spec))
    result = plan(app)
    if result.valid:
        check(app, result)
