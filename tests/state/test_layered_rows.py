"""Layers hold what was appended, whatever was merged on the way, and pay for it a bounded part at a time."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast_runtime.columns.hashed_rows import HashedRows, as_they_are
from holdfast_runtime.state.sorted import layered_rows, stored_pieces
from holdfast_runtime.state.sorted.layered_rows import FAN_IN, PIECE_BYTES, PIECE_ROWS, LayeredRows
from holdfast_runtime.state.sorted.stored_pieces import MARKED
from tests.steps.accumulators.cuts import VALUES, exact
from tests.steps.memory import T, view_that_ends

SCHEMA = pa.schema([("n", pa.int64())])
TINY = (4, 1 << 20)
"""Pieces of four rows."""
FEW_HASHES = np.array([*(number * (2**64 // 31) for number in range(31)), 2**64 - 1], np.uint64)
few_hashes = st.sampled_from(FEW_HASHES.tolist())


class MemoryTable:
    """A table in memory, which notes what is purged and what is read."""

    name = "kept"

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.purged: list[bytes] = []
        self.written = 0

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.rows.get(key) for key in keys]

    def view_many(self, keys: Sequence[bytes], view: Callable[[Sequence[Any]], T]) -> T:
        return view_that_ends(self.rows, keys, view)

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        for key, value in zip(keys, values, strict=True):
            if value is None:
                del self.rows[key]
            else:
                self.rows[key] = value
                self.written += len(value)

    def purge(self, keys: Sequence[bytes]) -> None:
        for key in keys:
            del self.rows[key]
            self.purged.append(key)

    def scan(self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        yield from sorted(
            (key, value)
            for key, value in self.rows.items()
            if key.startswith(prefix) and key >= start and (stop is None or key < stop)
        )


@pytest.fixture(autouse=True)
def viewed() -> Iterator[None]:
    """No piece is so small that it is copied before anybody looks into it; one of four rows is looked into alone."""
    with patch.object(stored_pieces, "_SMALL", -1), patch.object(layered_rows, "_LARGE", 3):
        yield


def all_of_it(rows: HashedRows) -> HashedRows:
    return rows


def newest(rows: HashedRows) -> HashedRows:
    """The last row of each hash."""
    last = np.flatnonzero(np.append(rows.hashes[1:] != rows.hashes[:-1], [True] * bool(len(rows.hashes))))
    return HashedRows(rows.hashes[last], rows.rows.take(pa.array(last)))


def hashed(pairs: Sequence[tuple[int, int]]) -> HashedRows:
    ordered = sorted(pairs, key=lambda pair: pair[0])
    return HashedRows(
        np.array([hash_value for hash_value, _ in ordered], np.uint64),
        pa.RecordBatch.from_pydict({"n": [n for _, n in ordered]}, schema=SCHEMA),
    )


def pairs_of(rows: HashedRows) -> list[tuple[int, int]]:
    return list(zip(rows.hashes.tolist(), rows.rows["n"].to_pylist(), strict=True))


class LayersAgainstLists(RuleBasedStateMachine):
    """Any order of appending, merging and dropping, beside lists of pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.table = MemoryTable()
        self.layered = LayeredRows(self.table, SCHEMA, all_of_it, TINY)
        self.model: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.counter = 0

    @rule(bucket=st.integers(-1, 1), hashes=st.lists(few_hashes, max_size=12))
    def append(self, bucket: int, hashes: list[int]) -> None:
        pairs = []
        for hash_value in hashes:
            self.counter += 1
            pairs.append((hash_value, self.counter))
        self.layered.append(bucket, hashed(pairs))
        self.model[bucket] += pairs

    @rule(bucket=st.integers(-1, 1), budget=st.integers(1, 40))
    def tidy(self, bucket: int, budget: int) -> None:
        self.layered.tidy(bucket, budget)

    @rule()
    def tidy_quiet(self) -> None:
        with patch.object(layered_rows, "_QUIET", 1):
            self.layered.tidy_quiet([*self.layered.buckets()])

    @rule(bucket=st.integers(-1, 1))
    def drop(self, bucket: int) -> None:
        if self.model[bucket]:
            self.layered.drop(bucket)
            self.model[bucket] = []

    @rule()
    def next_batch(self) -> None:
        self.layered.purge()

    @invariant()
    def every_row_is_read_once_and_in_order(self) -> None:
        assert list(self.layered.buckets()) == sorted(bucket for bucket, rows in self.model.items() if rows)
        for bucket, rows in self.model.items():
            chunks = [pairs_of(chunk) for chunk in self.layered.read([bucket])]
            assert [pair for chunk in chunks for pair in chunk] == sorted(rows, key=lambda pair: pair[0])
            assert all(earlier[-1][0] < later[0][0] for earlier, later in itertools.pairwise(chunks))

    @invariant()
    def every_row_of_a_hash_is_found_the_oldest_first(self) -> None:
        for bucket, rows in self.model.items():
            sought = sorted({hash_value for hash_value, _ in rows[::2]} | {7})
            numbers = defaultdict(list)
            for piece, matches in self.layered.find([bucket], np.array(sought, np.uint64)):
                values = piece.rows["n"].to_pylist()
                for indices, matched_indices in matches.pairs(5):
                    for index, other in zip(indices.tolist(), matched_indices.tolist(), strict=True):
                        numbers[sought[index]].append(values[other])
            expected = defaultdict(list)
            for hash_value, n in rows:
                if hash_value in sought:
                    expected[hash_value].append(n)
            assert numbers == expected

    def teardown(self) -> None:
        for bucket, rows in self.model.items():
            if rows:
                self.layered.drop(bucket)
        self.layered.purge()
        assert set(self.table.rows) <= {b"n", b"s"}


