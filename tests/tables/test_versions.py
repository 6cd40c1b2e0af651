from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.tables.versions import Versions
from holdfast.tasks.partitions import StreamPartition
from tests.error_codes import has_code

ONE, TWO = StreamPartition("s", 0), StreamPartition("s", 1)
RECORD, MARKER = "record", "marker"
LOGS = st.tuples(*[st.lists(st.sampled_from([RECORD, RECORD, MARKER]), max_size=12)] * 2)


def test_a_version_is_served_from_its_last_markers_boundary() -> None:
    versions = Versions.empty([ONE, TWO]).marked(ONE, 10)
    assert (versions.version_for(ONE), versions.version_for(TWO)) == (2, 1)
    assert versions.at_boundary().versions.serving is None
    versions = versions.marked(TWO, 4)
    assert versions.serving is None, "not before the batch is over"
    switch = versions.at_boundary()
    assert (switch.versions.serving, switch.removed) == (1, ())


def test_the_old_version_serves_until_the_next_is_sealed() -> None:
    versions = Versions.empty([ONE]).marked(ONE, 10).at_boundary().versions
    assert (versions.serving, versions.version_for(ONE)) == (1, 2)
    switch = versions.marked(ONE, 20).at_boundary()
    assert (switch.versions.serving, switch.removed) == (2, (1,))
    assert switch.versions.at_boundary().removed == ()


def test_of_versions_sealed_within_one_batch_the_last_is_served() -> None:
    versions = Versions.empty([ONE]).marked(ONE, 10).marked(ONE, 20).marked(ONE, 30)
    switch = versions.at_boundary()
    assert (switch.versions.serving, switch.removed) == (3, (1, 2))


def test_a_marker_read_again_seals_nothing() -> None:
    versions = Versions.empty([ONE]).marked(ONE, 10)
    assert versions.marked(ONE, 10) is versions


def test_a_partition_not_feeding_the_table_is_an_error() -> None:
    with pytest.raises(
        HoldfastError, match="a record of s/1 came to a table that is fed from s/0", check=has_code("MarkerOrderError")
    ):
        Versions.empty([ONE]).marked(TWO, 0)


@given(LOGS, st.randoms(), st.integers(1, 5))
def test_look_ups_see_whole_data_sets_in_order(
    logs: tuple[list[str], list[str]], random: Random, batch_size: int
) -> None:
    read = {ONE: 0, TWO: 0}
    queues = {ONE: logs[0], TWO: logs[1]}
    versions, stored, removed = Versions.empty([ONE, TWO]), dict[int, set[tuple[StreamPartition, int]]](), set[int]()
    while any(read[partition] < len(queues[partition]) for partition in queues):
        before = versions.serving
        for _ in range(batch_size):
            partition = random.choice([one for one in queues if read[one] < len(queues[one])] or [ONE])
            if read[partition] == len(queues[partition]):
                break
            offset = read[partition]
            if queues[partition][offset] == MARKER:
                versions = versions.marked(partition, offset)
            else:
                version = versions.version_for(partition)
                assert version not in removed
                assert version != versions.serving, "what is served does not change"
                stored.setdefault(version, set()).add((partition, offset))
            read[partition] += 1
            assert versions.serving == before, "one version in a batch"
        switch = versions.at_boundary()
        versions = switch.versions
        assert not removed.intersection(switch.removed)
        removed.update(switch.removed)
        if versions.serving is not None:
            assert removed == set(range(1, versions.serving))
            assert stored.get(versions.serving, set()) == data_set(queues, versions.serving)


def data_set(queues: dict[StreamPartition, list[str]], version: int) -> set[tuple[StreamPartition, int]]:
    """All records between marker `version - 1` and marker `version` of each partition."""
    return {
        (partition, offset)
        for partition, log in queues.items()
        for offset, what in enumerate(log)
        if what == RECORD and log[:offset].count(MARKER) == version - 1
    }
