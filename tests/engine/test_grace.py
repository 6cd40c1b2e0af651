"""New partitions wait for producers that do not know of them yet, and whoever writes elsewhere later is counted."""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from holdfast.tasks.grouping import may_be_read
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import ParentEnd
from holdfast_runtime.checkpoint.offsets import NewPartition, Offsets
from holdfast_runtime.loop.next_batch import AttemptInputs, LoopSnapshot, batch_to, left_behind, next_offsets
from holdfast_runtime.loop.ranges import BatchLimits, after_grace, noticed_now, settled
from holdfast_runtime.slot.batch_plan import BatchPlan, SettledPartition
from holdfast_runtime.streams.records import OffsetBounds

P0, P1, P2, P3 = (StreamPartition("s", number) for number in range(4))
BEFORE = AttemptInputs({"t-0": (P0,), "t-1": (P1,)}, frozenset(), BatchLimits(100))
AFTER = replace(
    BEFORE,
    inputs={"t-0": (P0, P2), "t-1": (P1, P3)},
    after={P2: ParentEnd(P0, 10), P3: ParentEnd(P1, 0)},
    grace=500,
)
FIRST = next_offsets(
    Offsets(), BEFORE, LoopSnapshot({P0: OffsetBounds(0, 10), P1: OffsetBounds(0, 0)}, 1_000, first=True)
)


def world(now: int, *ends: int, first: bool = False) -> LoopSnapshot:
    """Where each partition ends."""
    return LoopSnapshot(
        {partition: OffsetBounds(0, end) for partition, end in zip((P0, P1, P2, P3), ends, strict=True)}, now, first
    )


def test_a_new_partition_follows_its_parent_to_the_graces_end() -> None:
    noticed = next_offsets(FIRST, AFTER, world(2_000, 10, 0, 5, 0, first=True))
    assert noticed.noticed == {P2: NewPartition(P0, 2_000), P3: NewPartition(P1, 2_000)}
    # In the grace a producer still writes to the parent, which is read at once.
    early = next_offsets(noticed, AFTER, world(2_499, 13, 0, 6, 0))
    assert early.starts == {P0: 10}
    over = next_offsets(early, AFTER, world(2_500, 300, 0, 7, 0))
    assert over.noticed == {P2: NewPartition(P0, 2_000, 300), P3: NewPartition(P1, 2_000, 0)}
    assert over.starts == {P0: 13}
    # More comes to the parent, for which the new one does not wait.
    steps = [over]
    for end in (350, 450, 500):
        steps.append(next_offsets(steps[-1], AFTER, world(2_600, end, 0, 7, 0)))
    assert [one.starts for one in steps[1:]] == [{P0: 113}, {P0: 213}, {P0: 313, P2: 0}]


def test_what_was_decided_is_known_to_replays_and_later_attempts() -> None:
    noticed = next_offsets(FIRST, AFTER, world(2_000, 12, 0, 5, 0, first=True))
    over = next_offsets(Offsets.parse(noticed.text()), AFTER, world(2_600, 20, 0, 5, 0))
    known = Offsets.parse(over.text())
    assert known == over
    # The next attempt knows the partitions already: it neither waits anew nor for what its own look at them says.
    again = replace(AFTER, after={P2: ParentEnd(P0, 10), P3: ParentEnd(P1, 0)})
    later = next_offsets(known, again, world(9_000, 90, 0, 5, 0, first=True))
    assert later.noticed == over.noticed
    assert later.starts == {P0: 20, P2: 0}


def test_while_nothing_is_readable_something_is_left_without_a_batch() -> None:
    noticed = next_offsets(FIRST, AFTER, world(2_000, 10, 0, 5, 0, first=True))
    waiting = world(2_400, 10, 0, 5, 0)
    assert next_offsets(noticed, AFTER, waiting) is noticed
    assert left_behind(noticed, AFTER, waiting).lags == {"s": (0, 0, 5, 0)}
    assert next_offsets(noticed, AFTER, world(2_500, 10, 0, 5, 0)).starts == {P2: 0}


