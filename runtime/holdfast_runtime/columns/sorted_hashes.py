"""Hashes in ascending order: sorting rows by them, finding wanted ones, and the pairs of rows that result.

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
MOST_ROWS = 2**32 - 1
"""The loop numbers rows with 32 bits; a batch has fewer by far."""


@dataclass(frozen=True, slots=True)
class SortedHashes:
    """Rows in the order of their hashes; rows of one hash keep their order."""

    hashes: Words
    order: Rows
    """The row that each hash belongs to."""


def sort_hashes(hashes: Words) -> SortedHashes:
    """Return the rows in the order of their hashes."""
    library = loops()
    if library is None or len(hashes) > MOST_ROWS:
        order = np.argsort(hashes, kind="stable")
        return SortedHashes(hashes[order], order)
    rows = len(hashes)
    hashes = np.ascontiguousarray(hashes)
    places, spare_places = np.empty(rows, np.uint32), np.empty(rows, np.uint32)
    ordered, spare = np.empty(rows, np.uint64), np.empty(rows, np.uint64)
    library.holdfast_order(
        address(hashes), rows, address(places), address(ordered), address(spare_places), address(spare)
    )
    return SortedHashes(ordered, places.astype(np.int64))


@dataclass(frozen=True, slots=True)
class HashMatches:
    """For each wanted hash, where its rows begin and end among sorted ones."""

    begins: Rows
    ends: Rows

    @classmethod
    def none(cls, many: int) -> "HashMatches":
        """Return that so many wanted hashes have none."""
        return cls(np.zeros(many, np.int64), np.zeros(many, np.int64))

    @property
    def counts(self) -> Rows:
        """How many there are of each."""
        return self.ends - self.begins

    def count(self) -> int:
        """Return how many pairs there are, before any is made."""
        return int(self.counts.sum())

    def at(self, places: Rows) -> "HashMatches":
        """Return those of some of the wanted hashes."""
        return HashMatches(self.begins[places], self.ends[places])

    def where(self, kept: Mask) -> "HashMatches":
        """Return the same without those of others than `kept`."""
        return HashMatches(self.begins, np.where(kept, self.ends, self.begins))

    def spread(self, places: Rows, many: int) -> "HashMatches":
        """Return these as those of the wanted hashes at these places among so many, of which the others have none."""
        found = HashMatches.none(many)
        found.begins[places], found.ends[places] = self.begins, self.ends
        return found

    def pairs(self, most: int = CHUNK) -> Iterator[tuple[Rows, Rows]]:
        """Yield pairs (place of the wanted hash, place among the sorted ones), at most so many at a time."""
        wide = self.counts
        places = np.flatnonzero(wide)
        wide = wide[places]
        before = np.concatenate([[0], np.cumsum(wide)])
        total = int(before[-1])
        for start in range(0, total, most):
            end = min(start + most, total)
            first = int(np.searchsorted(before, start, side="right")) - 1
            last = int(np.searchsorted(before, end, side="left"))
            pieces = np.minimum(before[first + 1 : last + 1], end) - np.maximum(before[first:last], start)
            which = np.repeat(np.arange(first, last), pieces)
            within = np.arange(start, end) - before[which]
            wanted = places[which]
            yield wanted, self.begins[wanted] + within


def find_hashes(held: Words, wanted: Words) -> HashMatches:
    """Find hashes in others; both ascend."""
    library = loops()
    if library is None:
        return HashMatches(
            np.searchsorted(held, wanted, side="left").astype(np.int64),
            np.searchsorted(held, wanted, side="right").astype(np.int64),
        )
    held, wanted = np.ascontiguousarray(held), np.ascontiguousarray(wanted)
    begins, ends = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.int64)
    library.holdfast_find(address(held), len(held), address(wanted), len(wanted), address(begins), address(ends))
    return HashMatches(begins, ends)
