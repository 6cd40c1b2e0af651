"""What a slot gets of a batch's plan: all that the turns of its tasks need, and nothing of others."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.offsets import NewPartition, Offsets
from holdfast_runtime.loop.next_batch import batch_to
from holdfast_runtime.slot.batch_plan import BatchPlan, Turn
from holdfast_runtime.streams.records import OffsetRange

TASKS = [f"partition-{i}" for i in range(6)]
INPUTS = {
    task: (*(StreamPartition(stream, i) for stream in "ab"), StreamPartition("all", 0)) for i, task in enumerate(TASKS)
}
PARTITIONS = sorted({partition for inputs in INPUTS.values() for partition in inputs})
SIDE = [StreamPartition("side", i) for i in range(2)]
NUMBERS = st.integers(0, 10**12)


def some(partitions: list[StreamPartition]) -> st.SearchStrategy[dict[StreamPartition, int]]:
    return st.dictionaries(st.sampled_from(partitions), NUMBERS)


@st.composite
def plans(draw: st.DrawFn) -> BatchPlan:
    """Plans of batches, most with something that is rare."""
    positions = {partition: draw(NUMBERS) for partition in [*PARTITIONS, *SIDE]}
    end = Offsets(
        batch=draw(st.integers(1, 99)),
        now=draw(NUMBERS),
        positions=positions,
        turns={task: draw(st.integers(1, 99)) for task in TASKS},
        ends=draw(some(PARTITIONS)),
        starts=draw(some(PARTITIONS)),
        taking_part=tuple(task for task in TASKS if draw(st.booleans())),
        jumped=draw(some(PARTITIONS)),
        noticed={PARTITIONS[1]: NewPartition(PARTITIONS[0], 5, draw(st.none() | NUMBERS))},
        tables={"names": draw(st.integers(0, 9))},
        table_inputs=draw(some(SIDE)),
        epochs=draw(some([*PARTITIONS, *SIDE])),
    )
    return batch_to(end, INPUTS, draw(st.integers(1, 9)), first=draw(st.booleans()))


@given(plans(), st.lists(st.integers(0, 3), min_size=len(TASKS), max_size=len(TASKS)))
def test_parts_are_the_plan_restricted_to_their_tasks(plan: BatchPlan, slot_of: list[int]) -> None:
    assert BatchPlan.parse(plan.text()) == plan
    slots = [[task for task, slot in zip(TASKS, slot_of, strict=True) if slot == number] for number in range(4)]
    parts = [BatchPlan.parse(text) for text in plan.texts(slots)]
    turns: dict[str, object] = {}
    for part, tasks in zip(parts, slots, strict=True):
        assert part.turns == {task: plan.turns[task] for task in tasks if task in plan.turns}
        assert head(part) == head(plan)
        if part.turns:
            assert (part.tables, part.table_inputs, part.epochs) == (plan.tables, plan.table_inputs, plan.epochs)
        turns |= part.turns
    assert turns == plan.turns


def head(plan: BatchPlan) -> tuple[object, ...]:
    return plan.batch, plan.epoch, plan.now, plan.wall, plan.first, plan.quiet, plan.lead


def test_one_task_of_all_leads_in_every_part() -> None:
    plan = BatchPlan(3, 1, 1000, first=False, turns=turns_of("b", "a"), lead="b")
    parts = [BatchPlan.parse(text) for text in plan.texts([["a"], ["b"], []])]
    assert [part.lead for part in parts] == ["b", "b", "b"]


def test_a_slot_without_turns_reads_nothing_of_tables() -> None:
    side = StreamPartition("side", 0)
    plan = BatchPlan(
        3, 1, 1000, first=False, turns=turns_of("a"), tables={"names": 2}, table_inputs={side: (0, 5)}, epochs={side: 4}
    )
    with_turn, without = (BatchPlan.parse(text) for text in plan.texts([["a"], ["b"]]))
    assert with_turn == plan
    assert (without.turns, without.tables, without.table_inputs, without.epochs) == ({}, {}, {}, {})


def turns_of(*tasks: str) -> Mapping[str, Turn]:
    return {task: Turn(7, (OffsetRange(StreamPartition("a", 1), 3, 9),)) for task in tasks}
