from hypothesis import given
from hypothesis import strategies as st

from holdfast.tables.recovery import SourceBounds, TableLoading
from holdfast.tasks.partitions import StreamPartition

PARTITIONS = [StreamPartition("s", number) for number in range(3)]
OFFSETS = st.integers(0, 20)
BOUNDS = st.dictionaries(st.sampled_from(PARTITIONS), st.builds(SourceBounds, OFFSETS, OFFSETS))
POSITIONS = st.lists(st.dictionaries(st.sampled_from(PARTITIONS), OFFSETS))


@given(BOUNDS, POSITIONS)
def test_a_table_is_loaded_after_every_partitions_end_for_good(
    bounds: dict[StreamPartition, SourceBounds], steps: list[dict[StreamPartition, int]]
) -> None:
    loading = TableLoading.noted(bounds)
    furthest = {partition: bound.start for partition, bound in bounds.items()}
    for positions in steps:
        loading = loading.reached(positions)
        furthest = {partition: max(at, positions.get(partition, at)) for partition, at in furthest.items()}
        left = {partition: bound.end - furthest[partition] for partition, bound in bounds.items()}
        assert loading.loaded == all(offsets <= 0 for offsets in left.values())
        assert loading.left == sum(offsets for offsets in left.values() if offsets > 0)


def test_a_table_with_empty_sources_is_loaded_at_once() -> None:
    assert TableLoading.noted({PARTITIONS[0]: SourceBounds(0, 0), PARTITIONS[1]: SourceBounds(7, 7)}).loaded


def test_positions_that_bring_nothing_new_change_nothing() -> None:
    loading = TableLoading.noted({PARTITIONS[0]: SourceBounds(3, 9)})
    assert loading.reached({PARTITIONS[0]: 2, PARTITIONS[1]: 99}) is loading