def test_partitions_from_before_there_was_a_grace_go_on() -> None:
    old = replace(FIRST, positions={**FIRST.positions, P2: 3, P3: 0})
    after = next_offsets(old, AFTER, world(2_000, 12, 0, 9, 0, first=True))
    assert (after.starts, after.noticed) == ({P0: 10, P2: 3}, {})


def test_an_ended_parent_is_not_awaited_beyond_its_end() -> None:
    bounded = replace(AFTER, bounded=frozenset("s"), after={P2: ParentEnd(P0, 40), P3: ParentEnd(P1, 0)}, grace=0)
    ended = replace(FIRST, ends={P0: 10, P1: 0})
    assert next_offsets(ended, bounded, world(2_000, 40, 0, 5, 0, first=True)).starts == {P2: 0}


def test_keys_are_counted_from_the_parents_end_without_the_grace() -> None:
    noticed = next_offsets(FIRST, AFTER, world(2_000, 12, 0, 5, 0, first=True))
    over = next_offsets(noticed, AFTER, world(2_500, 20, 0, 5, 0))
    after = next_offsets(over, AFTER, world(2_600, 25, 0, 6, 0))
    settled_partitions = [
        batch_to(offsets, AFTER.inputs, 1, first=False).turns["t-0"].settled
        for offsets in (FIRST, noticed, over, after)
    ]
    assert settled_partitions == [{}, {}, {}, {P0: SettledPartition(20, 4)}]
    plan = batch_to(after, AFTER.inputs, 1, first=False)
    assert BatchPlan.parse(plan.text()) == plan


def test_a_partition_that_gave_keys_twice_settles_with_the_last() -> None:
    p4 = StreamPartition("s", 4)
    first, waiting, second = NewPartition(P0, 0, 10), NewPartition(P0, 5), NewPartition(P0, 5, 30)
    assert settled({P2: first}) == {P0: 10}
    assert settled({P2: first, p4: waiting}) == {}
    assert settled({P2: first, p4: second, P3: NewPartition(P1, 0, 0)}) == {P0: 30, P1: 0}


def steps() -> st.SearchStrategy[list[tuple[int, int, int]]]:
    """How much later it is each time, and how many records came to parent and child."""
    return st.lists(st.tuples(st.integers(0, 300), st.integers(0, 150), st.integers(0, 50)), min_size=1, max_size=30)


@given(steps(), st.integers(0, 1_000))
def test_a_child_never_overtakes_its_parent_at_the_graces_end(came: list[tuple[int, int, int]], grace: int) -> None:
    reading, offsets = replace(AFTER, grace=grace), FIRST
    for at, (now, parent, child) in enumerate(_added(came)):
        known = world(now, 10 + parent, 0, child, 0, first=at == 0)
        after = next_offsets(offsets, reading, known)
        if P2 in after.starts and after is not offsets:
            child_start = after.noticed[P2]
            assert child_start.end is not None
            assert offsets.positions[P0] >= child_start.end
            assert now >= child_start.at + grace
        offsets = Offsets.parse(after.text())
    # In the end, when all is quiet, all is read.
    late = known.now + grace
    for _ in range(80):
        offsets = next_offsets(offsets, reading, replace(known, now=late))
    assert (offsets.positions[P0], offsets.positions[P2]) == (known.bounds[P0].end, known.bounds[P2].end)


def _added(came: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    now, parent, child = 2_000, 0, 0
    for later, parent_rows, child_rows in came:
        now, parent, child = now + later, parent + parent_rows, child + child_rows
        yield now, parent, child


def test_children_of_children_wait_with_their_parents() -> None:
    order = {P1: ParentEnd(P0, 5), P2: ParentEnd(P1, 0)}
    ends = {P0: OffsetBounds(0, 9), P1: OffsetBounds(0, 0)}
    noticed = noticed_now({}, order, ends, now=100, grace=50)
    held = after_grace(order, noticed, {})
    assert not may_be_read(P2, held, {P0: 9, P1: 0})
    over = after_grace(order, noticed_now(noticed, {}, ends, now=150, grace=50), {})
    assert not may_be_read(P2, over, {P0: 8, P1: 0})
    assert may_be_read(P2, over, {P0: 9, P1: 0})
