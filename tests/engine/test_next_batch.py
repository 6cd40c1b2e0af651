"""Whether there is a next batch, what it reads, and that a replay of it reads the same."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tasks.partitions import StreamPartition, parse_partition
from holdfast.tasks.record import ParentEnd
from holdfast_runtime.checkpoint.offsets import Offsets, OffsetsUnreadableError
from holdfast_runtime.loop.lost_positions import PositionLostError
from holdfast_runtime.loop.next_batch import AttemptInputs, LoopSnapshot, batch_to, left_behind, next_offsets
from holdfast_runtime.loop.ranges import BatchLimits
from holdfast_runtime.slot.batch_plan import BatchPlan, Turn
from holdfast_runtime.streams.records import OffsetBounds, OffsetRange

A0, A1, B0 = (StreamPartition(stream, number) for stream, number in (("a", 0), ("a", 1), ("b", 0)))
READING = AttemptInputs({"partition-0": (A0, B0), "partition-1": (A1,)}, frozenset(), BatchLimits(100))


def seen(now: int = 1000, *, first: bool = False, **bounds: tuple[int, int]) -> LoopSnapshot:
    """`a_0=(oldest, end)`; a partition that is not named is empty."""
    named = {parse_partition(name.replace("_", "/")): OffsetBounds(*span) for name, span in bounds.items()}
    return LoopSnapshot({**dict.fromkeys((A0, A1, B0), OffsetBounds(0, 0)), **named}, now, first)


def test_the_first_batch_of_an_attempt_concerns_all_tasks() -> None:
    after = next_offsets(Offsets(), READING, seen(first=True))
    assert after.taking_part == ("partition-0", "partition-1")
    assert after.turns == {"partition-0": 1, "partition-1": 1}
    assert after.batch == 1


def test_nothing_to_do_is_no_batch() -> None:
    before = next_offsets(Offsets(), READING, seen(first=True))
    assert next_offsets(before, READING, seen(now=2000)) is before


def test_a_task_without_records_takes_no_part() -> None:
    before = next_offsets(Offsets(), READING, seen(first=True))
    after = next_offsets(before, READING, seen(a_1=(0, 5)))
    assert after.taking_part == ("partition-1",)
    assert after.turns == {"partition-0": 1, "partition-1": 2}


@pytest.mark.parametrize(("wake", "takes_part"), [(999, True), (1000, True), (1001, False)])
def test_a_task_takes_part_when_its_wake_up_is_due(wake: int, takes_part: bool) -> None:
    before = next_offsets(Offsets(), READING, seen(now=500, first=True))
    after = next_offsets(before, READING, replace(seen(now=1000), wakes={"partition-1": wake}))
    assert (after is not before) == takes_part


def test_the_clock_of_batches_never_goes_back() -> None:
    before = next_offsets(Offsets(), READING, seen(now=5000, first=True))
    assert next_offsets(before, READING, seen(now=10, a_0=(0, 1))).now == 5000


def test_a_run_begins_behind_an_earlier_ones_intermediate_rows() -> None:
    reading = replace(READING, intermediate=frozenset({"b"}))
    left = seen(first=True, a_0=(2, 5), b_0=(3, 9))
    first = next_offsets(Offsets(), reading, left)
    assert (first.starts, first.positions[B0]) == ({A0: 2}, 9)
    assert Offsets.parse(first.text()) == first
    then = next_offsets(first, reading, seen(a_0=(2, 5), b_0=(3, 11)))
    assert (then.starts, then.positions[B0]) == ({B0: 9}, 11)


def test_an_own_partition_that_comes_later_is_read_whole() -> None:
    reading = replace(READING, intermediate=frozenset({"b"}))
    before = next_offsets(
        Offsets(), AttemptInputs({"partition-0": (A0,)}, frozenset(), BatchLimits(100)), seen(first=True)
    )
    after = next_offsets(before, reading, seen(first=True, b_0=(0, 2)))
    assert after.starts == {B0: 0}


def test_a_partition_is_read_from_its_oldest_record_on() -> None:
    first = next_offsets(Offsets(), READING, seen(first=True, a_0=(7, 300)))
    second = next_offsets(first, READING, seen(a_0=(7, 300)))
    turns = [batch_to(one, READING.inputs, 1, first=False).turns["partition-0"] for one in (first, second)]
    assert [turn.ranges for turn in turns] == [(OffsetRange(A0, 7, 107),), (OffsetRange(A0, 107, 207),)]
    assert left_behind(second, READING, seen(a_0=(7, 300))).lags == {"a": (93, 0), "b": (0,)}


def test_a_partition_that_appears_later_begins_at_its_oldest_record() -> None:
    before = next_offsets(
        Offsets(), AttemptInputs({"partition-0": (A0,)}, frozenset(), BatchLimits(100)), seen(first=True)
    )
    after = next_offsets(before, READING, seen(a_1=(3, 5)))
    assert batch_to(after, READING.inputs, 1, first=False).turns == {"partition-1": Turn(1, (OffsetRange(A1, 3, 5),))}


def test_a_child_waits_for_its_parent() -> None:
    reading = replace(READING, after={A1: ParentEnd(A0, 150)})
    world = seen(first=True, a_0=(0, 150), a_1=(0, 9))
    first = next_offsets(Offsets(), reading, world)
    assert A1 not in first.starts
    second = next_offsets(first, reading, replace(world, first=False))
    assert (second.starts, second.positions[A0]) == ({A0: 100}, 150)
    assert next_offsets(second, reading, replace(world, first=False)).starts == {A1: 0}


def test_a_bounded_stream_ends_at_its_first_observed_end() -> None:
    reading = replace(READING, bounded=frozenset("a"))
    first = next_offsets(Offsets(), reading, seen(first=True, a_0=(0, 3)))
    assert next_offsets(first, reading, seen(a_0=(0, 9), a_1=(0, 9))) is first
    turns = batch_to(first, reading.inputs, 1, first=True).turns
    assert turns["partition-0"].ended == (A0,)
    assert turns["partition-1"].ended == (A1,), "an empty partition has ended at once"


@pytest.mark.parametrize(
    ("bounds", "message"),
    [((50, 60), "40 records are gone unread"), ((0, 5), "it was created again, or put back to an older copy")],
)
def test_records_that_are_gone_are_never_skipped_in_silence(bounds: tuple[int, int], message: str) -> None:
    before = next_offsets(Offsets(), READING, seen(first=True, a_0=(0, 10)))
    with pytest.raises(PositionLostError, match=message):
        next_offsets(before, READING, seen(a_0=bounds))


def test_offsets_survive_their_text() -> None:
    offsets = next_offsets(
        Offsets(), replace(READING, bounded=frozenset("b")), seen(first=True, a_0=(0, 9), b_0=(2, 4))
    )
    assert Offsets.parse(offsets.text()) == offsets


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": 1}', "null"])
def test_what_is_no_offsets_is_refused_with_what_it_is(text: str) -> None:
    with pytest.raises(OffsetsUnreadableError, match=r"start under a new spec\.runId"):
        Offsets.parse(text)


def test_offsets_of_another_format_are_refused() -> None:
    with pytest.raises(OffsetsUnreadableError, match=r"format 3, this release of Holdfast reads 2"):
        Offsets.parse(Offsets().text().replace('"format":2', '"format":3'))


def test_offsets_with_a_digit_that_is_another_are_refused() -> None:
    with pytest.raises(OffsetsUnreadableError, match="does not fit its checksum"):
        Offsets.parse(Offsets(batch=7).text().replace('"batch":7', '"batch":6'))


ends = st.dictionaries(st.sampled_from([A0, A1, B0]), st.integers(0, 400), min_size=3)


@given(st.lists(ends, min_size=1, max_size=6))
def test_batches_read_every_record_once_and_in_order(worlds: list[Mapping[StreamPartition, int]]) -> None:
    position, offsets, grown = dict.fromkeys((A0, A1, B0), 0), Offsets(), dict.fromkeys((A0, A1, B0), 0)
    for at, world in enumerate(worlds):
        grown = {one: max(grown[one], world[one]) for one in grown}
        known = LoopSnapshot({partition: OffsetBounds(0, end) for partition, end in grown.items()}, at, at == 0)
        after = next_offsets(offsets, READING, known)
        if after is offsets:
            assert position == grown
            continue
        plan = BatchPlan.parse(batch_to(after, READING.inputs, 3, first=at == 0).text())
        assert plan == batch_to(Offsets.parse(after.text()), READING.inputs, 3, first=at == 0), "as a replay sees it"
        for task, turn in plan.turns.items():
            assert turn.number == offsets.turns.get(task, 0) + 1
            for offset_range in turn.ranges:
                assert offset_range.partition in READING.inputs[task]
                assert offset_range.start == position[offset_range.partition]
                assert 0 < offset_range.end - offset_range.start <= 100
                position[offset_range.partition] = offset_range.end
        offsets = after
    assert all(position[one] <= grown[one] for one in position)


def test_a_topic_made_anew_is_not_read_on_unnoticed() -> None:
    first = next_offsets(Offsets(), READING, replace(seen(first=True, a_0=(0, 5)), ids={"a": "one"}))
    assert Offsets.parse(first.text()).ids == {"a": "one"}
    assert next_offsets(first, READING, replace(seen(a_0=(0, 5)), ids={"a": "one"})) is first
    with pytest.raises(PositionLostError, match="stream a was deleted and created again: its id is two"):
        next_offsets(first, READING, replace(seen(a_0=(0, 9)), ids={"a": "two"}))


def test_the_first_batch_takes_no_more_than_fits() -> None:
    limited = replace(READING, limits=BatchLimits(50_000, 256 << 20))
    unread = replace(seen(first=True, a_0=(0, 50_000), a_1=(0, 50_000)), assumed_bytes={"a": float(1 << 20), "b": 0.0})
    first = next_offsets(Offsets(), limited, unread)
    assert {one: first.positions[one] for one in first.starts} == {A0: 128, A1: 128}
    then = next_offsets(first, limited, replace(unread, record_bytes={"a": 999.5}, assumed_bytes={"b": 0.0}))
    assert {one: then.positions[one] - first.positions[one] for one in then.starts} == {A0: 49_872, A1: 49_872}


def test_the_next_attempt_knows_how_large_records_are() -> None:
    limited = replace(READING, limits=BatchLimits(50_000, 256 << 20))
    before = next_offsets(Offsets(), limited, replace(seen(first=True, a_0=(0, 9)), record_bytes={"a": 99_999.5}))
    assert before.record_bytes == {"a": 100_000}
    assert Offsets.parse(before.text()) == before
    after = next_offsets(before, limited, seen(first=True, a_0=(0, 50_000)))
    assert after.positions[A0] - 9 == (256 << 20) // 100_000