TestLayersAgainstLists = LayersAgainstLists.TestCase


@pytest.mark.parametrize("name", VALUES)
def test_what_is_found_stays_when_the_view_has_ended(name: str) -> None:
    kind, values = VALUES[name]
    rows = pa.RecordBatch.from_arrays([pa.array([*values, None], kind)], names=["value"])
    hashes = np.arange(rows.num_rows, dtype=np.uint64)
    layered = LayeredRows(MemoryTable(), rows.schema, as_they_are)
    layered.append(0, HashedRows(hashes, rows))
    ((piece_rows, matches),) = layered.find([0], hashes[1:])
    assert piece_rows.hashes.tolist() == hashes[1:].tolist()
    assert exact(piece_rows.rows["value"].to_pylist()) == exact(rows["value"].to_pylist()[1:])
    assert [pair for chunk in matches.pairs() for pair in zip(*chunk, strict=True)] == [
        (index, index) for index in range(rows.num_rows - 1)
    ]


@given(st.lists(st.lists(few_hashes, max_size=8), max_size=20), st.integers(1, 30))
def test_with_a_row_per_key_the_newest_one_is_left(batches: list[list[int]], budget: int) -> None:
    layered = LayeredRows(MemoryTable(), SCHEMA, newest, TINY)
    model = {}
    for number, hashes in enumerate(batches):
        rows = dict.fromkeys(hashes, number)
        model.update(rows)
        layered.append(0, hashed(list(rows.items())))
        layered.tidy(0, budget)
    assert [pair for chunk in layered.read([0]) for pair in pairs_of(chunk)] == sorted(model.items())


def test_what_is_merged_in_a_batch_is_bounded() -> None:
    layered = LayeredRows(MemoryTable(), SCHEMA, all_of_it, (100, 1 << 20))
    random = np.random.default_rng(3)
    for _ in range(200):
        layered.append(0, hashed([(int(one), 1) for one in random.integers(0, 2**64, 300, np.uint64)]))
        # A step takes one piece of each of at most so many layers.
        assert layered.tidy(0, 600) < 600 + 2 * FAN_IN * 100


def test_buckets_stay_at_few_runs_with_few_writes() -> None:
    table = MemoryTable()
    layered = LayeredRows(table, SCHEMA, all_of_it, (1000, 1 << 20))
    random = np.random.default_rng(4)
    for _ in range(400):
        layered.append(0, hashed([(int(one), 1) for one in random.integers(0, 2**64, 500, np.uint64)]))
        layered.tidy(0, 2_000)
        layered.purge()
    pieces = list(layered.find([0], np.array([2**63], np.uint64)))
    assert len(pieces) <= 3 * 2 * FAN_IN
    assert sum(len(chunk.hashes) for chunk in layered.read([0])) == 200_000
    assert table.written / (200_000 * 16) < 8


