"""The partition key is followed through the steps; a step that needs equal keys in one task gets them or says no."""

from typing import Any

import pytest

from holdfast.planning.plan import Plan
from holdfast.reasons import Reason
from tests.planning.apps import join, lookup, only, plan_of, reasons, step, stream, warned

COUNT = {"by": ["k"], "compute": ["count(*) AS n"]}


def key_at(result: Plan, name: str) -> str:
    return next(one.spread.text for one in result.steps if one.name == name)


@pytest.mark.parametrize(
    ("verb", "key"),
    [
        ({"filter": "v > 1"}, "k"),
        ({"select": ["k", "ts"]}, "k"),
        ({"select": ["k AS id", "ts"]}, "id"),
        ({"select": ["*", "k AS id"]}, "id"),
        ({"select": ["v", "ts"]}, "(lost: x does not pass k on unchanged)"),
        ({"select": ["upper(k) AS k"]}, "(lost: x does not pass k on unchanged)"),
        ({"apply": {"function": "m:f"}}, "(lost: x may change k; if it does not, name it in keeps)"),
        ({"apply": {"function": "m:f", "keeps": ["k"]}}, "k"),
        ({"process": {"function": "m:f", "by": ["k"], "keeps": ["k"], "schema": "k STRING"}}, "k"),
        ({"aggregate": COUNT}, "k"),
        ({"deduplicate": {"by": ["k", "v"]}}, "k"),
        ({"repartition": {"by": ["v"]}}, "v"),
        ({"broadcast": {}}, "(all rows in every task)"),
    ],
)
def test_the_key_goes_by_the_names_of_its_unchanged_copies(verb: dict[str, Any], key: str) -> None:
    assert key_at(plan_of([stream("a")], [step("x", "a", **verb)]), "x") == key


@pytest.mark.parametrize(
    ("kind", "select", "is_key"),
    [
        ("Inner", "left.k AS id", True),
        ("Inner", "right.k AS id", True),
        ("Left", "left.k AS id", True),
        ("Left", "right.k AS id", False),
        ("Right", "right.k AS id", True),
        ("Right", "left.k AS id", False),
        ("Full", "left.k AS id", False),
        ("Full", "k AS id", True),
    ],
)
def test_a_column_null_without_a_partner_is_no_key(kind: str, select: str, is_key: bool) -> None:
    verb = {"by": ["k"], "within": "1m", "type": kind, "select": [select]}
    result = plan_of([stream("a"), stream("b")], [step("j", "a", "b", join=verb)])
    assert (key_at(result, "j") == "id") is is_key


def test_sides_partitioned_by_different_columns_do_not_meet() -> None:
    streams = [stream("a", key=["k"]), stream("b", key=["v"])]
    problem = only(plan_of(streams, [join("j", "a", "b", on=("k", "v"))]))
    assert problem.reason is Reason.KEY_MISMATCH
    assert problem.repair is not None
    assert problem.repair.summary in ("repartition a by v into 4", "repartition b by k into 4")


def test_the_same_columns_in_another_order_are_another_key() -> None:
    streams = [stream("a", key=["k", "v"]), stream("b", key=["v", "k"])]
    assert only(plan_of(streams, [join("j", "a", "b", on=("k", "v"))])).reason is Reason.KEY_MISMATCH


def test_a_join_may_compare_more_columns_than_the_key() -> None:
    assert plan_of([stream("a"), stream("b")], [join("j", "a", "b", on=("k", "v"))]).valid


def test_columns_that_are_compared_must_have_one_type() -> None:
    streams = [stream("a"), stream("b", schema="k INT, v BIGINT, ts TIMESTAMP")]
    problem = only(plan_of(streams, [join("j", "a", "b")]))
    assert problem.reason is Reason.KEY_TYPE_MISMATCH
    assert "STRING on the left and INT on the right" in problem.message


def test_different_partitioners_put_equal_keys_into_different_partitions() -> None:
    problem = only(plan_of([stream("a"), stream("b", partitioner="crc32")], [join("j", "a", "b")]))
    assert problem.reason is Reason.PARTITIONER_MISMATCH
    assert problem.repair is not None
    assert problem.repair.summary == "repartition b by k into 4"


def test_equal_partitioners_that_are_not_ours_agree() -> None:
    assert plan_of([stream("a", partitioner="crc32"), stream("b", partitioner="crc32")], [join("j", "a", "b")]).valid


