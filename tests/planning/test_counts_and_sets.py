"""Which streams must agree, and how unknown counts come about, where the conformance cases leave room."""

import pytest

from holdfast.planning.plan import PlanningFacts
from holdfast.reasons import Reason
from tests.planning.apps import SCHEMA, join, lookup, made, only, plan_of, reasons, step, stream, warned

BY_K = {"by": ["k"]}
COUNT = {"by": ["k"], "compute": ["count(*) AS v", "max(ts) AS ts"]}


def test_rows_merged_from_streams_of_different_counts_cannot_be_aggregated() -> None:
    result = plan_of([stream("a", 8), stream("b", 4)], [step("m", "a", "b", merge={}), step("n", "m", aggregate=COUNT)])
    problem = only(result)
    assert (problem.reason, problem.step) == (Reason.PARTITION_COUNT_MISMATCH, "n")
    assert problem.repair is not None
    assert problem.repair.summary == "repartition b by k into 8"


def test_a_mismatched_join_is_reported_once_before_a_keyed_step() -> None:
    result = plan_of([stream("a", 8), stream("b", 4)], [join("j", "a", "b"), step("n", "j", aggregate=COUNT)])
    assert only(result).step == "j"


def test_a_merged_intermediate_stream_takes_the_count_of_the_others() -> None:
    steps = [
        step("p", "b", repartition=BY_K),
        step("m", "a", "p", merge={}),
        step("n", "m", aggregate=COUNT),
    ]
    assert made(
        plan_of([stream("a", 8), stream("b", 4), stream("c", 64)], [*steps, step("o", "c", filter="v > 1")])
    ) == {"p": 8}


def test_a_stream_in_two_sets_takes_the_smallest_count() -> None:
    steps = [step("p", "a", repartition=BY_K), join("j1", "p", "b"), join("j2", "p", "c")]
    result = plan_of([stream("a", 3), stream("b", 16), stream("c", 8)], steps)
    assert made(result) == {"p": 8}
    assert only(result).step == "j1"


def test_a_problem_shows_origins_and_paths_of_its_counts() -> None:
    steps = [step("w", "a", toTable="t"), step("f", "b", filter="v > 1"), lookup("l", "f", "t")]
    problem = only(
        plan_of(
            [stream("a", 8), stream("b", None)],
            steps,
            PlanningFacts(given={"b": 4}),
            tables=[{"name": "t", "key": ["k"]}],
        )
    )
    assert [(one.name, one.partitions, one.how) for one in problem.streams] == [
        ("a", 8, "set in the spec"),
        ("b", 4, "given on the command line"),
    ]
    assert problem.paths == (("a", "w", "table t", "l"), ("b", "f", "l"))


def test_a_broadcast_stream_joins_streams_of_any_count() -> None:
    steps = [step("all", "b", broadcast={}), join("j", "a", "all")]
    result = plan_of([stream("a", 8), stream("b", 3)], steps)
    assert result.valid
    assert [task.name for task in result.tasks] == [f"partition-{i}" for i in range(8)]
    assert all("all/0" in map(str, task.inputs) for task in result.tasks)


def test_a_misfit_side_input_is_cured_on_the_other_side() -> None:
    tables = [{"name": "t", "key": ["k"], "sources": ["side"]}]
    problem = only(plan_of([stream("a", 16), stream("side", 4)], [lookup("l", "a", "t")], tables=tables))
    assert problem.repair is not None
    assert problem.repair.summary == "repartition a by k into 4 (or make table t Broadcast)"


def test_disagreeing_side_inputs_are_cured_by_a_broadcast_table() -> None:
    tables = [{"name": "t", "key": ["k"], "sources": ["one", "two"]}]
    problem = only(
        plan_of([stream("a", 4), stream("one", 4), stream("two", 8)], [lookup("l", "a", "t")], tables=tables)
    )
    assert problem.repair is not None
    assert problem.repair.broadcast_tables == ("t",)


def test_missing_counts_are_derived_for_outputs_and_refused_for_inputs() -> None:
    result = plan_of([stream("a", None), stream("o", None, schema=None)], [step("w", "a", to="o")])
    assert reasons(result) == [Reason.PARTITION_COUNT_UNKNOWN]
    result = plan_of([stream("a", 8), stream("o", None, schema=None)], [step("w", "a", to="o")])
    assert result.valid
    count = result.stream("o").count
    assert count is not None
    assert count.partitions == 8


