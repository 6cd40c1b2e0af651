"""What is legal or almost, and seldom meant: said, each with its reason."""

import pytest

from holdfast.planning.plan import Plan
from holdfast.reasons import Reason
from tests.planning.apps import join, lookup, only, plan_of, reasons, step, stream, warned

COUNT = {"by": ["k"], "compute": ["count(*) AS n"]}


def test_a_table_that_nothing_feeds_is_refused() -> None:
    result = plan_of([stream("a")], [lookup("l", "a", "t")], tables=[{"name": "t", "key": ["k"]}])
    assert only(result).reason is Reason.TABLE_EMPTY


@pytest.mark.parametrize(("distribution", "refused"), [("Broadcast", True), ("Partitioned", False)])
def test_dead_letters_that_every_location_would_write_are_refused(distribution: str, refused: bool) -> None:
    side = stream("b", onDecodeError="DeadLetter", deadLetter="bad")
    letters = {"name": "bad", "system": "log", "partitions": 1}
    table = {"name": "t", "sources": ["b"], "key": ["k"], "distribution": distribution}
    app_plan = plan_of([stream("a"), side, letters], [lookup("l", "a", "t")], tables=[table])
    assert (Reason.DEAD_LETTERS_REPEATED in reasons(app_plan)) == refused


def test_a_topic_that_is_an_intermediate_stream_is_refused() -> None:
    streams = [stream("a"), stream("b", topic="app-p")]
    steps = [step("p", "a", repartition={"by": ["k"]}), step("f", "b", filter="v > 1")]
    assert only(plan_of(streams, steps)).reason is Reason.TOPIC_SHARED


def test_two_names_of_one_topic_cannot_have_two_counts() -> None:
    streams = [stream("a", 4, topic="x"), stream("b", 8, topic="x")]
    assert only(plan_of(streams, [step("m", "a", filter="v > 1")])).reason is Reason.TOPIC_SHARED
    assert plan_of([stream("a", 4, topic="x"), stream("b", 4, topic="x")], [step("m", "a", filter="v > 1")]).valid


def test_a_topic_written_and_read_under_different_names_is_said() -> None:
    streams = [stream("a", topic="x"), stream("b", topic="x")]
    assert Reason.TOPIC_SHARED in warned(plan_of(streams, [step("f", "a", to="b")]))


@pytest.mark.parametrize("hops", [1, 2])
def test_a_stream_that_feeds_itself_is_said(hops: int) -> None:
    if hops == 1:
        result = plan_of([stream("a")], [step("f", "a", filter="v > 1"), step("w", "f", to="a")])
    else:
        result = plan_of([stream("a"), stream("b")], [step("w", "a", to="b"), step("x", "b", to="a")])
    assert Reason.STREAM_CIRCLE in warned(result)


def test_a_chain_of_streams_is_no_circle() -> None:
    result = plan_of([stream("a"), stream("b"), stream("c")], [step("w", "a", to="b"), step("x", "b", to="c")])
    assert Reason.STREAM_CIRCLE not in warned(result)


def test_only_steps_of_the_circle_are_named() -> None:
    steps = [step("x", "y", filter="v > 1"), step("y", "x", filter="v > 1"), step("behind", "y", filter="v > 1")]
    problem = only(plan_of([stream("a")], steps))
    assert (problem.reason, problem.step) == (Reason.STEP_CYCLE, "x")
    assert "behind" not in problem.message


def test_two_writers_of_one_stream_must_write_the_same_columns() -> None:
    streams = [stream("a"), stream("o", schema=None)]
    steps = [step("w", "a", to="o"), step("s", "a", select=["k"]), step("x", "s", to="o")]
    assert reasons(plan_of(streams, steps)) == [Reason.SCHEMA_MISMATCH]


def test_a_window_of_windows_cannot_have_its_bounds_twice() -> None:
    windowed = {**COUNT, "window": "1m"}
    again = {"by": ["k", "window_start"], "window": "1h", "compute": ["sum(n) AS n"]}
    result = plan_of([stream("a")], [step("m", "a", aggregate=windowed), step("h", "m", aggregate=again)])
    assert reasons(result) == [Reason.DUPLICATE_COLUMN]


def test_broadcast_rows_merged_with_others_cannot_be_counted() -> None:
    steps = [step("all", "b", broadcast={}), step("m", "a", "all", merge={}), step("n", "m", aggregate=COUNT)]
    assert reasons(plan_of([stream("a"), stream("b")], steps)) == [Reason.BROADCAST_REPEATED]