@pytest.mark.parametrize("most", [(PIECE_ROWS, PIECE_BYTES), (500, PIECE_BYTES), (PIECE_ROWS, 4_000)])
def test_pieces_of_small_batches_become_few(most: tuple[int, int]) -> None:
    layered = LayeredRows(MemoryTable(), SCHEMA, all_of_it, most)
    random = np.random.default_rng(5)
    for batch in range(400):
        layered.append(0, hashed([(int(one), 1) for one in random.integers(0, 2**64, 25, np.uint64)]))
        layered.tidy(0, PIECE_ROWS)
        layered.purge()
        layers, rows = layered.size(0)
        assert rows == 25 * (batch + 1)
        # At least half full, but for the last one of each layer.
        assert len(list(layered.pieces(0))) <= layers + 2 * rows // min(most[0], most[1] // 8)


def test_quiet_buckets_become_one_layer_with_few_writes() -> None:
    table, random = MemoryTable(), np.random.default_rng(6)
    for batch in range(600):
        layered = LayeredRows(table, SCHEMA, all_of_it)
        layered.purge()
        # A late row now and then, as every real stream has them.
        late = [int(random.integers(0, batch // 100 + 1))] if batch % 10 == 0 else []
        for bucket in {batch // 100, *late}:
            layered.append(bucket, hashed([(int(one), 1) for one in random.integers(0, 2**64, 30, np.uint64)]))
            layered.tidy_after([bucket], 30)
        layered.tidy_quiet(layered.buckets(batch // 100))
    sizes = [layered.size(bucket) for bucket in range(6)]
    # A layer each, and those of late rows.
    assert sum(layers for layers, _ in sizes[:5]) < 20
    assert table.written / (sum(rows for _, rows in sizes) * 16) < 6


def test_a_dropped_bucket_is_deleted_a_batch_later() -> None:
    table = MemoryTable()
    layered = LayeredRows(table, SCHEMA, all_of_it)
    layered.append(5, hashed([(1, 1)]))
    (piece,) = (key for key in table.rows if key.startswith(b"p"))
    layered.purge()
    layered.drop(5)
    assert table.purged == []
    assert piece in table.rows
    layered.purge()
    assert table.purged == [piece]
    assert set(table.rows) == {b"n", b"s"}


@pytest.mark.parametrize(("most", "pieces"), [((4, 1 << 20), 3), ((100, 40), 2), ((100, 1 << 20), 1)])
def test_a_run_is_cut_by_rows_and_by_bytes(most: tuple[int, int], pieces: int) -> None:
    table = MemoryTable()
    LayeredRows(table, SCHEMA, all_of_it, most).append(0, hashed([(number, number) for number in range(10)]))
    assert sum(key.startswith(b"p") for key in table.rows) == pieces


@given(
    batches=st.lists(
        st.tuples(st.lists(few_hashes, max_size=9), st.lists(st.integers(0, 200), max_size=6), st.integers(0, 30)),
        min_size=1,
        max_size=25,
    )
)
def test_a_mark_stays_with_its_row_through_all_merges(batches: list[tuple[list[int], list[int], int]]) -> None:
    """Rows come in, some that are there are marked, and a part is merged, batch by batch."""
    table, marked = MemoryTable(), dict[int, bool]()
    for hashes, chosen, budget in batches:
        layered = LayeredRows(table, SCHEMA, as_they_are, TINY, marked=True)
        layered.purge()
        for piece_rows, _ in layered.find([0], FEW_HASHES):
            indices = [index for index, n in enumerate(piece_rows.rows["n"].to_pylist()) if n in chosen]
            if indices:
                layered.mark(piece_rows, np.array(indices))
        marked |= {n: True for n in chosen if n in marked}
        rows = hashed([(hash_value, len(marked) + at) for at, hash_value in enumerate(hashes)])
        numbers = rows.rows["n"].to_pylist()
        born = pa.array([n % 5 == 0 for n in numbers], pa.bool_())
        marked |= {n: n % 5 == 0 for n in numbers}
        layered.append(0, HashedRows(rows.hashes, rows.rows.append_column(MARKED, born)))
        layered.tidy(0, budget)
        merged = [row for piece in layered.pieces(0) for row in piece.rows.to_pylist()]
        assert {row["n"]: row["#marked"] for row in merged} == marked
        assert len(merged) == len(marked)
    if marked:
        layered.drop(0)
    LayeredRows(table, SCHEMA, as_they_are, TINY, marked=True).purge()
    assert not [key for key in table.rows if key[:1] in b"pm"]
