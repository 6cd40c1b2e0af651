"""A child partition waits for its parent, so that rows of one key keep their order through any growth."""

import random

from hypothesis import given
from hypothesis import strategies as st

from holdfast.tasks.grouping import ExpansionRules, GroupingInput, child_after, group, may_be_read, parents_of_new
from holdfast.tasks.partitions import StreamPartition, parse_partition, partitions_of
from holdfast.tasks.record import ParentEnd, PlacementRecord
from tests.tasks.murmur2 import partition_of


def record_of(counts: dict[str, int], record: PlacementRecord | None = None) -> PlacementRecord:
    partitions = tuple(partitions_of(counts))
    tasks = group(GroupingInput(partitions, stateful=True, record=record.grouping if record else None))
    return PlacementRecord("1", tasks, {}, {})


def test_each_new_partition_names_its_parent_and_the_parents_end() -> None:
    parents = parents_of_new(record_of({"s": 2, "t": 2}), partitions_of({"s": 6, "t": 2, "new": 3}), ExpansionRules())
    assert {str(child): str(parent) for child, parent in parents.items()} == {
        "s/2": "s/0",
        "s/3": "s/1",
        "s/4": "s/0",
        "s/5": "s/1",
    }
    ends = {StreamPartition("s", 0): 10, StreamPartition("s", 1): 7}
    after = child_after(record_of({"s": 2}), parents, ends)
    assert after[StreamPartition("s", 3)] == ParentEnd(StreamPartition("s", 1), 7)


def test_an_earlier_growths_demands_survive_the_next() -> None:
    earlier = {parse_partition("s/1"): ParentEnd(parse_partition("s/0"), 5)}
    record = PlacementRecord("1", record_of({"s": 2}, record_of({"s": 1})).grouping, {}, {}, earlier)
    parents = parents_of_new(record, partitions_of({"s": 4}), ExpansionRules())
    after = child_after(record, parents, {parse_partition("s/0"): 8, parse_partition("s/1"): 3})
    assert after[parse_partition("s/1")] == ParentEnd(parse_partition("s/0"), 5)
    assert after[parse_partition("s/3")] == ParentEnd(parse_partition("s/1"), 3)


def test_a_partition_that_was_always_there_waits_for_nobody() -> None:
    assert may_be_read(parse_partition("s/0"), {}, {})


def test_a_child_waits_until_its_parents_end_of_then() -> None:
    after = {parse_partition("s/2"): ParentEnd(parse_partition("s/0"), 5)}
    assert not may_be_read(parse_partition("s/2"), after, {})
    assert not may_be_read(parse_partition("s/2"), after, {parse_partition("s/0"): 4})
    assert may_be_read(parse_partition("s/2"), after, {parse_partition("s/0"): 5})


def test_behind_an_empty_parent_a_child_waits_for_its_grandparent() -> None:
    s0, s1, s3 = (parse_partition(name) for name in ("s/0", "s/1", "s/3"))
    after = {s1: ParentEnd(s0, 5), s3: ParentEnd(s1, 0)}
    assert not may_be_read(s3, after, {s0: 4})
    assert may_be_read(s3, after, {s0: 5})


@given(
    growths=st.lists(st.tuples(st.integers(0, 6), st.integers(2, 3)), min_size=1, max_size=3),
    more=st.integers(0, 6),
    first=st.integers(1, 3),
    pick=st.randoms(use_true_random=False),
)
def test_rows_of_every_key_are_processed_in_written_order(
    growths: list[tuple[int, int]], more: int, first: int, pick: random.Random
) -> None:
    """Rows are written while the stream grows; then partitions are read one row at a time in any order allowed."""
    log: dict[StreamPartition, list[tuple[bytes, int]]] = {part: [] for part in partitions_of({"s": first})}
    record, count, number = record_of({"s": first}), first, 0
    for written, factor in [*growths, (more, 1)]:
        for _ in range(written):
            key = f"k{pick.randrange(5)}".encode()
            log[StreamPartition("s", partition_of(key, count))].append((key, number))
            number += 1
        count *= factor
        partitions = partitions_of({"s": count})
        parents = parents_of_new(record, partitions, ExpansionRules())
        ends = {part: len(rows) for part, rows in log.items()}
        after = child_after(record, parents, ends)
        record = PlacementRecord("1", record_of({"s": count}, record).grouping, {}, {}, after)
        log |= {part: [] for part in partitions if part not in log}
    processed = dict.fromkeys(log, 0)
    newest: dict[bytes, int] = {}
    while ready := [p for p in log if processed[p] < len(log[p]) and may_be_read(p, record.child_after, processed)]:
        part = pick.choice(ready)
        key, order = log[part][processed[part]]
        processed[part] += 1
        assert newest.get(key, -1) < order
        newest[key] = order
    assert processed == {part: len(rows) for part, rows in log.items()}
