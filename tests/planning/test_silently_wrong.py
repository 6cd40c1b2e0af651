"""Apps that would be wrong without a word: equal keys in two tasks, rows out once per task, rows that never meet."""

from typing import Any

import pytest

from holdfast.planning.plan import PlanningFacts, apply_all_repairs
from holdfast.reasons import Reason
from tests.planning.apps import SCHEMA, app_of, join, only, plan_of, reasons, step, stream, warned

WIDE = "k STRING, j STRING, x STRING, ts TIMESTAMP"
ALL = ["k", "left.j AS j", "left.x AS x", "left.ts AS ts"]


def wide(name: str, partitions: int = 8, **fields: Any) -> dict[str, Any]:
    return stream(name, partitions, schema=WIDE, **fields)


def look(name: str, source: str, kind: str = "Inner", select: list[str] | None = None) -> dict[str, Any]:
    return step(name, source, lookup={"table": "t", "by": ["k"], "type": kind, "select": select or ALL})


def count(name: str, source: str, by: str) -> dict[str, Any]:
    return step(name, source, aggregate={"by": [by], "compute": ["count(*) AS n"]})


OUT = {"name": "o", "system": "log", "partitions": 8}


def test_a_repartition_inside_a_circle_is_reported_as_a_circle() -> None:
    steps = [
        step("f", "r", filter="true"),
        step("r", "f", repartition={"by": ["k"]}),
        step("w", "r", to="o"),
    ]
    assert reasons(plan_of([wide("a"), OUT], steps)) == [Reason.STEP_CYCLE]


@pytest.mark.parametrize("feed", [{"key": ["j"]}, {"partitioner": "crc32"}])
def test_a_tables_feeds_must_fit_it_under_broadcast_look_ups(feed: dict[str, Any]) -> None:
    tables = [{"name": "t", "key": ["k"], "sources": ["s1", "s2"]}]
    steps = [step("b", "i", broadcast={}), look("lk", "b"), step("w", "lk", to="o")]
    streams = [wide("i"), wide("s1"), wide("s2", **feed), OUT]
    assert {Reason.KEY_MISMATCH, Reason.PARTITIONER_MISMATCH} & set(reasons(plan_of(streams, steps, tables=tables)))


def test_a_partly_broadcast_table_cannot_be_asked_by_every_task() -> None:
    tables = [{"name": "t", "key": ["k"], "schema": WIDE}]
    steps = [
        step("all", "a", broadcast={}),
        step("w1", "all", toTable="t"),
        step("w2", "p", toTable="t"),
        step("b", "i", broadcast={}),
        look("lk", "b"),
        step("w", "lk", to="o"),
    ]
    result = plan_of([wide("a"), wide("p"), wide("i"), OUT], steps, tables=tables)
    assert Reason.BROADCAST_REPEATED in reasons(result)


@pytest.mark.parametrize("verb", [{"broadcast": {}}, {"repartition": {"by": ["k"]}}])
def test_broadcast_rows_are_not_sent_around_again_by_every_task(verb: dict[str, Any]) -> None:
    steps = [step("b1", "a", broadcast={}), step("again", "b1", **verb), step("w", "again", to="o")]
    assert Reason.BROADCAST_REPEATED in reasons(plan_of([wide("a"), OUT], steps))


def test_matches_of_broadcast_rows_lie_and_count_as_the_table() -> None:
    tables = [{"name": "t", "key": ["k"], "sources": ["src"]}]
    steps = [step("b", "i", broadcast={}), look("lk", "b"), join("m", "lk", "q"), step("w", "m", to="o")]
    streams = [stream("i"), stream("src", 8), stream("q", 4), OUT]
    steps[1]["lookup"]["select"] = ["k", "left.v AS v", "left.ts AS ts"]
    result = plan_of(streams, steps, tables=tables)
    assert Reason.PARTITION_COUNT_MISMATCH in reasons(result)


