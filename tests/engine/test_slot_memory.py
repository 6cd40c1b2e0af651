"""How many bytes of records a slot reads in one batch."""

import pytest

from holdfast_runtime.driver.slot_memory import bytes_per_slot

MIB = 1 << 20


@pytest.mark.parametrize(
    ("executors", "cores", "heap", "limit"),
    [
        (4, 1, "1g", 1024 * MIB * 4 // 10 // 4),
        (4, 4, "1g", 1024 * MIB * 4 // 10 // 16),
        (4, 2, "4Gi", 4096 * MIB * 4 // 10 // 8),
        (4, 1, "512m", 96 * MIB),
        (4, 1, "786432k", 96 * MIB),
    ],
)
def test_slots_of_executors_read_by_their_share_of_memory(executors: int, cores: int, heap: str, limit: int) -> None:
    assert bytes_per_slot(executors, cores, heap) == pytest.approx(limit, abs=16)


def test_more_executors_read_more_and_not_each_less() -> None:
    assert bytes_per_slot(100, 4, "8g") == bytes_per_slot(1, 4, "8g")


def test_no_slot_is_given_nothing_or_very_much() -> None:
    assert bytes_per_slot(1, 1024, "1g") == 16 * MIB
    assert bytes_per_slot(1, 1, "1t") == 256 * MIB


@pytest.mark.parametrize(("cores", "limit"), [(1, 256), (2, 128), (64, 16)])
def test_slots_of_one_host_share_what_it_gives(cores: int, limit: int) -> None:
    assert bytes_per_slot(0, cores, "1g") == limit * MIB
