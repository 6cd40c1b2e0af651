"""What a batch reads: exact, bounded, fair, and never out of order."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from holdfast.tasks.partitions import StreamPartition, parse_partition
from holdfast.tasks.record import ParentEnd
from holdfast_runtime.loop.backlogs import Backlogs, PartitionRows
from holdfast_runtime.loop.ranges import BatchLimits, plan_ranges, slot_of

NOTHING: Mapping[StreamPartition, Any] = {}


class Backlog(NamedTuple):
    """What is left to read of one partition."""

    position: int
    end: int
    record_bytes: float = 0.0

    @property
    def lag(self) -> int:
        return max(0, self.end - self.position)


def ranges_of(
    each: Mapping[StreamPartition, Backlog],
    limits: BatchLimits,
    after: Mapping[StreamPartition, ParentEnd] = NOTHING,
    slot_of: Mapping[StreamPartition, int] = NOTHING,
) -> dict[StreamPartition, tuple[int, int]]:
    rows = PartitionRows(sorted(each))
    position, end, _ = zip(*(each[partition] for partition in rows.partitions), strict=True) if each else ((), (), ())
    sizes = {partition.stream: each[partition].record_bytes for partition in rows.partitions}
    return plan_ranges(Backlogs(rows, position, end, sizes), limits, after, (), slot_of)


def with_sizes(each: Mapping[StreamPartition, Backlog], sizes: tuple[float, float]) -> dict[StreamPartition, Backlog]:
    of_stream = dict(zip("ab", sizes, strict=True))
    return {
        partition: backlog._replace(record_bytes=of_stream[partition.stream]) for partition, backlog in each.items()
    }


BACKLOGS = st.builds(
    with_sizes,
    st.dictionaries(
        st.builds(StreamPartition, st.sampled_from("ab"), st.integers(0, 5)),
        st.builds(lambda position, lag: Backlog(position, position + lag), st.integers(0, 100), st.integers(0, 5_000)),
    ),
    st.tuples(st.floats(0, 2_000), st.floats(0, 2_000)),
)


def backlogs(**lags: int) -> dict[StreamPartition, Backlog]:
    return {parse_partition(name.replace("_", "/")): Backlog(10, 10 + lag, 100.0) for name, lag in lags.items()}


def counts(ranges: dict[StreamPartition, tuple[int, int]]) -> dict[str, int]:
    return {str(partition): end - start for partition, (start, end) in ranges.items()}


def test_a_batch_reads_from_where_the_last_one_stopped() -> None:
    assert ranges_of(backlogs(s_0=5), BatchLimits(100)) == {StreamPartition("s", 0): (10, 15)}


def test_partitions_without_unread_records_are_left_out() -> None:
    assert ranges_of(backlogs(s_0=0), BatchLimits(100)) == {}


def test_no_partition_gives_more_than_its_limit() -> None:
    assert counts(ranges_of(backlogs(s_0=500, s_1=3), BatchLimits(100))) == {"s/0": 100, "s/1": 3}


def test_bytes_serve_the_small_and_give_more_to_the_lagging() -> None:
    got = counts(ranges_of(backlogs(s_0=1_000, s_1=3_000, s_2=2), BatchLimits(10_000, bytes_per_slot=100_000)))
    assert got["s/2"] == 2
    assert got["s/1"] > got["s/0"] > 200
    assert sum(got.values()) <= 1_000


def test_a_record_larger_than_the_limit_is_read_alone() -> None:
    many = {StreamPartition("s", i): Backlog(0, 10 + i, 1_000.0) for i in range(3)}
    assert counts(ranges_of(many, BatchLimits(100, bytes_per_slot=10))) == {"s/2": 1}


def test_a_child_waits_until_its_parent_is_processed() -> None:
    order = {parse_partition("s/1"): ParentEnd(parse_partition("s/0"), 12)}
    assert counts(ranges_of(backlogs(s_0=5, s_1=5), BatchLimits(2), order)) == {"s/0": 2}
    after = {**backlogs(s_1=5), parse_partition("s/0"): Backlog(12, 15)}
    assert counts(ranges_of(after, BatchLimits(2), order)) == {"s/0": 2, "s/1": 2}


def test_large_records_are_not_starved_by_streams_that_never_rest() -> None:
    large, busy = StreamPartition("s", 0), StreamPartition("t", 0)
    position = 0
    for _ in range(20):
        now = {large: Backlog(position, 10, 5_000.0), busy: Backlog(0, 4, 100.0)}
        position = ranges_of(now, BatchLimits(100, bytes_per_slot=1_000)).get(large, (0, position))[1]
    assert position == 10


@given(BACKLOGS, st.integers(1, 1_000), st.one_of(st.none(), st.integers(1, 100_000)))
def test_ranges_are_exact_within_bounds_and_never_empty(
    given_: dict[StreamPartition, Backlog], records: int, most: int | None
) -> None:
    ranges = ranges_of(given_, BatchLimits(records, most))
    for partition, (start, end) in ranges.items():
        assert start == given_[partition].position
        assert start < end <= min(given_[partition].end, start + records)
    assert bool(ranges) == any(backlog.lag for backlog in given_.values())
    if most is not None and len(ranges) > 1:
        largest = max(given_[p].record_bytes for p in ranges)
        assert (
            sum((end - start) * given_[p].record_bytes for p, (start, end) in ranges.items()) <= most * 1.001 + largest
        )


@given(BACKLOGS, st.integers(1, 1_000), st.integers(1, 100_000))
def test_every_record_is_read_in_the_end(given_: dict[StreamPartition, Backlog], records: int, most: int) -> None:
    now = {p: Backlog(b.position, min(b.end, b.position + 50), b.record_bytes) for p, b in given_.items()}
    for _ in range(50 * len(now) + 1):
        ranges = ranges_of(now, BatchLimits(records, most))
        now = {p: Backlog(ranges.get(p, (0, b.position))[1], b.end, b.record_bytes) for p, b in now.items()}
    assert all(not backlog.lag for backlog in now.values())


def test_each_slot_reads_as_much_as_fits_its_memory() -> None:
    each = {**backlogs(s_0=5_000, s_1=5_000, s_2=5_000, t_0=5_000), parse_partition("s/3"): Backlog(0, 20, 100.0)}
    inputs = {f"task-{i}": (StreamPartition("s", i), StreamPartition("t", 0)) for i in range(4)}
    slots = slot_of((("task-0", "task-3"), ("task-1", "task-2")), inputs)
    assert slots == {StreamPartition("s", i): slot for i, slot in enumerate((0, 1, 1, 0))}
    read = counts(ranges_of(each, BatchLimits(10_000, bytes_per_slot=100_000), slot_of=slots))
    assert read["s/0"] + read["s/3"] == 1_000
    assert read["s/3"] == 20
    assert read["s/1"] == read["s/2"] == 500
    assert read["t/0"] == 1_000, "what all slots read has a share of its own"


@given(BACKLOGS, st.integers(1, 100_000), st.integers(1, 4))
def test_what_other_slots_read_changes_nothing(each: dict[StreamPartition, Backlog], most: int, slots: int) -> None:
    numbers = {partition: partition.partition % slots for partition in each}
    limits = BatchLimits(1_000, most)
    read = ranges_of(each, limits, slot_of=numbers)
    for slot in range(slots):
        of_slot = {partition: backlog for partition, backlog in each.items() if numbers[partition] == slot}
        assert ranges_of(of_slot, limits) == {
            partition: r for partition, r in read.items() if numbers[partition] == slot
        }
