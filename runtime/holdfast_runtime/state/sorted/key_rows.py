"""The rows of layers as who only looks at them reads them: of all keys, or of one.

Rows come combined, in chunks, as `LayeredRows.read` gives them. The columns of keys come first in all layers. Must not
write anything, and must not know verbs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from holdfast_runtime.columns.hashed_rows import Combine, HashedRows
from holdfast_runtime.columns.key_columns import KeyColumns, Words, same_keys
from holdfast_runtime.state.sorted.layered_rows import LayeredRows


@dataclass(frozen=True, slots=True)
class SingleKey:
    """A key to look up."""

    values: KeyColumns
    width: int
    """How many columns it has."""
    hashes: Words
    """Its hash."""

    @classmethod
    def of(cls, key: pa.RecordBatch) -> Self:
        """Return the key that is the only row of a batch."""
        values = KeyColumns.of(key.columns, 1)
        return cls(values, key.num_columns, values.hashes())

    def in_layers(self, layered: LayeredRows, bucket: int, before: int | None) -> Iterator[HashedRows]:
        """Yield the uncombined rows with this key in a bucket, of older layers first."""
        for piece, matches in layered.find(bucket, self.hashes, before):
            keys = KeyColumns.of(piece.rows.columns[: self.width], piece.rows.num_rows)
            for probes, indices in matches.pairs():
                hits = indices[same_keys(self.values, probes, keys, indices)]
                if len(hits):
                    yield HashedRows(piece.hashes[hits], piece.rows.take(pa.array(hits)))


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
    elif int(key.hashes[0]) >= low:
        parts = [part for bucket in buckets for part in key.in_layers(layered, bucket, before)]
        if parts:
            rows = (combine or layered.combine)(HashedRows.joined(parts))
            if len(rows.hashes):
                yield rows
