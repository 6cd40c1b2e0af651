"""Rows in columns and sorted layers, in one table of a task's store: the state of windows, joins and tables.

A layer is what LSM trees call a sorted run. Rows lie in buckets, numbered by time. A batch appends one layer to a
bucket: its rows in the order of their keys' hashes, cut into pieces of at most 64 Ki rows or 4 MiB. Six layers of one
level are merged into one of the next, a range of hashes at a time, so that no batch pays for all rows of a bucket. A
merge under way has a bound: rows with a lower hash are in its target, all others still in its sources. Stored rows are
never read to be changed: a batch appends newer rows of the key, and `combine` makes the current rows of a key from
those in all layers.

    d <bucket>                   the layers of the bucket, their pieces, and its merges with their bounds
    p <bucket> <layer> <piece>   the rows of a piece: an Arrow record batch without its schema, the hashes in front
    m <bucket> <layer> <piece>   the marks of these rows, a bit each, if rows are marked; merges take them along
    s                            the schema of all rows, see `schema`
    n                            the number of the next layer
    t                            the keys of pieces that are in no layer any more

Pieces that are in no layer any more are deleted by the next batch, without undo: undoing a batch brings back the layers
before it, and their pieces must still be there. No number of a layer is used twice: otherwise a bucket that is dropped
and filled again would have pieces under keys that are to be deleted. Must not know time, keys or verbs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from struct import Struct
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from holdfast_runtime.columns.hashed_rows import END_OF_HASHES, Combine, HashedRows, as_they_are
from holdfast_runtime.columns.key_columns import Rows, Words
from holdfast_runtime.columns.sorted_hashes import HashMatches, find_hashes
from holdfast_runtime.state.sorted.bucket_layers import BucketLayers, Layer, LayerMerge, LayerPart, LayerPiece
from holdfast_runtime.state.sorted.schema import LayeredSchema
from holdfast_runtime.state.sorted.stored_pieces import KEY_LENGTH, SHIFT, PieceRows, StoredPieces, piece_key

FAN_IN = 6
"""How many layers of one level become one of the next."""
PIECE_ROWS = 64 * 1024
PIECE_BYTES = 4 << 20
_LARGE = 12 * 1024
"""To look for hashes in pieces of more rows together gains nothing: what is found is copied once more."""
_TIDIED = 4
"""How many rows are merged for each that is appended: a row is merged once per level, and there are few levels."""
_LEAST_TIDIED = 64 * 1024
_QUIET = 16
"""How many layers others get before a bucket without a new one counts as quiet."""
_SCATTERED = 1 / 8
"""How many rows for each of a quiet bucket's largest layer the others have before they are merged with it."""
_BUCKET = Struct(">Q")
_NUMBER = Struct(">Q")
ASIDE = 2**62
"""The bucket of rows that belong to no stretch of time, behind all buckets that are one."""
_NEXT, _TRASH = b"n", b"t"
_T = TypeVar("_T")


class LayeredTable(Protocol):
    """The methods of a table of the store that `LayeredRows` calls."""

    @property
    def name(self) -> str:
        """The name of the table."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys, None for missing ones."""

    def view_many(self, keys: Sequence[bytes], view: Callable[[Sequence[Any]], _T]) -> _T:
        """Return what `view` makes of the values of these keys, which are there and end with the call."""

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write these values; None deletes."""

    def purge(self, keys: Sequence[bytes]) -> None:
        """Delete keys for good: undoing the batch does not bring them back."""

    def scan(self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Return the rows in key order."""


