"""Rows grouped by key: in the order of hashes, with rows of one key beside each other and in the order they came.

Hashes bring rows of one key together; keys that share a hash are parted by comparing them, which costs a loop for just
those rows. Must not know what is computed over a group.
"""

from dataclasses import dataclass

import numpy as np

from holdfast_runtime.columns.key_columns import KeyColumns, Mask, Rows, Words, same_keys
from holdfast_runtime.columns.sorted_hashes import SortedHashes, sort_hashes


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """Rows by key; a place is an index into these arrays."""

    hashes: Words
    """Ascending."""
    order: Rows
    """The row at each place."""
    groups: Rows
    """The number of the key at each place, from 0 on."""

    @property
    def starts(self) -> Rows:
        """The first place of each group."""
        return starts_of(self.groups)


def starts_of(groups: Rows) -> Rows:
    """Return the first place of each group, where those of one group are neighbours."""
    if not len(groups):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))


def group_rows(keys: KeyColumns, hashes: Words) -> GroupedRows:
    """Group rows by their keys, whose hashes are given."""
    found = sort_hashes(hashes)
    together = found.hashes[1:] == found.hashes[:-1]
    after = np.flatnonzero(together) + 1
    same = same_keys(keys, found.order[after - 1], keys, found.order[after])
    if not same.all():
        found, together = _parted(keys, found, together, after[~same])
    begins = np.concatenate([[True], ~together])[: len(hashes)]
    return GroupedRows(found.hashes, found.order, np.cumsum(begins) - 1)


def _parted(keys: KeyColumns, found: SortedHashes, together: Mask, torn: Rows) -> tuple[SortedHashes, Mask]:
    """Part keys that share a hash; `torn`: places whose key is not that of the place before, though their hash is."""
    order, together = found.order.copy(), together.copy()
    for hash_ in np.unique(found.hashes[torn]):
        start, end = np.searchsorted(found.hashes, hash_, "left"), np.searchsorted(found.hashes, hash_, "right")
        left, at = found.order[start:end], int(start)
        while len(left):
            same = same_keys(keys, np.full(len(left), left[0]), keys, left)
            many = int(same.sum())
            order[at : at + many] = left[same]
            together[at : at + many - 1] = True
            at, left = at + many, left[~same]
            if len(left):
                together[at - 1] = False
    return SortedHashes(found.hashes, order), together
