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
    """Rows by key; an index is one into these arrays."""

    hashes: Words
    """Ascending."""
    order: Rows
    """The row at each index."""
    groups: Rows
    """The number of the key at each index, from 0 on."""

    @property
    def starts(self) -> Rows:
        """The first index of each group."""
        return starts_of(self.groups)


def starts_of(groups: Rows) -> Rows:
    """Return the first index of each group; `groups` has the group of each index, equal ones beside each other."""
    if not len(groups):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))


def group_rows(keys: KeyColumns, hashes: Words) -> GroupedRows:
    """Return the rows grouped by key; `hashes` are the hashes of `keys`, row by row."""
    by_hash = sort_hashes(hashes)
    together = by_hash.hashes[1:] == by_hash.hashes[:-1]
    after = np.flatnonzero(together) + 1
    same = same_keys(keys, by_hash.order[after - 1], keys, by_hash.order[after])
    if not same.all():
        by_hash, together = _parted(keys, by_hash, together, after[~same])
    begins = np.concatenate([[True], ~together])[: len(hashes)]
    return GroupedRows(by_hash.hashes, by_hash.order, np.cumsum(begins) - 1)


def _parted(keys: KeyColumns, by_hash: SortedHashes, together: Mask, torn: Rows) -> tuple[SortedHashes, Mask]:
    """Return the rows with keys that share a hash parted, and for each index but the first whether its key goes on.

    `by_hash` are the rows by hash, `together` marks each index but the first that has the hash of the index before, and
    `torn` are the indices whose key isn't that of the index before though the hash is.
    """
    order, together = by_hash.order.copy(), together.copy()
    for hash_ in np.unique(by_hash.hashes[torn]):
        start, end = np.searchsorted(by_hash.hashes, hash_, "left"), np.searchsorted(by_hash.hashes, hash_, "right")
        rest, index = by_hash.order[start:end], int(start)
        while len(rest):
            same = same_keys(keys, np.full(len(rest), rest[0]), keys, rest)
            count = int(same.sum())
            order[index : index + count] = rest[same]
            together[index : index + count - 1] = True
            index, rest = index + count, rest[~same]
            if len(rest):
                together[index - 1] = False
    return SortedHashes(by_hash.hashes, order), together