@pytest.mark.parametrize(
    ("streams", "by"),
    [
        ([wide("a", key=None), wide("b", key=["j"])], "k"),
        ([wide("a"), wide("b", key=None), wide("c", key=["j"])], "k"),
        ([wide("a", key=None, partitioner="crc32"), wide("b")], "k"),
    ],
)
def test_an_undeclared_key_does_not_hide_a_contradiction_beside_it(streams: list[dict[str, Any]], by: str) -> None:
    steps = [step("m", *(one["name"] for one in streams), merge={}), count("n", "m", by)]
    assert Reason.KEY_MISMATCH in reasons(plan_of(streams, steps))


def test_a_join_with_an_undeclared_side_follows_the_declared() -> None:
    steps = [join("j", "a", "b"), step("n", "j", aggregate={"by": ["v"], "compute": ["count(*) AS n"]})]
    result = plan_of([stream("a", key=None), stream("b")], steps)
    assert [problem.step for problem in result.problems] == ["n"]
    assert Reason.KEY_UNDECLARED in warned(result)


def test_another_sides_column_with_a_copys_name_is_no_copy() -> None:
    left = stream("l", schema="k STRING, ts TIMESTAMP")
    right = stream("r", schema="k STRING, x STRING, ts TIMESTAMP")
    matched = {"by": ["k"], "within": "1m", "select": ["right.x AS z"]}
    steps = [step("l2", "l", select=["k", "k AS x", "ts"]), step("m", "l2", "r", join=matched), count("c", "m", "z")]
    assert only(plan_of([left, right], steps)).step == "c"


def test_a_right_sides_copy_of_the_key_is_one() -> None:
    right = stream("r", schema="k STRING, ts TIMESTAMP")
    matched = {"by": ["k"], "within": "1m", "select": ["right.kk AS z"]}
    steps = [step("r2", "r", select=["k", "k AS kk", "ts"]), step("m", "a", "r2", join=matched), count("c", "m", "z")]
    assert plan_of([stream("a"), right], steps).valid


def test_in_a_tables_circle_its_key_partitions_its_rows() -> None:
    tables = [{"name": "t", "key": ["k"], "schema": WIDE}]
    steps = [
        step("bb", "a", broadcast={}),
        look("lk", "bb"),
        step("b2", "b", repartition={"by": ["k"]}),
        step("mm", "lk", "b2", merge={}),
        step("wt", "mm", toTable="t"),
        count("c", "lk", "x"),
    ]
    assert "c" in [
        problem.step for problem in plan_of([wide("a"), wide("b", key=["j"])], steps, tables=tables).problems
    ]


def test_two_names_of_one_topic_cannot_have_two_keys() -> None:
    streams = [wide("a", topic="t"), wide("b", topic="t", key=["j"])]
    assert reasons(plan_of(streams, [count("n", "a", "k"), count("m", "b", "j")])) == [Reason.TOPIC_SHARED]


def test_merging_streams_of_unknown_partitioners_is_trusted_and_said() -> None:
    streams = [wide("a", partitioner="none"), wide("b", partitioner="none")]
    result = plan_of(streams, [step("m", "a", "b", merge={}), count("n", "m", "k")])
    assert Reason.PARTITIONER_UNKNOWN in warned(result)


def test_every_task_writes_where_broadcast_rows_are_among_those_written() -> None:
    steps = [
        step("b", "a", broadcast={}),
        step("m", "b", "p", merge={}),
        step("w", "m", to="o"),
        step("f", "q", filter="true"),
    ]
    result = plan_of([wide("a", 2), wide("p", 4), wide("q", 8), OUT], steps)
    assert len(result.producers["o"]) == 8


def test_matches_of_partly_broadcast_rows_do_not_repeat_per_task() -> None:
    steps = [
        step("b", "a", broadcast={}),
        step("m", "b", "p", merge={}),
        join("jn", "m", "q"),
        step("n", "jn", aggregate={"by": ["k"], "compute": ["count(*) AS n"]}),
    ]
    assert plan_of([stream("a"), stream("p"), stream("q")], steps).valid


def test_a_matched_table_row_has_the_key_of_the_row() -> None:
    tables = [{"name": "t", "key": ["k"], "sources": ["src"]}]
    steps = [look("lk", "a", select=["right.k", "left.x"]), count("n", "lk", "k")]
    assert plan_of([wide("a"), wide("src")], steps, tables=tables).valid