def test_a_missing_topic_is_named_with_its_system() -> None:
    result = plan_of(
        [stream("a", None, topic="shop.a")], [step("w", "a", filter="v > 1")], PlanningFacts(topics={"a": None})
    )
    problem = only(result)
    assert problem.reason is Reason.TOPIC_MISSING
    assert "shop.a" in problem.message
    assert "log" in problem.message


def test_a_topic_that_contradicts_the_spec_wins_with_a_warning() -> None:
    result = plan_of([stream("a", 8)], [step("w", "a", filter="v > 1")], PlanningFacts(topics={"a": 16}))
    assert len(result.tasks) == 16
    assert Reason.PARTITION_COUNT_DIFFERS in warned(result)


def test_a_cap_that_bites_is_warned_of() -> None:
    result = plan_of([stream("a", 300)], [step("p", "a", repartition=BY_K)])
    assert made(result) == {"p": 256}
    assert Reason.COUNT_CAPPED in warned(result)


def test_a_cut_count_keeps_its_number_before_the_cut() -> None:
    result = plan_of([stream("a", 300)], [step("p", "a", repartition=BY_K)])
    count = result.stream("p").count
    assert count is not None
    assert (count.partitions, count.cut_from) == (256, 300)


def test_an_intermediate_streams_known_count_holds() -> None:
    result = plan_of([stream("a", 8), stream("b", 4)], [step("w", "a", to="b"), step("r", "b", filter="v > 1")])
    assert result.stream("b").role == "intermediate"
    assert made(result) == {"b": 4}


def test_steps_in_a_circle_are_refused_by_name() -> None:
    steps = [step("x", "y", filter="v > 1"), step("y", "x", filter="v > 1"), step("z", "a", filter="v > 1")]
    problem = only(plan_of([stream("a")], steps))
    assert problem.reason is Reason.STEP_CYCLE
    assert "x, y" in problem.message


def test_producers_are_the_tasks_whose_inputs_lead_to_a_stream() -> None:
    steps = [step("p", "a", repartition=BY_K), step("q", "b", filter="v > 1"), step("r", "p", filter="v > 1")]
    result = plan_of([stream("a", 2), stream("b", 4)], steps)
    assert result.producers == {"p": ("partition-0", "partition-1")}


@pytest.mark.parametrize("repartitioned", ["p", "q"])
def test_a_repartition_of_a_repartition_is_taken_from_before_it(repartitioned: str) -> None:
    other = "q" if repartitioned == "p" else "p"
    steps = [
        step("p", "a", repartition={"by": ["v"]}),
        step("q", "b", repartition=BY_K),
        join("j", repartitioned, other),
    ]
    problem = plan_of([stream("a", 4), stream("b", 4)], steps).problems[0]
    assert problem.repair is not None
    assert "{name: a-by-k, from: [a], repartition: {by: [k]}}" in problem.repair.yaml


def test_a_table_fed_by_its_lookup_repartitions_that_step_alone() -> None:
    tables = [{"name": "t", "key": ["k"], "schema": SCHEMA}, {"name": "u", "key": ["k"], "sources": ["side"]}]
    streams = [stream("a", 1, key=["v"]), stream("side", 2)]
    steps = [lookup("x", "a", "t"), step("w", "x", toTable="t"), lookup("y", "x", "u"), lookup("z", "a", "t")]
    problem = next(one for one in plan_of(streams, steps, tables=tables).problems if one.step == "x")
    assert problem.repair is not None
    assert [new.source for new in problem.repair.new_steps] == ["a"]


def test_a_writer_in_another_join_is_cut_off_from_it() -> None:
    tables = [{"name": "t", "key": ["k"], "schema": SCHEMA}]
    streams = [stream("a", 1), stream("b", 2), stream("w", 1, key=["v"])]
    steps = [
        step("x1", "w", toTable="t"),
        lookup("x8", "b", "t"),
        lookup("x9", "b", "t"),
        step("x10", "b", toTable="t"),
        join("x11", "a", "x1"),
    ]
    assert all(one.repair for one in plan_of(streams, steps, tables=tables).problems)