class LayeredRows:
    """The layers in one table, during one batch of one task."""

    def __init__(
        self,
        table: LayeredTable,
        schema: pa.Schema,
        combine: Combine,
        most: tuple[int, int] = (PIECE_ROWS, PIECE_BYTES),
        *,
        width: int | None = None,
        marked: bool = False,
    ) -> None:
        """Raise `RunsSchemaError` if the table holds rows with other columns than those of `schema`.

        `combine`: makes the current rows of each key from those in all layers. `most`: the rows and bytes of a piece.
        `width`: the length of a bucket in microseconds, stored for tools that show it. `marked`: rows have one more
        column, `MARKED`, which is stored apart from them, so that `mark` can set it later.
        """
        self._table, self.combine, self._most = table, combine, most
        self._settle: Combine = as_they_are
        self._declared = LayeredSchema(schema, width)
        self._declared.check(table)
        self._pieces = StoredPieces(table, schema, most, marked=marked)

    def settling(self, settle: Combine) -> Self:
        """Set a function for the combined rows of merges that take the oldest layer of a bucket; return `self`.

        No layer has older rows of these keys, so the function may leave out deletions.
        """
        self._settle = settle
        return self

    def buckets(self, before: int | None = None) -> Iterator[int]:
        """Yield the numbers of the buckets that have layers, ascending; `before`: only numbers below this one."""
        stop = None if before is None else b"d" + _BUCKET.pack(before + SHIFT)
        for key, _ in self._table.scan(b"d", stop=stop):
            yield _BUCKET.unpack(key[1:])[0] - SHIFT

    def append(self, bucket: int, rows: HashedRows) -> None:
        """Append rows, in the order of their hashes, to a bucket as its newest layer; without rows, do nothing."""
        if not len(rows.hashes):
            return
        self._declared.keep(self._table)
        bucket_layers = self._bucket_layers(bucket)
        number = self._new_number()
        layer = Layer(number, 0, self._pieces.write(bucket, number, 0, rows))
        self._keep(bucket, replace(bucket_layers, layers=(*bucket_layers.layers, layer)))

    def spread(self, buckets: Rows, rows: HashedRows) -> list[int]:
        """Append each row to its bucket of `buckets`, a layer per bucket; return the distinct buckets, ascending."""
        distinct_buckets: list[int] = np.unique(buckets).tolist()
        for bucket in distinct_buckets:
            indices = np.flatnonzero(buckets == bucket)
            part = rows.rows if len(distinct_buckets) == 1 else rows.rows.take(pa.array(indices))
            self.append(bucket, HashedRows(rows.hashes[indices], part))
        return distinct_buckets

    def find(
        self, buckets: Sequence[int], probes: Words, before: int | None = None
    ) -> Iterator[tuple[PieceRows, HashMatches]]:
        """Look up ascending hashes in buckets; yield the rows that have one, and the matches.

        Rows of many small pieces come at once, and older ones first; those of an earlier one of `buckets` count as
        older. `before`: only layers with a number below this one.
        """
        for bounds in self._bounds(buckets, probes, before):
            piece_rows = self._pieces.find(bounds, probes)
            if piece_rows is not None:
                yield piece_rows, find_hashes(piece_rows.hashes, probes)

    def pieces(
        self, bucket: int, before: int | None = None, span: tuple[int, int] = (0, END_OF_HASHES)
    ) -> Iterator[HashedRows]:
        """Yield the rows of a bucket piece by piece, of older layers first.

        `before`: only layers with a number below this one. `span`: only pieces that may hold a hash from the first on
        and before the second, without rows before it.
        """
        for bounds in self._bounds([bucket], None, before, span):
            for bound, piece in zip(bounds.values(), self._pieces.read([*bounds]), strict=True):
                rows = piece.between(bound, END_OF_HASHES)
                if len(rows.hashes):
                    yield rows

    def _bounds(
        self,
        buckets: Sequence[int],
        probes: Words | None,
        before: int | None,
        span: tuple[int, int] = (0, END_OF_HASHES),
    ) -> Iterator[dict[bytes, int]]:
        """Yield the keys of pieces with the hash from which on each is read: many small ones together, or a large one.

        `probes`: only pieces that may hold such a hash.
        """
        bounds: dict[bytes, int] = {}
        rows = 0
        for part in self._parts(buckets, before):
            layer, bound = part.layer, max(part.bound, span[0])
            for piece in layer.pieces:
                if piece.high < bound or piece.low >= span[1]:
                    continue
                if probes is not None:
                    first = probes.searchsorted(np.uint64(max(piece.low, bound)), side="left")
                    if first == probes.searchsorted(np.uint64(piece.high), side="right"):
                        continue
                size = PIECE_ROWS if probes is not None and piece.rows > _LARGE else piece.rows
                if rows + size > PIECE_ROWS:
                    yield bounds
                    bounds, rows = {}, 0
                bounds[piece_key(part.bucket, layer.number, piece.number)] = bound
                rows += size
        yield bounds

    def _parts(self, buckets: Iterable[int], before: int | None) -> list[LayerPart]:
        """Return the layers of these buckets, older ones first; `before`: only those with a number below this one."""
        parts: list[LayerPart] = []
        for bucket in buckets:
            bucket_layers = self._bucket_layers(bucket)
            layers = (layer for layer in bucket_layers.layers if before is None or layer.number < before)
            parts += bucket_layers.parts(bucket, layers)
        return parts

    def mark(self, piece_rows: PieceRows, indices: Rows) -> None:
        """Set the marks of the rows at these indices of what `find` has yielded."""
        self._pieces.mark(piece_rows, indices)

    def read(
        self, buckets: Sequence[int], low: int = 0, before: int | None = None, combine: Combine | None = None
    ) -> Iterator[HashedRows]:
        """Yield the combined rows of these buckets whose hash is at least `low`, in chunks, in the order of hashes.

        All rows with one hash are in the same chunk. Rows of an earlier one of `buckets` count as older. `before`: only
        layers with a number below this one. `combine`: combines rows instead of the function that merges use.
        """
        parts = self._parts(buckets, before)
        while parts and low < END_OF_HASHES:
            rows, low = self._range(parts, low, combine or self.combine)
            if len(rows.hashes):
                yield rows

    def size(self, bucket: int) -> tuple[int, int]:
        """Return the number of layers and of rows in a bucket; rows of a merge under way may count twice."""
        layers = self._bucket_layers(bucket).layers
        return len(layers), sum(layer.rows for layer in layers)

    def drop(self, bucket: int) -> None:
        """Delete the layers of a bucket; their pieces are deleted by the next batch, see `purge`."""
        bucket_layers = self._bucket_layers(bucket)
        self._throw(bucket, ((layer, piece) for layer in bucket_layers.layers for piece in layer.pieces))
        self._table.put_many([b"d" + _BUCKET.pack(bucket + SHIFT)], [None])

    def tidy(self, bucket: int, budget: int) -> int:
        """Advance merges of a bucket until `budget` rows were read or no merge is left; return how many were read."""
        bucket_layers, spent = self._bucket_layers(bucket), 0
        layers_before = bucket_layers
        while spent < budget:
            bucket_layers = self._with_merge(bucket_layers)
            if not bucket_layers.merges:
                break
            # The lowest level first: what it leaves is what the next batches have to look through.
            merge = min(bucket_layers.merges, key=lambda candidate: bucket_layers.layer(candidate.target).level)
            bucket_layers, rows = self._advance(bucket, bucket_layers, merge)
            spent += rows
        if bucket_layers is not layers_before:
            self._keep(bucket, bucket_layers)
        return spent

    def next_number(self) -> int:
        """Return the number of the next layer."""
        (value,) = self._table.get_many([_NEXT])
        return 0 if value is None else int(_NUMBER.unpack(value)[0])

    def tidy_after(self, buckets: Iterable[int], appended: int) -> None:
        """Advance merges of these buckets, by some rows for each of the `appended` rows that the batch has appended."""
        budget = max(_TIDIED * appended, _LEAST_TIDIED)
        for bucket in buckets:
            budget -= self.tidy(bucket, budget)

    def tidy_quiet(self, buckets: Iterable[int]) -> None:
        """Make one layer of all in the first of these buckets that has got none for a while, if they are small.

        What has stopped to grow would keep the layers that it had then, and each batch looks into all of them.
        """
        newest = self.next_number() - _QUIET
        for bucket in buckets:
            bucket_layers = self._bucket_layers(bucket)
            if any(layer.number > newest for layer in bucket_layers.layers):
                continue
            if not bucket_layers.merges and _scattered(bucket_layers.layers):
                bucket_layers = bucket_layers.merging(bucket_layers.layers, self._new_number())
            if bucket_layers.merges:
                self._keep(bucket, self._advance(bucket, bucket_layers, bucket_layers.merges[0])[0])
                break

    def purge(self) -> None:
        """Delete the pieces that earlier batches took out of layers; once per batch, before it takes out any."""
        trash = self._trash()
        if trash:
            self._table.purge(trash)
            self._table.put_many([_TRASH], [None])

    def _with_merge(self, bucket_layers: BucketLayers) -> BucketLayers:
        """Return the layers with a new merge, if a level has `FAN_IN` layers that no merge uses; else unchanged."""
        busy = {number for merge in bucket_layers.merges for number in (merge.target, *merge.sources)}
        levels: dict[int, list[Layer]] = {}
        for layer in bucket_layers.layers:
            if layer.number not in busy:
                levels.setdefault(layer.level, []).append(layer)
        for _, layers in sorted(levels.items()):
            if len(layers) >= FAN_IN:
                return bucket_layers.merging(layers, self._new_number())
        return bucket_layers

    def _advance(self, bucket: int, bucket_layers: BucketLayers, merge: LayerMerge) -> tuple[BucketLayers, int]:
        """Merge the next range of hashes; return the layers after that, and how many rows were read."""
        sources = [bucket_layers.layer(number) for number in merge.sources]
        rows, bound = self._range(bucket_layers.parts(bucket, sources), merge.bound, self.combine)
        read = len(rows.hashes)
        if bucket_layers.layers[0].number in merge.sources:
            rows = self._settle(rows)
        target = bucket_layers.layer(merge.target)
        after = target.pieces[-1].number + 1 if target.pieces else 0
        pieces = (*target.pieces, *self._pieces.write(bucket, target.number, after, rows))
        done = tuple((layer, piece) for layer in sources for piece in layer.pieces if piece.high < bound)
        self._throw(bucket, done)
        merged_pieces = {(layer.number, piece.number) for layer, piece in done}
        layers = tuple(
            replace(layer, pieces=pieces)
            if layer is target
            else replace(
                layer,
                pieces=tuple(piece for piece in layer.pieces if (layer.number, piece.number) not in merged_pieces),
            )
            for layer in bucket_layers.layers
        )
        if bound >= END_OF_HASHES:
            layers = tuple(
                layer for layer in layers if layer.number not in merge.sources and (layer is not target or layer.pieces)
            )
            merges = tuple(running_merge for running_merge in bucket_layers.merges if running_merge is not merge)
        else:
            merges = tuple(
                replace(running_merge, bound=bound) if running_merge is merge else running_merge
                for running_merge in bucket_layers.merges
            )
        return replace(bucket_layers, layers=layers, merges=merges), read

    def _range(self, parts: Sequence[LayerPart], low: int, combine: Combine) -> tuple[HashedRows, int]:
        """Return the combined rows of the next range of hashes, which starts at `low`, and the hash behind the range.

        It reaches at least to where the next piece of one of the layers ends, and as far as its pieces make a whole one
        together: so small ones become few. Behind the last piece, its end is `END_OF_HASHES`.
        """
        left = [(part, [piece for piece in part.layer.pieces if piece.high >= max(low, part.bound)]) for part in parts]
        least = min((pieces[0].high + 1 for _, pieces in left if pieces), default=0)
        in_order = [(part, piece) for part, pieces in left for piece in pieces]
        by_hash = sorted((max(piece.low, part.bound), index) for index, (part, piece) in enumerate(in_order))
        most_rows, most_bytes = self._most
        read: dict[int, HashedRows] = {}
        rows = size = 0
        end = END_OF_HASHES
        for first, index in by_hash:
            part, piece = in_order[index]
            if first >= least and (rows + piece.rows > most_rows or size >= most_bytes):
                end = first
                break
            (read[index],) = self._pieces.read([piece_key(part.bucket, part.layer.number, piece.number)])
            rows, size = rows + piece.rows, size + read[index].rows.nbytes
        if not read:
            return HashedRows(np.zeros(0, np.uint64), pa.RecordBatch.from_pylist([], self._pieces.schema)), end
        chunks = [read[index].between(max(low, in_order[index][0].bound), end) for index in sorted(read)]
        return combine(HashedRows.joined(chunks)), end

    def _bucket_layers(self, bucket: int) -> BucketLayers:
        (value,) = self._table.get_many([b"d" + _BUCKET.pack(bucket + SHIFT)])
        return BucketLayers() if value is None else BucketLayers.read(value)

    def _keep(self, bucket: int, bucket_layers: BucketLayers) -> None:
        self._table.put_many([b"d" + _BUCKET.pack(bucket + SHIFT)], [bucket_layers.text()])

    def _new_number(self) -> int:
        number = self.next_number()
        self._table.put_many([_NEXT], [_NUMBER.pack(number + 1)])
        return number

    def _throw(self, bucket: int, pieces: Iterable[tuple[Layer, LayerPiece]]) -> None:
        keys = [piece_key(bucket, layer.number, piece.number) for layer, piece in pieces]
        if keys:
            self._table.put_many([_TRASH], [b"".join([*self._trash(), *self._pieces.stored_keys(keys)])])

    def _trash(self) -> list[bytes]:
        (value,) = self._table.get_many([_TRASH])
        starts = range(0, len(value or b""), KEY_LENGTH)
        return [] if value is None else [value[start : start + KEY_LENGTH] for start in starts]


def _scattered(layers: Sequence[Layer]) -> bool:
    """Whether these layers would make one piece, and enough of it is not in the largest one."""
    rows = [0, *(layer.rows for layer in layers)]
    return sum(rows) <= PIECE_ROWS and sum(rows) - max(rows) > _SCATTERED * max(rows)
