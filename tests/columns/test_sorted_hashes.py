"""Sorting and finding hashes: the loops, their twins and plain Python agree."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast_runtime.columns.sorted_hashes import find_hashes, find_places, sort_hashes

few = st.integers(0, 7).map(lambda number: number * 0x1111111111111111)
hash_lists = st.lists(st.integers(0, 2**64 - 1) | few, max_size=60)
shared_fixture = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.usefixtures("way")
@shared_fixture
@given(hash_lists)
def test_rows_of_one_hash_keep_their_order(hashes: list[int]) -> None:
    ordered = sort_hashes(np.array(hashes, np.uint64))
    assert ordered.order.tolist() == sorted(range(len(hashes)), key=lambda row: hashes[row])
    assert ordered.hashes.tolist() == sorted(hashes)


@pytest.mark.usefixtures("way")
def test_many_hashes_are_sorted_by_all_their_bits() -> None:
    hashes = np.random.default_rng(5).integers(0, 2**64, 100_000, np.uint64)
    for shift in (0, 20, 40, 60):
        shifted = hashes >> np.uint64(shift)
        assert (sort_hashes(shifted).order == np.argsort(shifted, kind="stable")).all()


@pytest.mark.usefixtures("way")
@shared_fixture
@given(hash_lists, hash_lists, st.integers(1, 9))
def test_equal_hashes_are_paired_in_chunks_of_the_asked_size(held: list[int], sought: list[int], most: int) -> None:
    held, sought = sorted(held), sorted(sought)
    matches = find_hashes(np.array(held, np.uint64), np.array(sought, np.uint64))
    expected = [(i, j) for i, hash_value in enumerate(sought) for j, stored in enumerate(held) if hash_value == stored]
    chunks = list(matches.pairs(most))
    assert matches.count() == len(expected)
    assert [
        pair for looked_up, stored in chunks for pair in zip(looked_up.tolist(), stored.tolist(), strict=True)
    ] == expected
    assert [len(looked_up) for looked_up, _ in chunks[:-1]] == [most] * len(chunks[:-1])


@pytest.mark.usefixtures("way")
@shared_fixture
@given(st.lists(st.tuples(hash_lists, hash_lists), min_size=1, max_size=5), hash_lists)
def test_hashes_are_found_in_each_stretch(stretches: list[tuple[list[int], list[int]]], sought: list[int]) -> None:
    """The first hashes of each stretch are not looked at."""
    hashes, begins, ends = list[int](), list[int](), list[int]()
    for passed_over, looked_at in stretches:
        begins.append(len(hashes) + len(passed_over))
        hashes += [*passed_over, *sorted(looked_at)]
        ends.append(len(hashes))
    places = find_places(
        np.array(hashes, np.uint64),
        np.array(begins, np.int64),
        np.array(ends, np.int64),
        np.array(sorted(sought), np.uint64),
    )
    expected = [place for begin, end in zip(begins, ends, strict=True) for place in range(begin, end)]
    assert places.tolist() == [place for place in expected if hashes[place] in sought]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("many", [1, 100, 100_000])
def test_few_and_many_wanted_hashes_are_found(many: int) -> None:
    random = np.random.default_rng(many)
    held = np.sort(random.integers(0, 200_000, 100_000, np.uint64))
    sought = np.sort(random.integers(0, 200_000, many, np.uint64))
    matches = find_hashes(held, sought)
    matching = np.isin(sought, held)
    assert (matches.probes == np.flatnonzero(matching)).all()
    assert (matches.begins == np.searchsorted(held, sought[matching], "left")).all()
    assert (matches.ends == np.searchsorted(held, sought[matching], "right")).all()