@pytest.mark.parametrize(("kind", "valid"), [("Inner", True), ("Left", False)])
def test_broadcast_rows_without_a_match_would_repeat_per_task(kind: str, valid: bool) -> None:
    look = lookup("l", "all", "t")
    look["lookup"]["type"] = kind
    tables = [{"name": "t", "key": ["k"], "sources": ["side"]}]
    steps = [step("all", "a", broadcast={}), look, step("w", "l", to="o")]
    result = plan_of([stream("a"), stream("side"), stream("o", schema=None)], steps, tables=tables)
    assert result.valid is valid
    assert (Reason.BROADCAST_REPEATED in reasons(result)) is not valid
    if valid:
        assert Reason.BROADCAST_REPEATED not in warned(result)


def test_one_broadcast_side_frees_a_join_from_keys() -> None:
    steps = [step("all", "b", broadcast={}), join("j", "a", "all", on=("v",))]
    assert plan_of([stream("a"), stream("b")], steps).valid


def test_a_superseded_repartition_is_removed_by_the_repair() -> None:
    steps = [step("p", "a", repartition={"by": ["v"]}), join("j", "p", "b")]
    problem = plan_of([stream("a"), stream("b")], steps).problems[0]
    assert problem.repair is not None
    assert problem.repair.removed == ("p",)


def test_a_repair_says_the_count_that_will_be() -> None:
    steps = [step("n", "a", aggregate={"by": ["v"], "compute": ["count(*) AS n"]})]
    problem = only(plan_of([stream("a", 4)], steps, planning={"intermediatePartitions": 12}))
    assert problem.repair is not None
    assert problem.repair.summary == "repartition a by v into 12"


def test_kept_columns_keep_their_type() -> None:
    verb = {"function": "m:f", "schema": "k BIGINT", "keeps": ["k"]}
    assert reasons(plan_of([stream("a")], [step("x", "a", apply=verb)])) == [Reason.SCHEMA_MISMATCH]


def with_code(text: str) -> Plan:
    steps = [step("x", "a", apply={"function": "mine:clean"})]
    return plan_of([stream("a")], steps, runtime={"code": {"mine": text}})


@pytest.mark.parametrize("text", ["def clean(batch):\n    return batch\n", "clean = print\n", "from other import *\n"])
def test_code_that_holds_its_function_is_accepted(text: str) -> None:
    assert with_code(text).valid


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("async def clean(row): ...\n", "mine:clean is async"),
        ("def clean(:\n", "line 1"),
        ("def claen(batch): ...\n", "did you mean claen?"),
        ("x = '\x00'", "is not Python"),
    ],
)
def test_code_that_cannot_work_is_refused(text: str, detail: str) -> None:
    problem = only(with_code(text))
    assert problem.reason is Reason.CODE_INVALID
    assert detail in problem.message


def test_a_state_of_batches_may_not_hold_its_key() -> None:
    process = {"function": "mine:count", "form": "Batch", "by": ["v"], "state": "n BIGINT, V BIGINT"}
    plan = plan_of([stream("a", key=["v"])], [step("x", "a", process=process)])
    problem = only(plan)
    assert problem.reason is Reason.SCHEMA_MISMATCH
    assert "state has a column V, which is one of by" in problem.message


def test_a_location_template_that_names_nothing_is_refused() -> None:
    problem = only(plan_of([stream("a")], [step("x", "a", filter="v > 1")], state={"location": "{node.label.rack}"}))
    assert problem.reason is Reason.INVALID_SPEC
    assert "node.labels" in problem.message


FAILING = {"onError": "DeadLetter", "deadLetter": "failed"}


def test_a_stream_for_dead_letters_of_a_step_is_used() -> None:
    streams = [stream("given"), stream("failed"), stream("out")]
    steps = [step("some", "given", filter="v > 0", **FAILING), step("put", "some", to="out")]
    assert not plan_of(streams, steps).warnings


def test_a_select_that_makes_rows_cannot_put_rows_aside() -> None:
    plain = {"schema": None, "eventTime": None}
    tags = stream("given", schema="k STRING, tags ARRAY<STRING>", eventTime=None)
    streams = [tags, stream("failed", **plain), stream("out", **plain)]
    steps = [step("each", "given", select=["k", "explode(tags) AS tag"], **FAILING), step("put", "each", to="out")]
    (problem,) = plan_of(streams, steps).problems
    assert problem.step == "each"
    assert "explode can't stand in a step with onError: DeadLetter" in problem.message
