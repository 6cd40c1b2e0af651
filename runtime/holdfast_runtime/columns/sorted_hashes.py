"""Hashes in ascending order: sorting rows by them, probing them with other hashes, and the pairs that match.

Pairs are counted before they are made, and made a chunk at a time: a key with a million matches takes no more memory
than a chunk. Must not compare keys: a pair of one hash may be of two keys, which `same_keys` tells apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from holdfast_runtime.columns.key_columns import Mask, Rows, Words
from holdfast_runtime.columns.loops import address, loops

CHUNK = 64 * 1024
"""How many pairs are made at a time."""
_FEW = 256
"""Fewer hashes than this are found by numpy sooner than the loop is called."""
MOST_ROWS = 2**32 - 1
"""The loop numbers rows with 32 bits; a batch has fewer by far."""


@dataclass(frozen=True, slots=True)
class SortedHashes:
    """Rows in the order of their hashes; rows of one hash keep their order."""

    hashes: Words
    order: Rows
    """The row that each hash belongs to."""


def sort_hashes(hashes: Words) -> SortedHashes:
    """Return the rows to which these hashes belong, in the order of the hashes."""
    library = loops()
    if library is None or len(hashes) > MOST_ROWS:
        order = np.argsort(hashes, kind="stable")
        return SortedHashes(hashes[order], order)
    rows = len(hashes)
    hashes = np.ascontiguousarray(hashes)
    indices, spare_indices = np.empty(rows, np.uint32), np.empty(rows, np.uint32)
    ordered, spare = np.empty(rows, np.uint64), np.empty(rows, np.uint64)
    library.holdfast_order(
        address(hashes), rows, address(indices), address(ordered), address(spare_indices), address(spare)
    )
    return SortedHashes(ordered, indices.astype(np.int64))


@dataclass(frozen=True, slots=True)
class HashMatches:
    """For each probe hash, the range of equal hashes among sorted ones."""

    begins: Rows
    """The first index of each range."""
    ends: Rows
    """The index behind each range; a range that ends where it begins is empty."""

    @classmethod
    def none(cls, probe_count: int) -> "HashMatches":
        """Return the matches of `probe_count` probe hashes of which none is among the sorted ones."""
        return cls(np.zeros(probe_count, np.int64), np.zeros(probe_count, np.int64))

    @property
    def counts(self) -> Rows:
        """How many sorted hashes match each probe hash."""
        return self.ends - self.begins

    def count(self) -> int:
        """Return how many pairs there are, before any is made."""
        return int(self.counts.sum())

    def at(self, indices: Rows) -> "HashMatches":
        """Return the matches of the probe hashes at `indices`, in their order."""
        return HashMatches(self.begins[indices], self.ends[indices])

    def where(self, mask: Mask) -> "HashMatches":
        """Return the matches with an empty range for each probe hash of which `mask` is false."""
        return HashMatches(self.begins, np.where(mask, self.ends, self.begins))

    def spread(self, indices: Rows, probe_count: int) -> "HashMatches":
        """Return matches of `probe_count` probe hashes, of which those at `indices` have the ranges of these matches.

        These matches have a range for each of `indices`, in their order; all other ranges are empty. Undoes `at`.
        """
        matches = HashMatches.none(probe_count)
        matches.begins[indices], matches.ends[indices] = self.begins, self.ends
        return matches

    def pairs(self, most: int = CHUNK) -> Iterator[tuple[Rows, Rows]]:
        """Yield all pairs (index of the probe hash, index of the sorted hash), at most `most` at a time."""
        wide = self.counts
        indices = np.flatnonzero(wide)
        wide = wide[indices]
        before = np.concatenate([[0], np.cumsum(wide)])
        total = int(before[-1])
        for start in range(0, total, most):
            end = min(start + most, total)
            first = int(np.searchsorted(before, start, side="right")) - 1
            last = int(np.searchsorted(before, end, side="left"))
            pieces = np.minimum(before[first + 1 : last + 1], end) - np.maximum(before[first:last], start)
            which = np.repeat(np.arange(first, last), pieces)
            within = np.arange(start, end) - before[which]
            probe_indices = indices[which]
            yield probe_indices, self.begins[probe_indices] + within


def find_hashes(sorted_hashes: Words, probes: Words) -> HashMatches:
    """Return for each of `probes` where it is among `sorted_hashes`; both ascend."""
    library = loops()
    if library is None or len(sorted_hashes) + len(probes) < _FEW:
        return HashMatches(
            sorted_hashes.searchsorted(probes, side="left").astype(np.int64, copy=False),
            sorted_hashes.searchsorted(probes, side="right").astype(np.int64, copy=False),
        )
    sorted_hashes, probes = np.ascontiguousarray(sorted_hashes), np.ascontiguousarray(probes)
    begins, ends = np.empty(len(probes), np.int64), np.empty(len(probes), np.int64)
    library.holdfast_find(
        address(sorted_hashes), len(sorted_hashes), address(probes), len(probes), address(begins), address(ends)
    )
    return HashMatches(begins, ends)
