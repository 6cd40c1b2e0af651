"""The rows of layers as who only looks at them reads them: of all keys, or of one.

Rows come combined, in chunks, as `LayeredRows.read` gives them. Must not write anything, and must not know verbs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from holdfast_runtime.columns.hashed_rows import Combine, HashedRows
from holdfast_runtime.columns.key_columns import KeyColumns, same_keys
from holdfast_runtime.state.sorted.layered_rows import LayeredRows


@dataclass(frozen=True, slots=True)
class SingleKey:
    """A key to look up."""

    values: KeyColumns
    width: int
    hash: int

    @classmethod
    def of(cls, key: pa.RecordBatch) -> Self:
        """Return the key that is the only row of a batch."""
        values = KeyColumns.of(key.columns, 1)
        return cls(values, key.num_columns, int(values.hashes()[0]))

    def among(self, rows: HashedRows) -> HashedRows:
        """Return the rows with this key; the columns of their keys come first."""
        part = rows.between(self.hash, self.hash + 1)
        count = len(part.hashes)
        keys = KeyColumns.of(part.rows.columns[: self.width], count)
        mask = same_keys(self.values, np.zeros(count, np.int64), keys, np.arange(count))
        return HashedRows(part.hashes[mask], part.rows.filter(pa.array(mask)))


def read_keys(
    layered: LayeredRows,
    buckets: Sequence[int],
    key: SingleKey | None,
    low: int = 0,
    before: int | None = None,
    combine: Combine | None = None,
) -> Iterator[HashedRows]:
    """Yield the rows of these buckets as `LayeredRows.read` does, all of them or those with one key."""
    if key is None:
        yield from layered.read(buckets, low, before, combine)
    elif key.hash >= low:
        # All rows with one hash are in one chunk, and the first begins with it.
        for chunk in layered.read(buckets, key.hash, before, combine):
            rows = key.among(chunk)
            if len(rows.hashes):
                yield rows
            return
