"""Rows of one key are neighbours, in the order they came, also where keys share a hash."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast_runtime.columns.grouping import group_rows
from holdfast_runtime.columns.key_columns import KeyColumns

shared_fixture = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
keys = st.lists(st.tuples(st.none() | st.sampled_from("abcd"), st.integers(0, 2)), max_size=40)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("hashes", [1, 2, 2**64], ids=["one hash for all", "two hashes", "their own hashes"])
@shared_fixture
@given(keys)
def test_groups_are_those_of_a_dict(hashes: int, rows: list[tuple[str | None, int]]) -> None:
    columns = KeyColumns.of(
        [pa.array([text for text, _ in rows], pa.string()), pa.array([number for _, number in rows], pa.int32())],
        len(rows),
    )
    forced = columns.hashes() % np.uint64(hashes) if hashes < 2**64 else columns.hashes()
    grouped = group_rows(columns, forced)
    expected: dict[tuple[str | None, int], list[int]] = {}
    for row, key in enumerate(rows):
        expected.setdefault(key, []).append(row)
    bounds = [*grouped.starts.tolist(), len(rows)]
    parts = [grouped.order[start:end].tolist() for start, end in itertools.pairwise(bounds)]
    assert sorted(parts) == sorted(expected.values())
    assert grouped.groups.tolist() == [number for number, part in enumerate(parts) for _ in part]
    assert (grouped.hashes == forced[grouped.order]).all()
    assert (np.sort(grouped.hashes) == grouped.hashes).all()