def test_unknown_partitioners_are_taken_on_trust_and_that_is_said() -> None:
    result = plan_of([stream("a", partitioner="none"), stream("b", partitioner="none")], [join("j", "a", "b")])
    assert result.valid
    assert Reason.PARTITIONER_UNKNOWN in warned(result)


def test_an_undeclared_key_is_a_warning_that_names_the_stream() -> None:
    result = plan_of([stream("a", key=None), stream("b")], [join("j", "a", "b")])
    assert result.valid
    warning = next(w for w in result.warnings if w.reason is Reason.KEY_UNDECLARED)
    assert "declared for a;" in warning.message


@pytest.mark.parametrize("verb", ["aggregate", "deduplicate", "process"])
def test_a_keyed_step_needs_the_partition_key_among_its_columns(verb: str) -> None:
    fields: dict[str, Any] = {"by": ["v"]}
    fields |= {"compute": ["count(*) AS n"]} if verb == "aggregate" else {}
    fields |= {"function": "m:f"} if verb == "process" else {}
    problem = only(plan_of([stream("a", 8)], [step("x", "a", **{verb: fields})]))
    assert problem.reason is Reason.KEY_MISMATCH
    assert problem.repair is not None
    assert problem.repair.new_steps[0].by == ("v",)


def test_a_partitioned_tables_rows_must_lie_where_looked_up() -> None:
    tables = [{"name": "t", "key": ["k"], "sources": ["side"]}]
    streams = [stream("a"), stream("side", key=["v"])]
    result = plan_of(streams, [lookup("l", "a", "t")], tables=tables)
    assert reasons(result) == [Reason.KEY_MISMATCH]
    assert result.problems[0].repair is not None
    assert result.problems[0].repair.broadcast_tables == ("t",)


def test_a_broadcast_table_asks_for_no_key() -> None:
    tables = [{"name": "t", "key": ["k"], "sources": ["side"], "distribution": "Broadcast"}]
    assert plan_of([stream("a", 8, key=["v"]), stream("side", 3)], [lookup("l", "a", "t")], tables=tables).valid


def test_a_key_renamed_by_a_tables_select_is_recognised() -> None:
    tables = [{"name": "t", "key": ["k"], "sources": ["side"], "select": ["id AS k", "w"]}]
    side = stream("side", key=["id"], schema="id STRING, w INT", eventTime=None)
    assert plan_of([stream("a"), side], [lookup("l", "a", "t")], tables=tables).valid


def test_a_lookup_must_name_the_whole_key_of_its_table() -> None:
    tables = [{"name": "t", "key": ["k", "v"], "sources": ["side"], "distribution": "Broadcast"}]
    problem = only(plan_of([stream("a"), stream("side")], [lookup("l", "a", "t")], tables=tables))
    assert problem.reason is Reason.LOOKUP_KEY_MISMATCH


def test_a_table_is_not_written_under_two_keys() -> None:
    streams, tables = [stream("a", key=["v"])], [{"name": "t", "key": ["k"]}]
    problem = only(plan_of(streams, [step("w", "a", toTable="t")], tables=tables))
    assert (problem.reason, problem.step) == (Reason.KEY_MISMATCH, "w")


@pytest.mark.parametrize(("kind", "refused"), [("Inner", False), ("Left", False), ("Right", True), ("Full", True)])
def test_an_outer_join_cannot_keep_rows_that_every_task_has(kind: str, refused: bool) -> None:
    steps = [step("all", "b", broadcast={}), join("j", "a", "all", type=kind)]
    result = plan_of([stream("a"), stream("b")], steps)
    assert (Reason.BROADCAST_REPEATED in reasons(result)) is refused


def test_written_broadcast_rows_repeat_per_task_with_a_warning() -> None:
    steps = [step("all", "a", broadcast={}), step("f", "all", filter="v > 1"), step("w", "f", to="o")]
    assert Reason.BROADCAST_REPEATED in warned(plan_of([stream("a"), stream("o")], steps))


def test_steps_in_event_time_name_the_streams_that_have_none() -> None:
    timeless = stream("b", eventTime=None)
    problem = only(plan_of([stream("a"), timeless], [join("j", "a", "b")]))
    assert problem.reason is Reason.EVENT_TIME_MISSING
    assert "declared for b" in problem.message
    windowed = {"by": ["k"], "window": "1m", "compute": ["count(*) AS n"]}
    assert only(plan_of([timeless], [step("x", "b", aggregate=windowed)])).reason is Reason.EVENT_TIME_MISSING
    assert plan_of([timeless], [step("x", "b", aggregate=COUNT)]).valid
