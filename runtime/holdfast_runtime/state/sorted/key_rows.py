"""The rows of layers as who only looks at them reads them: combined, of one key, or of all keys range by range.

A range of hashes has about so many rows, however many layers there are: reading needs no more memory than that, and
reads small pieces several times. The columns of keys come first in all layers. Must not write anything, and must not
know verbs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from holdfast_runtime.columns.hashed_rows import END_OF_HASHES, Combine, HashedRows
from holdfast_runtime.columns.key_columns import KeyColumns, Words, same_keys
from holdfast_runtime.state.sorted.layered_rows import LayeredRows

_FIRST_ROWS, _MOST_ROWS = 32 * 1024, 256 * 1024


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
        for piece, matches in layered.find([bucket], self.hashes, before):
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
    """Yield the combined rows of these buckets, all of them or those with one key, in the order of hashes.

    Rows of an earlier one of `buckets` count as older. `low`: only rows whose hash is at least this. `before`: only
    layers with a number below this one. `combine`: combines rows instead of the function that merges use.
    """
    for parts in (
        _ranges(layered, buckets, low, before) if key is None else [_of_key(layered, buckets, key, low, before)]
    ):
        if parts:
            rows = (combine or layered.combine)(HashedRows.joined(parts))
            if len(rows.hashes):
                yield rows


def _of_key(
    layered: LayeredRows, buckets: Sequence[int], key: SingleKey, low: int, before: int | None
) -> list[HashedRows]:
    if int(key.hashes[0]) < low:
        return []
    return [part for bucket in buckets for part in key.in_layers(layered, bucket, before)]


def _ranges(layered: LayeredRows, buckets: Sequence[int], low: int, before: int | None) -> Iterator[list[HashedRows]]:
    """Yield the parts of each range; the first are short, for who wants but a few rows."""
    rows, range_rows = sum(layered.size(bucket)[1] for bucket in buckets), _FIRST_ROWS
    while rows and low < END_OF_HASHES:
        end = min(low + END_OF_HASHES * range_rows // rows, END_OF_HASHES)
        pieces = (piece for bucket in buckets for piece in layered.pieces(bucket, before=before, span=(low, end)))
        yield [part for piece in pieces if len((part := piece.between(low, end)).hashes)]
        low, range_rows = end, min(2 * range_rows, _MOST_ROWS)
