"""Invariant 8: a key never changes its task within a run, however often its stream grows."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.reasons import Reason
from holdfast.tasks.grouping import ExpansionRefusedError, ExpansionRules, GroupingInput, Tasks, group
from holdfast.tasks.partitions import StreamPartition, partitions_of
from tests.tasks.murmur2 import murmur2, partition_of

KEYS = [f"user-{i}".encode() for i in range(200)]
FACTORS = st.lists(st.integers(1, 5), max_size=4)


def grouped(counts: dict[str, int], record: Tasks | None = None, **expansion: object) -> Tasks:
    return group(
        GroupingInput(
            partitions=tuple(partitions_of(counts)),
            stateful=True,
            expansion=ExpansionRules(**expansion),  # type: ignore[arg-type]
            record=record,
        )
    )


def task_of(tasks: Tasks, stream: str, partition: int) -> str:
    return next(task for task, inputs in tasks.items() if StreamPartition(stream, partition) in inputs)


def task_by_key(tasks: Tasks, stream: str, partitions: int) -> dict[bytes, str]:
    return {key: task_of(tasks, stream, partition_of(key, partitions)) for key in KEYS}


@pytest.mark.parametrize(
    ("key", "hash_"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_of_these_tests_is_that_of_java_clients(key: bytes, hash_: int) -> None:
    assert murmur2(key) == hash_ & 0xFFFFFFFF


@given(st.integers(1, 6), FACTORS)
def test_any_chain_of_factors_keeps_every_key_in_its_task(first: int, factors: list[int]) -> None:
    tasks, count = grouped({"s": first}), first
    before = task_by_key(tasks, "s", count)
    for factor in factors:
        count *= factor
        tasks = grouped({"s": count}, tasks)
        assert task_by_key(tasks, "s", count) == before


@given(st.integers(1, 4), FACTORS, FACTORS, st.randoms(use_true_random=False))
def test_independently_grown_sides_of_a_join_still_meet(
    first: int, left: list[int], right: list[int], pick: random.Random
) -> None:
    counts = {"a": first, "b": first}
    tasks = grouped(counts)
    growths = [("a", factor) for factor in left] + [("b", factor) for factor in right]
    pick.shuffle(growths)
    for stream, factor in growths:
        counts[stream] *= factor
        tasks = grouped(counts, tasks)
        assert task_by_key(tasks, "a", counts["a"]) == task_by_key(tasks, "b", counts["b"])


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 8), min_size=1), st.randoms(use_true_random=False))
def test_the_order_of_partitions_and_of_the_record_never_matters(counts: dict[str, int], pick: random.Random) -> None:
    record = grouped(counts)
    grown = {stream: count * pick.randint(1, 3) for stream, count in counts.items()}
    ordered = grouped(grown, record)
    partitions = partitions_of(grown)
    pick.shuffle(partitions)
    shuffled = dict(pick.sample(list(record.items()), len(record)))
    reordered = group(GroupingInput(tuple(partitions), stateful=True, record=shuffled))
    assert list(ordered.items()) == list(reordered.items())


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 8), min_size=1), FACTORS)
def test_every_partition_has_exactly_one_task(counts: dict[str, int], factors: list[int]) -> None:
    tasks = grouped(counts)
    for factor in factors:
        counts = {stream: count * factor for stream, count in counts.items()}
        tasks = grouped(counts, tasks)
    inputs = [partition for parts in tasks.values() for partition in parts]
    assert sorted(inputs) == partitions_of(counts)


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 8), min_size=1))
def test_without_growth_nothing_changes(counts: dict[str, int]) -> None:
    tasks = grouped(counts)
    assert grouped(counts, tasks) == tasks


def test_a_stream_that_came_back_starts_with_base_grouping() -> None:
    before = grouped({"a": 2, "b": 2})
    grown = grouped({"a": 4, "b": 2}, before)
    without = grouped({"b": 2}, grown)
    assert without == {"partition-0": (StreamPartition("b", 0),), "partition-1": (StreamPartition("b", 1),)}
    assert len(grouped({"a": 4, "b": 2}, without)) == 4


def test_a_record_of_other_task_names_is_refused() -> None:
    record: Tasks = {"elsewhere": (StreamPartition("s", 0),)}
    with pytest.raises(ExpansionRefusedError) as refused:
        grouped({"s": 1}, record)
    assert [one.reason for one in refused.value.refusals] == [Reason.TASK_VANISHED]


def test_all_streams_that_cannot_be_followed_are_named_at_once() -> None:
    record = grouped({"a": 4, "b": 4, "c": 4, "d": 4})
    with pytest.raises(ExpansionRefusedError) as refused:
        grouped({"a": 6, "b": 2, "c": 8, "d": 4}, record, unknown_partitioner=frozenset({"c"}))
    assert {one.stream: one.reason for one in refused.value.refusals} == {
        "a": Reason.NOT_A_MULTIPLE,
        "b": Reason.PARTITIONS_SHRANK,
        "c": Reason.PARTITIONER_UNKNOWN,
    }


def test_a_mapping_of_ones_own_may_follow_any_growth() -> None:
    record = grouped({"s": 2})
    tasks = grouped({"s": 5}, record, parent="partition * previous / current")
    assert [[one.partition for one in inputs] for inputs in tasks.values()] == [[0, 2], [1, 3, 4]]


@pytest.mark.parametrize("parent", ["0", "previous - 1", "partition / 2", "(partition + 1) % previous"])
@pytest.mark.parametrize("counts", [(2, 4), (2, 4, 8), (3, 6, 12)])
def test_existing_partitions_stay_with_their_tasks_under_any_mapping(parent: str, counts: tuple[int, ...]) -> None:
    tasks = grouped({"s": counts[0]})
    for count in counts[1:]:
        grown = grouped({"s": count}, tasks, parent=parent)
        assert all({*inputs} <= {*grown[task]} for task, inputs in tasks.items())
        assert sum(map(len, grown.values())) == count
        tasks = grown
