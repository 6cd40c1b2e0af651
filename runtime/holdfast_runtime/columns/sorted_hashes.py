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
    if (hashes[1:] >= hashes[:-1]).all():  # as rows of layers are
        return SortedHashes(hashes, np.arange(len(hashes)))
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
    """For each probe hash that is among sorted ones, the range of equal hashes there."""

    probes: Rows
    """The indices of these probe hashes, ascending."""
    begins: Rows
    """The first index of each range."""
    ends: Rows
    """The index behind each range, which is behind the first one."""

    @property
    def counts(self) -> Rows:
        """How many sorted hashes match each of `probes`."""
        return self.ends - self.begins

    def count(self) -> int:
        """Return how many pairs there are, before any is made."""
        return int(self.counts.sum())

    def of(self, probes: Rows) -> "HashMatches":
        """Return the matches with the probe hashes under other indices, that of each at its index in `probes`."""
        return HashMatches(probes[self.probes], self.begins, self.ends)

    def where(self, mask: Mask) -> "HashMatches":
        """Return the matches of the probe hashes of which `mask` is true."""
        left = mask[self.probes]
        return HashMatches(self.probes[left], self.begins[left], self.ends[left])

    def pairs(self, most: int = CHUNK) -> Iterator[tuple[Rows, Rows]]:
        """Yield all pairs (index of the probe hash, index of the sorted hash), at most `most` at a time."""
        before = np.concatenate([[0], np.cumsum(self.counts)])
        total = int(before[-1])
        for start in range(0, total, most):
            end = min(start + most, total)
            first = int(np.searchsorted(before, start, side="right")) - 1
            last = int(np.searchsorted(before, end, side="left"))
            pieces = np.minimum(before[first + 1 : last + 1], end) - np.maximum(before[first:last], start)
            which = np.repeat(np.arange(first, last), pieces)
            within = np.arange(start, end) - before[which]
            yield self.probes[which], self.begins[which] + within


def find_hashes(sorted_hashes: Words, probes: Words) -> HashMatches:
    """Return where those of `probes` are that are among `sorted_hashes`; both ascend."""
    library = loops()
    if library is None or len(sorted_hashes) + len(probes) < _FEW:
        begins, ends = (sorted_hashes.searchsorted(probes, side).astype(np.int64) for side in ("left", "right"))
    else:
        sorted_hashes, probes = np.ascontiguousarray(sorted_hashes), np.ascontiguousarray(probes)
        begins, ends = np.empty(len(probes), np.int64), np.empty(len(probes), np.int64)
        library.holdfast_find(
            address(sorted_hashes), len(sorted_hashes), address(probes), len(probes), address(begins), address(ends)
        )
    matching = np.flatnonzero(begins < ends)
    return HashMatches(matching, begins[matching], ends[matching])


def find_places(hashes: Words, begins: Rows, ends: Rows, probes: Words) -> Rows:
    """Return the places, ascending, of those of `hashes` that are among the ascending `probes`.

    Hashes are looked at in stretches, each of which ascends: from the place `begins[i]` to before `ends[i]`.
    """
    library = loops()
    if library is None:
        looked_at = spans(begins, ends - begins)
        first, behind = (probes.searchsorted(hashes[looked_at], side) for side in ("left", "right"))
        return looked_at[first < behind]
    hashes, probes = np.ascontiguousarray(hashes), np.ascontiguousarray(probes)
    places, count = np.empty(len(hashes), np.int64), np.zeros(1, np.int64)
    library.holdfast_places(
        *(address(array) for array in (hashes, begins, ends)),
        len(begins),
        address(probes),
        len(probes),
        address(places),
        address(count),
    )
    return places[: count[0]]


def spans(starts: Rows, lengths: Rows) -> Rows:
    """Return the indices of spans, one behind the other."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
