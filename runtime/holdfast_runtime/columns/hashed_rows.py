"""Rows in the order of the hashes of their keys, and the type of functions that combine rows of one key."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast_runtime.columns.key_columns import Words

END_OF_HASHES = 2**64
"""Behind all hashes."""


@dataclass(frozen=True, slots=True)
class HashedRows:
    """Rows in the order of their hashes."""

    hashes: Words
    rows: pa.RecordBatch

    def part(self, start: int, end: int) -> "HashedRows":
        """Return the rows from `start` to before `end`."""
        return HashedRows(self.hashes[start:end], self.rows.slice(start, end - start))

    @classmethod
    def joined(cls, parts: "Sequence[HashedRows]") -> "HashedRows":
        """Return the rows of all parts in the order of hashes; of one hash, those of earlier parts come first."""
        if len(parts) == 1:
            return parts[0]
        hashes = np.concatenate([part.hashes for part in parts])
        order = np.argsort(hashes, kind="stable")  # merges what is sorted already, faster than a sort from nothing
        rows = pa.concat_batches([part.rows for part in parts])
        return cls(hashes[order], rows.take(pa.array(order)))

    def between(self, low: int, end: int) -> "HashedRows":
        """Return the rows whose hash is at least `low` and below `end`."""
        first = int(np.searchsorted(self.hashes, np.uint64(low)))
        last = len(self.hashes) if end >= END_OF_HASHES else int(np.searchsorted(self.hashes, np.uint64(end)))
        return self.part(first, max(first, last))


Combine = Callable[[HashedRows], HashedRows]
"""Make one row of several with one key. Rows of one hash stand together, those of older layers first."""


def as_they_are(rows: HashedRows) -> HashedRows:
    """Return the rows as they are: a `Combine` for layers in which rows of one key stay apart."""
    return rows
