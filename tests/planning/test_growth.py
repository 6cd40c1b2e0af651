"""An app that survived a growth stays valid, and a growth that can't be followed is refused with its numbers."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.planning.plan import Plan, PlanningFacts
from holdfast.reasons import Reason
from holdfast.tasks.record import PlacementRecord, RecordInvalidError, parse_record
from tests.planning.apps import join, lookup, only, plan_of, reasons, step, stream, warned


def record_of(run_id: str = "1", **streams: int) -> PlacementRecord:
    """The record of a run whose streams never grew."""
    tasks = max(streams.values())
    grouping = {
        f"partition-{i}": [f"{name}/{i}" for name, count in sorted(streams.items()) if i < count] for i in range(tasks)
    }
    return parse_record({"runId": run_id, "grouping": grouping})


def grown(record: PlacementRecord, a: int, b: int, **spec: Any) -> Plan:
    return plan_of([stream("a", a), stream("b", b)], [join("j", "a", "b")], PlanningFacts(record=record), **spec)


def test_one_side_of_a_join_may_grow() -> None:
    result = grown(record_of(a=4, b=4), a=8, b=4)
    assert result.valid
    assert {task.name: [str(part) for part in task.new] for task in result.tasks} == {
        "partition-0": ["a/4"],
        "partition-1": ["a/5"],
        "partition-2": ["a/6"],
        "partition-3": ["a/7"],
    }


def test_an_app_that_survived_a_growth_is_valid_again() -> None:
    after = record_of(a=4, b=4)
    grouping = {task: [*map(str, parts), f"a/{i + 4}"] for i, (task, parts) in enumerate(after.grouping.items())}
    record = parse_record({"runId": "1", "grouping": grouping})
    assert grown(record, a=8, b=4).valid
    assert grown(record, a=24, b=4).valid


def test_without_the_record_the_same_counts_are_a_mismatch() -> None:
    result = plan_of([stream("a", 8), stream("b", 4)], [join("j", "a", "b")])
    assert reasons(result) == [Reason.PARTITION_COUNT_MISMATCH]


def test_with_expansion_off_growth_counts_as_it_is() -> None:
    result = grown(record_of(a=4, b=4), a=8, b=4, expansion={"enabled": False})
    assert reasons(result) == [Reason.PARTITION_COUNT_MISMATCH]


def test_growth_by_a_non_multiple_names_the_next_multiple() -> None:
    problem = only(grown(record_of(a=4, b=4), a=6, b=4))
    assert problem.reason is Reason.NOT_A_MULTIPLE
    assert all(number in problem.message for number in ("4", "6", "8"))


def test_a_shrunk_stream_is_refused_with_both_counts() -> None:
    result = grown(record_of(a=4, b=4), a=2, b=4)
    shrunk = [problem for problem in result.problems if problem.reason is Reason.PARTITIONS_SHRANK]
    assert "4" in shrunk[0].message
    assert "2" in shrunk[0].message


def test_growth_under_an_unknown_partitioner_needs_a_mapping() -> None:
    streams = [stream("a", 8, partitioner="none")]
    steps = [step("d", "a", deduplicate={"by": ["k"]})]
    known = PlanningFacts(record=record_of(a=4))
    assert only(plan_of(streams, steps, known)).reason is Reason.PARTITIONER_UNKNOWN
    mapped = plan_of(streams, steps, known, expansion={"parent": "partition / (current / previous)"})
    assert mapped.valid
    inputs = [[str(part) for part in task.inputs] for task in mapped.tasks]
    assert inputs == [["a/0"], ["a/1"], ["a/2", "a/4", "a/5"], ["a/3", "a/6", "a/7"]], "what was there stays"


REPARTITIONED = [step("p", "a", repartition={"by": ["k"]}), step("d", "p", deduplicate={"by": ["k"]})]
SIDE_TABLE: dict[str, Any] = {"name": "t", "sources": ["side"], "key": ["k"]}
LOOKED_UP = lookup("l", "a", "t")
FED_BY: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "a repartition": (REPARTITIONED, {}),
    "several repartitions": ([*REPARTITIONED, step("q", "a", repartition={"by": ["ts"]})], {}),
    "a repartition of merged streams": (
        [step("m", "a", "b", merge={}), step("p", "m", repartition={"by": ["k"]}), REPARTITIONED[1]],
        {},
    ),
    "a chain that keeps nothing": (
        [step("f", "a", filter="v > 1"), step("s", "f", select=["k", "v"]), step("d", "b", deduplicate={"by": ["k"]})],
        {},
    ),
    "a broadcast": ([step("c", "a", broadcast={}), step("d", "b", deduplicate={"by": ["k"]})], {}),
    "a look-up in a Broadcast table": (
        [LOOKED_UP, step("p", "l", repartition={"by": ["k"]}), REPARTITIONED[1]],
        {"tables": [{**SIDE_TABLE, "distribution": "Broadcast"}]},
    ),
}
KEPT_BY: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "a repartition and a deduplicate": ([*REPARTITIONED, step("e", "a", deduplicate={"by": ["k"]})], {}),
    "a deduplicate in front of the repartition": (
        [step("e", "a", deduplicate={"by": ["k"]}), step("p", "e", repartition={"by": ["k"]})],
        {},
    ),
    "a look-up in a Partitioned table": (
        [LOOKED_UP, step("p", "l", repartition={"by": ["k"]})],
        {"tables": [{**SIDE_TABLE, "distribution": "Partitioned"}]},
    ),
    "a table": (
        [step("w", "a", toTable="t"), *REPARTITIONED],
        {"tables": [{"name": "t", "key": ["k"], "schema": "k STRING, v BIGINT, ts TIMESTAMP"}]},
    ),
}


def fed(steps: list[dict[str, Any]], count: int, more: dict[str, Any], **known: Any) -> Plan:
    streams = [stream("a", count, **known), stream("b", 4), stream("side", 4)]
    record = record_of(a=4, b=4, side=4, p=4, q=4)
    return plan_of(streams, steps, PlanningFacts(record=record), **more)


@pytest.mark.parametrize("feeding", FED_BY)
@pytest.mark.parametrize("count", [6, 8, 11])
@pytest.mark.parametrize("partitioner", ["murmur2", "none"])
def test_a_source_of_stateless_steps_grows_by_any_number(feeding: str, count: int, partitioner: str) -> None:
    steps, more = FED_BY[feeding]
    result = fed(steps, count, more, partitioner=partitioner)
    assert reasons(result) == []
    reads = {str(part): task.name for task in result.tasks for part in task.inputs}
    assert [reads[f"a/{number}"] for number in range(count)] == [f"partition-{number % 4}" for number in range(count)]


@pytest.mark.parametrize(("count", "refused"), [(6, [Reason.NOT_A_MULTIPLE]), (3, [Reason.PARTITIONS_SHRANK]), (8, [])])
def test_a_side_input_in_no_task_grows_by_multiples_only(count: int, refused: list[Reason]) -> None:
    table = {**SIDE_TABLE, "distribution": "Broadcast"}
    record = replace(record_of(a=4), side_counts={"side": 4, "gone": 2})
    streams = [stream("a", 4), stream("side", count)]
    assert reasons(plan_of(streams, [LOOKED_UP], PlanningFacts(record=record), tables=[table])) == refused


@pytest.mark.parametrize("keeping", KEPT_BY)
def test_a_source_of_keyed_state_grows_by_multiples_only(keeping: str) -> None:
    steps, more = KEPT_BY[keeping]
    assert reasons(fed(steps, 6, more)) == [Reason.NOT_A_MULTIPLE]
    assert reasons(fed(steps, 8, more, partitioner="none"))[:1] == [Reason.PARTITIONER_UNKNOWN]


def test_a_source_that_only_feeds_a_repartition_does_not_shrink() -> None:
    assert reasons(fed(REPARTITIONED, 3, {})) == [Reason.PARTITIONS_SHRANK]


def test_a_repartitions_source_follows_a_mapping_to_old_partitions() -> None:
    result = fed(REPARTITIONED, 9, {"expansion": {"parent": "partition / 2"}})
    assert reasons(result) == []
    reads = {str(part): int(task.name.removeprefix("partition-")) for task in result.tasks for part in task.inputs}
    assert [reads[f"a/{number}"] for number in range(4, 9)] == [2, 2, 3, 3, 0], "8 / 2 was no partition of four"


@pytest.mark.parametrize("parent", ["partition", "partition - 100", "partition / 0", "current"])
def test_a_mapping_that_gives_no_old_partition_is_refused(parent: str) -> None:
    streams, steps = [stream("a", 8)], [step("d", "a", deduplicate={"by": ["k"]})]
    problem = only(plan_of(streams, steps, PlanningFacts(record=record_of(a=4)), expansion={"parent": parent}))
    assert "expansion.parent" in problem.message


def test_a_record_of_another_run_is_never_used() -> None:
    result = grown(record_of("0", a=2, b=2), a=4, b=4)
    assert len(result.tasks) == 4
    assert Reason.RECORD_IGNORED in warned(result)


def test_an_intermediate_stream_keeps_the_count_of_its_tasks() -> None:
    steps = [step("p", "a", repartition={"by": ["k"]}), step("d", "p", deduplicate={"by": ["k"]})]
    result = plan_of(
        [stream("a", 4), stream("big", 64)],
        [*steps, step("f", "big", filter="v > 1")],
        PlanningFacts(record=record_of(a=4, p=4)),
    )
    count = result.stream("p").count
    assert count is not None
    assert count.partitions == 4


@pytest.mark.parametrize(
    ("tree", "named"),
    [
        (3, "must be an object"),
        ({"runId": 1, "grouping": {}}, "runId"),
        ({"runId": "1"}, "grouping"),
        ({"runId": "1", "grouping": {"t": "a/0"}}, "grouping.t"),
        ({"runId": "1", "grouping": {"t": ["a"]}}, "'a'"),
        ({"runId": "1", "grouping": {}, "taskLocation": {"t": 1}}, "taskLocation.t"),
        ({"runId": "1", "grouping": {}, "tasks": {}}, "tasks"),
    ],
)
def test_a_record_that_cannot_be_read_is_refused_by_field(tree: object, named: str) -> None:
    with pytest.raises(RecordInvalidError, match=named.replace("[", "\\[")):
        parse_record(tree)


@pytest.mark.parametrize("parent", ["partition %", "(partition", "partition ** 2", "2 + (previous"])
def test_a_mapping_that_is_no_arithmetic_is_refused_before_growth(parent: str) -> None:
    streams, steps = [stream("a", 8)], [step("d", "a", deduplicate={"by": ["k"]})]
    assert only(plan_of(streams, steps, expansion={"parent": parent})).reason is Reason.INVALID_EXPRESSION


def test_a_recorded_count_is_not_a_cut_one() -> None:
    steps = [step("p", "a", repartition={"by": ["k"]}), step("d", "p", deduplicate={"by": ["k"]})]
    result = plan_of([stream("a", 300)], steps, PlanningFacts(record=record_of(a=300, p=4)))
    count = result.stream("p").count
    assert count is not None
    assert (count.partitions, count.cut_from) == (4, None)
    assert Reason.COUNT_CAPPED not in warned(result)


def test_a_mapping_may_divide_by_zero_until_something_grows() -> None:
    streams, steps = [stream("a", 8)], [step("d", "a", deduplicate={"by": ["k"]})]
    parent = "partition % previous + 0 * (partition / (current - previous))"
    assert plan_of(streams, steps, PlanningFacts(record=record_of(a=4)), expansion={"parent": parent}).valid


UNREAD = step("p", "a", repartition={"by": ["k"]})
KEPT_FROM_B = step("d", "b", deduplicate={"by": ["k"]})


def without_reader(*more: dict[str, Any], **spec: Any) -> Plan:
    """The plan of a repartition that an edit left without a reader, by the record that was written after it."""
    streams = [stream("a", 2), stream("b", 4), stream("out", None, key=None, schema=None, eventTime=None)]
    record = replace(record_of(a=2, b=4), side_counts={"p": 4, "out": 4})
    return plan_of(streams, [UNREAD, KEPT_FROM_B, *more], PlanningFacts(record=record), **spec)


def counted(result: Plan) -> dict[str, int]:
    return {planned.name: planned.count.actual for planned in result.streams if planned.count is not None}


@pytest.mark.parametrize("planning", [{}, {"intermediatePartitions": 2}, {"intermediatePartitions": 8}])
def test_a_stream_that_nobody_reads_keeps_its_count(planning: dict[str, int]) -> None:
    result = without_reader(step("o", "d", to="out"), planning=planning)
    assert counted(result) == {"a": 2, "b": 4, "p": 4, "out": 4}


@pytest.mark.parametrize(("met", "refused"), [("b", []), ("a", [Reason.PARTITION_COUNT_MISMATCH])])
def test_a_new_reader_meets_the_count_that_records_lie_by(met: str, refused: list[Reason]) -> None:
    result = without_reader(join("j", "p", met))
    assert counted(result)["p"] == 4
    assert reasons(result) == refused


@pytest.mark.parametrize("count", [2, 8])
def test_streams_between_stateless_steps_grow_and_never_shrink(count: int) -> None:
    steps = [UNREAD, step("f", "p", filter="v > 1"), step("o", "f", to="out")]
    streams = [stream("a", count), stream("out", 4, key=None, schema=None, eventTime=None)]
    result = plan_of(streams, steps, PlanningFacts(record=record_of(a=count, p=6)))
    assert counted(result)["p"] == max(count, 6)