def test_texts_of_limited_length_are_texts_where_they_are_compared() -> None:
    short = stream("b", schema="k VARCHAR(5), v BIGINT, ts TIMESTAMP")
    assert plan_of([stream("a"), short], [join("j", "a", "b")]).valid


def test_a_look_up_behind_another_tables_circle_knows_its_rows() -> None:
    tables = [{"name": "t1", "key": ["k"], "schema": "k STRING, v BIGINT"}, {"name": "t2", "key": ["k"]}]
    steps = [
        step("z", "a", lookup={"table": "t1", "by": ["k"], "select": ["k", "left.v"]}),
        step("zw", "z", toTable="t1"),
        step("zw2", "z", toTable="t2"),
        step("aa", "b", lookup={"table": "t2", "by": ["k"], "select": ["k", "right.v AS rv"]}),
    ]
    assert plan_of([stream("a"), stream("b")], steps, tables=tables).valid


def test_a_table_and_a_namesake_step_differ_on_a_path() -> None:
    tables = [{"name": "t", "key": ["k"], "schema": SCHEMA}]
    steps = [step("t", "a", filter="true"), join("jn", "t", "q"), step("w", "jn", toTable="t")]
    problem = only(plan_of([stream("a", 8), stream("q", 16)], steps, tables=tables))
    assert problem.paths[0] == ("a", "t", "jn")


def test_a_stream_nobody_uses_decides_no_count() -> None:
    result = plan_of([stream("a", 4), stream("unused", 200)], [step("p", "a", repartition={"by": ["v"]})])
    count_ = result.stream("p").count
    assert count_ is not None
    assert count_.partitions == 4


def test_paths_through_many_diamonds_are_not_walked_one_by_one() -> None:
    steps = [step("d0", "a", "b", merge={})]
    steps += [step(f"d{i}", f"d{i - 1}", f"d{i - 1}", merge={}) for i in range(1, 60)]
    result = plan_of([stream("a", 8), stream("b", 16), stream("q", 16)], [*steps, join("m", "d59", "q")])
    assert only(result).repair is not None


def test_a_chain_of_the_longest_spec_is_mended() -> None:
    steps = [step("f0", "a", filter="true"), *(step(f"f{i}", f"f{i - 1}", filter="true") for i in range(1, 990))]
    assert only(plan_of([stream("a", 8), stream("q", 16)], [*steps, join("m", "f989", "q")])).repair is not None


def test_one_repartition_serves_all_joins_that_need_it() -> None:
    streams = [stream("a", 8), *(stream(f"q{i}", 16) for i in range(25))]
    app = app_of(streams, [join(f"m{i}", "a", f"q{i}") for i in range(25)])
    result = apply_all_repairs(app, PlanningFacts())
    assert result.plan.valid
    assert [step.name for step in result.app.spec.steps if step.repartition] == ["a-by-k"]


def test_growth_with_expansion_off_is_said() -> None:
    from tests.planning.test_growth import grown, record_of  # noqa: PLC0415 - only here

    result = grown(record_of(a=4, b=4), a=8, b=8, expansion={"enabled": False})
    assert result.valid
    assert Reason.EXPANSION_OFF in warned(result)


def test_a_fresh_step_takes_no_name_whose_topic_is_taken() -> None:
    streams = [stream("a", 8), stream("q", 16, topic="app-a-by-k")]
    assert apply_all_repairs(app_of(streams, [join("m", "a", "q")]), PlanningFacts()).plan.valid


def test_a_table_looked_up_by_broadcast_rows_stays_partitioned() -> None:
    tables = [{"name": "t", "key": ["k"], "sources": ["src"]}]
    steps = [
        look("l1", "p", "Left"),
        step("ib", "i", broadcast={}),
        look("l2", "ib"),
        step("o1", "l1", to="o"),
    ]
    problems = plan_of([wide("src", 8, partitioner="crc32"), wide("p"), wide("i"), OUT], steps, tables=tables).problems
    assert all(problem.repair is None or not problem.repair.broadcast_tables for problem in problems)
